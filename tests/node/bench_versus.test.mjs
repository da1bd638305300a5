// tilekiln bench MODEL.onnx --vs PACKAGE: compiled by us, run by both, outputs compared first.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { run_cli } from '../support/cli.mjs';
import { temp_folder } from '../support/files.mjs';
import { add_net, conv_net, gather_net } from '../support/graphs.mjs';
import { import_inner } from '../support/inner.mjs';

/** A folder whose node_modules has the project's packages, as a user's has. */
function user_folder(t, files) {
  const folder = temp_folder(t);
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
  return folder;
}

const kShort = ['--runs', '3', '--warmup', '1', '--threads', '1'];

test('a_model_is_raced_against_both_onnxruntimes', async (t) => {
  const cwd = user_folder(t, { 'net.onnx': conv_net(), 'pick.onnx': gather_net() });
  for (const vs of ['onnxruntime-web', 'onnxruntime-node']) {
    for (const model of ['net.onnx', 'pick.onnx']) {
      const { code, stdout, stderr } = await run_cli(['bench', model, '--vs', vs, '--json', ...kShort], { cwd });
      assert.equal(code, 0, stderr);
      const result = JSON.parse(stdout);
      assert.deepEqual([result.model, result.vs, result.runs, result.threads], [model, vs, 3, 1]);
      assert.ok(result.difference < 1e-5 && result.ratio > 0);
      assert.ok(result.ratio_quartiles[0] <= result.ratio && result.ratio <= result.ratio_quartiles[1]);
      const keys = ['load_ms', 'first_ms', 'median_ms', 'p90_ms', 'min_ms', 'gflops'];
      for (const side of [result.ours, result.rival]) {
        assert.deepEqual(Object.keys(side), keys);
        assert.ok(side.median_ms >= side.min_ms && side.min_ms > 0 && side.load_ms > 0 && side.first_ms > 0);
      }
    }
  }
});

test('the_table_ends_with_the_ratio_in_words', async (t) => {
  const cwd = user_folder(t, { 'net.onnx': conv_net({ batch: 'N' }) });
  const args = ['bench', 'net.onnx', '--vs', 'onnxruntime-node', '--input-shape', 'images:2,3,8,8', ...kShort];
  const { code, stdout, stderr } = await run_cli(args, { cwd });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /load ms +first run ms +median ms.*\ntilekiln \((simd|relaxed)\) .*\nonnxruntime-node /);
  assert.match(
    stdout,
    /net\.onnx: tilekiln is [\d.]+ x as fast as onnxruntime-node .*3 runs in turn, 1 thread; outputs differ by/,
  );
});

test('threads_are_the_same_number_for_both', async (t) => {
  const cwd = user_folder(t, { 'net.onnx': conv_net() });
  const args = ['bench', 'net.onnx', '--vs', 'onnxruntime-node', '--runs', '2', '--threads', '2', '--json'];
  const { code, stdout, stderr } = await run_cli(args, { cwd });
  assert.deepEqual([code, stderr], [0, '']);
  assert.equal(JSON.parse(stdout).threads, 2);
});

test('a_package_that_is_absent_is_named_with_the_command_that_gets_it', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const { code, stdout, stderr } = await run_cli(['bench', 'net.onnx', '--vs', 'onnxruntime-web'], { cwd });
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(
    stderr,
    /^error: --vs onnxruntime-web: that package is not installed here \(npm install onnxruntime-web\)\n$/,
  );
});

test('a_package_that_does_not_load_says_why', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const broken = join(cwd, 'node_modules/onnxruntime-node');
  mkdirSync(broken, { recursive: true });
  writeFileSync(join(broken, 'package.json'), '{"main": "index.js"}');
  writeFileSync(join(broken, 'index.js'), 'throw new Error("no binary for this machine");');
  const { code, stderr } = await run_cli(['bench', 'net.onnx', '--vs', 'onnxruntime-node'], { cwd });
  assert.equal(code, 1);
  assert.match(stderr, /^error: --vs onnxruntime-node: the package does not load: .*no binary for this machine/);
});

/** A model that we take and onnxruntime does not: an opset that it does not know yet. */
function future_net() {
  const g = graph('future', { opset: 13, ir_version: 99 });
  g.output(g.node('Relu', [g.input('x', [1, 4])], {}, { outputs: ['y'] }), [1, 4]);
  return write_onnx(g);
}

test('what_cannot_be_raced_is_an_error', async (t) => {
  const cwd = user_folder(t, {
    'net.onnx': conv_net(),
    'half.onnx': add_net('float16'),
    'future.onnx': future_net(),
    'text.onnx': 'no model',
  });
  const vs = ['--vs', 'onnxruntime-node'];
  const cases = [
    [['text.onnx', ...vs], 1, /^error: .*text\.onnx/],
    [['absent.onnx', ...vs], 1, /^error: 'absent\.onnx' cannot be read: no such file/],
    [['half.onnx', ...vs], 1, /^error: output 'sum' is f16, which cannot be compared/],
    [['future.onnx', ...vs], 1, /^error: onnxruntime-node does not take the model: .*IR version/m],
    [
      ['net.onnx', ...vs, '--tolerance', '0'],
      1,
      /^error: output '\w+' differs from onnxruntime-node's by .*allowed: 0 /,
    ],
    [['net.onnx', '--vs', 'tensorflow'], 2, /^error: --vs tensorflow; allowed: onnxruntime-web, onnxruntime-node\n/],
    [vs, 2, /^error: bench needs one ONNX file, got 0\n/],
    [['net.onnx', ...vs, '--image', 'a.jpg'], 2, /^error: --image and --vs do not go together/],
    [['net.onnx', ...vs, '--tolerance', '-1'], 2, /^error: .*--tolerance/],
    [['net.kiln', '--tolerance', '1'], 2, /^error: --tolerance is for --vs/],
    [['net.kiln', '--input-shape', 'x:1'], 2, /^error: --input-shape is for --vs/],
  ];
  for (const [args, expected, message] of cases) {
    const { code, stdout, stderr } = await run_cli(['bench', ...args, ...kShort], { cwd });
    assert.deepEqual([code, stdout], [expected, ''], `${args.join(' ')}: ${stderr}`);
    assert.match(stderr, message);
  }
});

const { race_engines, relative_difference } = await import_inner(['cli/bench_rival.ts']);

test('runs_take_turns_after_the_outputs_are_compared', async () => {
  const calls = [];
  const engine = (name, value) => ({
    load_ms: 1,
    run: async () => {
      calls.push(name);
      return { y: [value, 2] };
    },
    dispose: async () => {},
  });
  const options = { runs: 2, warmup: 1, pause_ms: 0, tolerance: 1e-3 };
  const result = await race_engines(engine('A', 1), engine('B', 1.001), 'onnxruntime-web', options);
  assert.equal(calls.join(''), 'ABABABAB');
  assert.ok(Math.abs(result.difference - 0.0005) < 1e-9);
  assert.deepEqual([result.ours.samples.length, result.rival.samples.length], [2, 2]);
  calls.length = 0;
  await assert.rejects(race_engines(engine('A', 1), engine('B', 1.1), 'onnxruntime-web', options), {
    code: 'INTERNAL',
    message: /output 'y' differs from onnxruntime-web's by 5\.0e-2 of its largest value; allowed: 0\.001/,
  });
  assert.equal(calls.join(''), 'AB', 'nothing is timed');
});

test('differences_are_shares_of_the_largest_value', () => {
  assert.equal(relative_difference([1, 2], [1, 4]), 0.5);
  assert.equal(relative_difference([1n, 2n], [1n, 2n]), 0);
  assert.equal(relative_difference([1], [1, 2]), Infinity);
  assert.equal(relative_difference([NaN, 1], [1, 1]), Infinity);
  assert.equal(relative_difference([NaN, Infinity, 2], [NaN, Infinity, 2]), 0);
  assert.equal(relative_difference([0, 0], [0, 0]), 0);
});
