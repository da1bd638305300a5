// The bench itself: its statistics, its order of turns, its models' lowering, its processes and what it prints.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { graph } from '../../models/onnx_writer.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { lower_channels_last } from '../bench/channels_last.mjs';
import { speed_chart } from '../bench/chart.mjs';
import { replace_section } from '../bench/docs.mjs';
import { Skipped, kEngines } from '../bench/engines.mjs';
import { node_host } from '../bench/hosts.mjs';
import { measure_peak } from '../bench/peak.mjs';
import { permute } from '../bench/permute.mjs';
import { quantile, race, relative_difference, speed_ratio } from '../bench/race.mjs';
import { layer_summary, layers_report, race_text, races_report } from '../bench/report.mjs';
import { api, random_tensor, relative_error, run_onnxruntime } from '../support/api.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net } from '../support/graphs.mjs';

test('ratios_are_medians_of_rounds', () => {
  assert.equal(quantile([4, 1, 3, 2], 0.5), 2.5);
  assert.equal(quantile([7], 0.25), 7);
  const slow_half = speed_ratio([1, 1, 10, 10], [2, 2, 20, 20]); // the machine is ten times slower for two rounds
  assert.deepEqual(slow_half, { ratio: 2, quartiles: [2, 2] });
  assert.deepEqual(speed_ratio([1, 1, 1], [1, 2, 3]), { ratio: 2, quartiles: [1.5, 2.5] });
});

test('differences_are_shares_of_the_largest_value', () => {
  assert.equal(relative_difference([1, 2], [1, 4]), 0.5);
  assert.equal(relative_difference([1], [1, 2]), Infinity);
  assert.equal(relative_difference([NaN], [1]), Infinity);
  assert.equal(relative_difference([NaN, 2], [NaN, 2]), 0);
});

/** An engine that notes its calls and gives the milliseconds it is told. */
function fake_engine(label, calls, times, output = [1]) {
  return {
    label,
    output,
    warm_up: async () => calls.push(`${label} warm`),
    turn: async () => {
      calls.push(label);
      return times.shift();
    },
  };
}

test('engines_take_turns', async () => {
  const calls = [];
  const engines = [fake_engine('A', calls, [1, 2]), fake_engine('B', calls, [3, 4]), fake_engine('C', calls, [5, 6])];
  const results = await race(engines, [1], { rounds: 2, tolerance: 0 });
  assert.equal(calls.join(), 'A warm,B warm,C warm,A,B,C,A,B,C');
  assert.deepEqual(
    results.map(({ samples }) => samples),
    [
      [1, 2],
      [3, 4],
      [5, 6],
    ],
  );
});

test('a_wrong_output_stops_the_race_before_anything_is_timed', async () => {
  const calls = [];
  const engines = [fake_engine('A', calls, [1]), fake_engine('B', calls, [1], [1.5])];
  await assert.rejects(race(engines, [1], { rounds: 1, tolerance: 1e-3 }), {
    message: 'B: the output differs by 0.5 of the largest value; allowed: 0.001',
  });
  assert.deepEqual(calls, []);
});

test('the_peak_is_a_rate', async () => {
  const { muladd, relaxed_madd } = await measure_peak(0);
  assert.ok(muladd > 0.1 && muladd < 10_000, `${muladd}`);
  assert.equal(relaxed_madd !== null, api.capabilities().relaxed);
});

test('axes_are_permuted', () => {
  const nchw = Float32Array.from({ length: 12 }, (_, i) => i); // [1, 2, 2, 3]
  assert.deepEqual([...permute(nchw, [1, 2, 2, 3], [0, 2, 3, 1])], [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]);
  assert.deepEqual([...permute(permute(nchw, [1, 2, 2, 3], [0, 2, 3, 1]), [1, 2, 3, 2], [0, 3, 1, 2])], [...nchw]);
});

/** x [1, 4, 2, 2] and what `build` makes of it. */
function small_graph(build) {
  const g = graph('small', { opset: 13 });
  const x = g.input('x', [1, 4, 2, 2]);
  g.output(build(g, x, (...values) => g.initializer(`i${values}`, 'int64', [values.length], values)));
  return g;
}

test('reshapes_and_transposes_follow_the_memory', () => {
  const { ops, values, output } = lower_channels_last(
    small_graph((g, x, ints) => {
      const rows = g.node('Reshape', [x, ints(0, 4, -1)]);
      const pairs = g.node('Reshape', [rows, ints(1, 2, 2, 4)]);
      return g.node('Transpose', [pairs], { perm: [0, 2, 1, 3] });
    }),
  );
  assert.deepEqual(
    ops.map(({ op }) => op),
    ['reshape', 'reshape'],
  );
  assert.deepEqual(output.dims, [1, 2, 2, 4]);
  assert.deepEqual(output.order, [0, 3, 2, 1], 'pixels, then the channels as they were');
  assert.deepEqual(values[output.id].shape, [1, 4, 2, 2]);
});

test('graphs_that_no_rule_covers_are_refused', () => {
  const cases = [
    [(g, x) => g.node('Erf', [x]), /no rule for Erf; known: Conv/],
    [(g, x, ints) => g.node('Reshape', [x, ints(1, 8, 2)]), /\[1,4,2,2\] to \[1,8,2\] would move elements/],
    [(g, x) => g.node('Softmax', [x], { axis: 3 }), /axis 3 is not the last in memory/],
    [(g, x) => g.node('Relu', [x]), /nothing to fuse with/],
  ];
  for (const [build, message] of cases) assert.throws(() => lower_channels_last(small_graph(build)), { message });
});

test('an_engine_runs_in_a_process_of_its_own', async (t) => {
  const folder = temp_folder(t);
  const file = (name, bytes) => (writeFileSync(join(folder, name), bytes), join(folder, name));
  const input = random_tensor([1, 3, 8, 8], 1);
  const onnx = conv_net();
  const files = {
    onnx: file('net.onnx', onnx),
    bundle: file('net.kiln', await api.compile(onnx)),
    input: file('net.f32', input.data),
  };
  const expected = (await run_onnxruntime(onnx, { images: input })).features.data;
  const host = node_host({ node: process.execPath, version: process.versions.node, flags: [] });
  for (const engine of ['tilekiln-simd', 'onnxruntime-web', 'onnxruntime-node']) {
    const session = await host.open(engine);
    t.after(() => session.close());
    const job = { engine, files, shape: [1, 3, 8, 8], threads: 1 };
    const { output, load_ms, first_ms, wasm_bytes } = await session.call('open', job);
    assert.ok(relative_error(output, expected) < 1e-5, engine);
    assert.ok(load_ms > 0 && first_ms > 0);
    assert.equal(wasm_bytes > 0, !kEngines[engine].is_native);
    assert.ok((await session.call('turn', 1)) > 0);
    if (engine !== 'tilekiln-simd') continue;
    const steps = await session.call('layers', 3);
    assert.ok(steps.length > 0 && steps.every(({ name, ms, macs }) => name && ms >= 0 && macs >= 0));
  }
  const session = await host.open('LiteRT.js');
  t.after(() => session.close());
  await assert.rejects(session.call('open', { engine: 'litert', files, shape: [], threads: 1 }), Skipped);
  await assert.rejects(
    session.call('open', { engine: 'onnxruntime-node', files: { ...files, onnx: files.input }, threads: 1 }),
    {
      message: /protobuf/i,
    },
  );
});

test('a_process_that_dies_is_an_error_and_not_a_wait', async () => {
  const host = node_host({ node: process.execPath, version: '', flags: ['--no-such-flag'] });
  const session = await host.open('an engine');
  await assert.rejects(session.call('peak', 0), {
    message: /an engine: .*(process ended \(9\): .*bad option|channel)/is,
  });
  await session.close();
});

const kPeak = { muladd: 25, relaxed_madd: 50, native: { bits: 256, gflops: 100 } };
const kTimes = { load_ms: 5, first_ms: 12, p90_ms: 11, min_ms: 9, difference: 2e-6, wasm_bytes: 3e6 };
const kRace = {
  model: 'tiny',
  gflop: 0.4,
  host: 'chromium',
  host_version: 'Chromium 1',
  revectorize: false,
  rounds: 3,
  peaks: { 1: kPeak },
  entries: [
    {
      engine: 'tilekiln',
      threads: 1,
      ...kTimes,
      median_ms: 10,
      gflops: 40,
      download: { raw: 1e6, gzip: 4e5 },
      faster_than: { litert: { ratio: 1.5, quartiles: [1.25, 1.75] } },
    },
    { engine: 'litert', threads: 1, ...kTimes, median_ms: 15, gflops: 26.7 },
    { engine: 'tfjs', threads: 1, skipped: 'no reason <at all>' },
  ],
};

test('results_are_told_in_the_terminal_in_markdown_and_as_a_chart', () => {
  const text = race_text(kRace);
  assert.match(text, /^tiny \(0\.40 GFLOP\) in Chromium 1\npeak of one thread: 50\.0 GFLOP\/s in wasm/);
  assert.match(
    text,
    /\ntilekiln +1 +10\.0 ms +11\.0 ms +40\.0 +80 % +12\.0 ms +5\.0 ms +3\.0 MB +0\.40 MB gzip +2\.0e-6\n/,
  );
  assert.match(text, /\nTensorFlow\.js-wasm, one thread: skipped: no reason <at all>\n/);
  assert.match(text, /\ntilekiln against LiteRT\.js, one thread: 1\.50 x \[1\.25 to 1\.75\]$/);

  const markdown = races_report({ machine: '2 × CPU', versions: { a: '1.2.3' }, races: [kRace] });
  assert.match(
    markdown,
    /\| tiny \| \*\*10\.0 ms, 40 GFLOP\/s\*\* \| 15\.0 ms, 27 GFLOP\/s; 1\.50 × \(1\.25–1\.75\) \| – \|/,
  );

  const svg = speed_chart([kRace]);
  assert.match(svg, /^<svg [^]*<\/svg>\n$/);
  assert.equal(svg.match(/<rect class="(ours|rival)"/g).length, 2);
  assert.match(svg, />26\.7 · 15\.0 ms<[^]*>peak 50</);
});

test('layers_are_told_beside_the_peak', () => {
  const steps = [
    { op: 'Conv', name: '/a', kernel: 'conv_f32', shape: '3x3', macs: 1e6, ms: 0.08 },
    { op: 'MaxPool', name: '/b', kernel: 'pool_f32', shape: '', macs: 0, ms: 0.02 },
  ];
  const layers = {
    model: 'tiny',
    engine: 'tilekiln',
    threads: 1,
    host_version: 'Node 1',
    revectorize: false,
    peak: 50,
    steps,
  };
  assert.equal(
    layer_summary(layers),
    'convolutions and products 0.08 of 0.10 ms, 25.0 GFLOP/s, 50 % of the peak; everything else 20.0 % of the time',
  );
  assert.match(
    layers_report({ layers: [layers] }),
    /\| \/a \| conv_f32 \| 3x3 \| 0\.080 \| 80\.0 % \| 25\.0 \| 50 % \|/,
  );
});

test('sections_of_the_page_are_replaced_between_markers', () => {
  const page = 'a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n';
  assert.equal(replace_section(page, 'x', 'new\n'), 'a\n<!-- bench:x -->\n\nnew\n\n<!-- /bench:x -->\nb\n');
  assert.throws(() => replace_section(page, 'y', ''), { message: /no markers <!-- bench:y -->/ });
});

test('wrong_options_are_refused_before_anything_is_built', () => {
  const cases = [
    [['--models', 'resnet99'], /--models resnet99; allowed: resnet18, /],
    [['--hosts', 'deno'], /--hosts deno; allowed: node, chromium/],
    [['--rivals', 'tilekiln'], /--rivals tilekiln; allowed: onnxruntime-web, litert/],
    [['--threads', '1,0'], /--threads 0; allowed: whole numbers from 1/],
    [['--rounds', '2.5'], /--rounds 2\.5; allowed: whole numbers from 1/],
    [['--tolerance', 'small'], /--tolerance small; allowed: numbers from 0/],
    [['--fast'], /Unknown option '--fast'/],
  ];
  for (const [args, message] of cases) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'scripts/bench.mjs'), ...args], {
      encoding: 'utf8',
    });
    assert.deepEqual([status, stdout], [2, ''], args.join(' '));
    assert.match(stderr, message);
    assert.match(stderr, /usage: npm run bench/);
  }
});
