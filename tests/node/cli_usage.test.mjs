// The command line's manners, where no model is needed: help, usage errors with exit code 2, failures with 1, pure stdout.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../scripts/run_stage.mjs';
import { run_cli } from '../support/cli.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net } from '../support/graphs.mjs';
import { import_inner } from '../support/inner.mjs';

const kCommands = ['compile', 'inspect', 'run', 'detect', 'classify', 'bench', 'fetch'];

test('help_lists_the_commands_and_their_options', async () => {
  const { code, stdout, stderr } = await run_cli(['--help']);
  assert.deepEqual([code, stderr], [0, '']);
  for (const name of kCommands) assert.match(stdout, new RegExp(`^  ${name} `, 'm'));
  for (const name of kCommands) {
    const help = await run_cli([name, '--help']);
    assert.deepEqual([help.code, help.stderr], [0, '']);
    assert.match(help.stdout, new RegExp(`usage: tilekiln ${name} `));
  }
});

test('version_is_the_package_version', async () => {
  const { code, stdout } = await run_cli(['--version']);
  assert.equal(code, 0);
  assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
});

const int8 = (...options) => ['compile', 'm.onnx', '--precision', 'int8', ...options];

// Arguments, what stderr says. All exit with 2 and print nothing on stdout.
const kUsageErrors = [
  [['bake'], /unknown command 'bake'; allowed: compile, inspect, run, detect, classify, bench, fetch/],
  [['compile'], /compile needs a model file\nusage: tilekiln compile MODEL\.onnx/],
  [['inspect', '--json'], /inspect needs a model or bundle file/],
  [['run'], /run needs one bundle, got 0/],
  [['run', 'a.kiln', 'b.kiln'], /run needs one bundle, got 2/],
  [['run', 'a.kiln'], /run needs --output-dir DIR/],
  [['detect', 'a.kiln'], /needs a bundle and at least one image/],
  [['detect', 'a.kiln', 'b.jpg', '--score', 'high'], /--score=high; allowed: numbers from 0 to 1/],
  [['detect', 'a.kiln', 'b.jpg', '--score', '1.5'], /--score=1\.5; allowed: numbers from 0 to 1/],
  [['detect', 'a.kiln', 'b.jpg', '--iou=-1'], /--iou=-1; allowed/],
  [['detect', 'a.kiln', 'b.jpg', '--max-det', '2.5'], /--max-det=2\.5; allowed: whole numbers/],
  [['detect', 'a.kiln', 'b.jpg', '--decoder', 'yolo99'], /--decoder yolo99; allowed: yolov5, yolov8, yolox/],
  [['detect', 'a.kiln', 'b.jpg', '--annotate', 'out.gif'], /--annotate out\.gif; allowed endings: \.png/],
  [['detect', 'a.kiln', 'b.jpg', '--wrong'], /Unknown option '--wrong'\nusage: tilekiln detect/],
  [['classify', 'a.kiln'], /needs a bundle and at least one image/],
  [['classify', 'a.kiln', 'b.jpg', '--top', '0'], /--top=0; allowed: whole numbers from 1/],
  [['detect', 'a.kiln', 'b.jpg', '--score', '0.1', '--score=0.2'], /--score is given twice: 0\.1 and 0\.2\nusage: /],
  [['run', 'a.kiln', '--output-dir', 'a', '--output-dir', 'b'], /--output-dir is given twice: a and b/],
  [['fetch', 'yolox_nano', '-o', 'a', '--output', 'b'], /--output is given twice: a and b/],
  [['compile', 'm.onnx', '-o', 'a', '--output=b'], /-o is given twice: a and b/],
  [['compile', 'm.onnx', '--preprocess', 'raw', '--preprocess', 'yolox'], /--preprocess is given twice: raw and yolox/],
  [['compile', 'm.onnx', '--bind', 'x=a.npy', '--bind=x=b.npy'], /--bind x is given twice: x=a\.npy and x=b\.npy/],
  [['inspect', 'm.onnx', '--stage', 'a', '--stage', 'b'], /--stage is given twice: a and b/],
  [['inspect', 'm.onnx', '--svg=a', '--svg=b'], /--svg is given twice: a and b/],
  [['compile', ''], /compile needs a model file/],
  [['inspect', ''], /inspect needs a model or bundle file/],
  [['run', 'a.kiln', '--output-dir', ''], /--output-dir needs a value/],
  [['run', '', '--output-dir', 'a'], /an argument is empty/],
  [['detect', 'a.kiln', ''], /an argument is empty/],
  [['detect', 'a.kiln', 'b.jpg', '--annotate='], /--annotate needs a value/],
  [['bench', 'a.kiln', '--image', ''], /--image needs a value/],
  [['bench'], /bench needs one bundle, got 0/],
  [['bench', 'a.kiln', '--runs', '0'], /--runs=0; allowed: whole numbers from 1/],
  [['bench', 'a.kiln', '--threads', '0'], /--threads=0; allowed: auto, whole numbers from 1 to 64/],
  [['run', 'a.kiln', '--output-dir', 'b', '--threads', '65'], /--threads=65; allowed: auto, whole/],
  [['detect', 'a.kiln', 'b.jpg', '--threads', '1.5'], /--threads=1\.5; allowed: auto, whole/],
  [['classify', 'a.kiln', 'b.jpg', '--threads', 'all'], /--threads=all; allowed: auto, whole/],
  [['bench', 'a.kiln', '--simd', 'avx'], /--simd avx; allowed: auto, simd, relaxed/],
  [
    ['compile', 'm.onnx', '--precision', 'int8'],
    /--precision int8 needs --calibrate DIR\|FILE\.npy: some hundred pictures/,
  ],
  [['compile', 'm.onnx', '--calibrate', 'pictures'], /--calibrate goes with --precision int8 only/],
  [['compile', 'm.onnx', '--report', 'out'], /--report goes with --precision int8 only/],
  [int8('--evaluate', 'd', '--calib-stats', 's.json'), /--evaluate needs --calibrate/],
  [int8('--calibrate', 'd', '--calib-stats', 's.json'), /--calib-stats does not go with --calibrate/],
  [int8('--calibrate', 'd', '--observe'), /--observe does not go with --calibrate/],
  [int8('--calibrate', 'd', '--calibrate', 'e'), /--calibrate is given twice: d and e/],
  [int8('--calibrate', 'd', '--calib-count', '0'), /--calib-count=0; allowed: whole numbers from 1/],
  [int8('--calibrate', 'd', '--calib-method', 'best'), /--calib-method best; allowed: search, minmax, percentile/],
  [int8('--calibrate', 'd', '--accuracy-budget', '1'), /--accuracy-budget needs --evaluate DIR/],
  [
    int8('--calibrate', 'd', '--evaluate', '.', '--accuracy-budget', '-1'),
    /--accuracy-budget=-1; allowed: numbers from 0 to 100/,
  ],
  [['fetch'], /fetch needs one recipe name/],
  [['fetch', 'nothing'], /no recipe 'nothing'; allowed: .*yolox_nano/],
];

test('usage_errors_exit_with_2_and_say_what_is_allowed', async () => {
  for (const [args, message] of kUsageErrors) {
    const { code, stdout, stderr } = await run_cli(args);
    assert.deepEqual([code, stdout], [2, ''], args.join(' '));
    assert.match(stderr, /^error: /);
    assert.match(stderr, message);
  }
  const { code, stdout } = await run_cli([]);
  assert.equal(code, 2);
  assert.match(stdout, /usage: tilekiln COMMAND/);
});

test('failures_exit_with_1_and_leave_stdout_empty', async (t) => {
  const folder = temp_folder(t);
  writeFileSync(join(folder, 'page.kiln'), '<!doctype html>');
  const cases = [
    [['run', 'no.kiln', '--output-dir', 'out'], /^error: 'no\.kiln' cannot be read: no such file\n$/],
    [['detect', 'no.kiln', 'a.jpg', '--json'], /'no\.kiln' cannot be read/],
    [['compile', 'no.onnx'], /^error: 'no\.onnx' cannot be read: no such file\n$/],
    [['inspect', 'no.kiln', '--json'], /cannot be read/],
    [['bench', folder], /cannot be read: it is a folder/],
    [int8('--calibrate', 'no'), /^error: --calibrate: 'no' cannot be read: no such file or folder\n$/],
    [int8('--calibrate', '.'), /^error: --calibrate: no picture in folder '\.'; allowed endings: \.jpg, /],
    [
      int8('--calibrate', 'page.kiln'),
      /^error: --calibrate: 'page\.kiln'; allowed: a folder of pictures, or a \.npy file/,
    ],
    [['fetch', 'tiny_face_detector'], /is built from an npm package's weights: node models\/build\.mjs/],
    [['fetch', 'yolov8n'], /is not published as ONNX; export it with: pip install/],
  ];
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await run_cli(args, { cwd: folder });
    assert.deepEqual([code, stdout], [1, ''], args.join(' '));
    assert.match(stderr, message);
  }
});

test('a_reader_that_goes_away_is_no_error', async () => {
  for (const [args, stream, expected] of [
    [['--help'], 'stdout', 0],
    [[], 'stdout', 2],
    [['bake'], 'stderr', 2],
  ]) {
    const child = spawn(process.execPath, [join(root, 'dist/cli.js'), ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    child[stream].destroy();
    const other = stream === 'stdout' ? 'stderr' : 'stdout';
    let text = '';
    child[other].on('data', (chunk) => (text += chunk));
    const code = await new Promise((resolve) => child.on('close', resolve));
    assert.equal(code, expected, args.join(' '));
    assert.equal(text, '', 'nothing is said about the closed pipe');
  }
});

const { read_compiler_args, without_options, option_value, file_name_of, quantile, table, number_option } =
  await import_inner(['cli/compiler_files.ts', 'cli/run_command.ts', 'cli/bench_command.ts', 'cli/command.ts']);

test('compiler_arguments_are_understood_as_the_compiler_does', () => {
  const cases = [
    [['m.onnx'], 'm.onnx', []],
    [['-o', 'x.kiln', 'm.onnx'], 'm.onnx', [['-o', 'x.kiln']]],
    [['--labels=a.txt', 'm.onnx', '--json'], 'm.onnx', [['--labels', 'a.txt']]],
    [['--json', '--check', 'm.onnx', '--bind', 'x=y.npy'], 'm.onnx', [['--bind', 'x=y.npy']]],
    [['--input-shape', 'images:1,3,640,640'], undefined, [['--input-shape', 'images:1,3,640,640']]],
    [['m.onnx', '--input-shape', '-1,3,8,8'], 'm.onnx', [['--input-shape', '-1,3,8,8']]],
    [['m.onnx', '--wrong'], 'm.onnx', [['--wrong', '']]],
    [
      ['m.onnx', '--input-shape', 'x:1,3', '--input-shape', 'x:4,3', '--bind', 'a=x.npy', '--bind', 'b=x.npy'],
      'm.onnx',
      [
        ['--input-shape', 'x:1,3'],
        ['--input-shape', 'x:4,3'],
        ['--bind', 'a=x.npy'],
        ['--bind', 'b=x.npy'],
      ],
    ],
  ];
  for (const [args, model, options] of cases)
    assert.deepEqual(read_compiler_args(args), { model, options, line: args });
  for (const [args, model, line] of [
    [['--', 'm.onnx'], 'm.onnx', ['m.onnx']],
    [['--json', '--', '--m.onnx', 'b'], './--m.onnx', ['--json', './--m.onnx', 'b']],
    [['m.onnx', '--', 'b'], 'm.onnx', ['m.onnx', 'b']],
    [['--'], undefined, []],
    [['-'], '-', ['-']],
  ]) {
    assert.deepEqual(read_compiler_args(args), { model, options: [], line });
  }
  assert.equal(option_value(read_compiler_args(['m.onnx', '--output=b']), '-o', '--output'), 'b');
  assert.equal(option_value(read_compiler_args(['m.onnx']), '-o', '--output'), undefined);
});

test('options_are_taken_out_with_their_values', () => {
  const cases = [
    [['m.onnx', '--precision', 'int8', '-o', 'x.kiln'], ['m.onnx']],
    [
      ['--precision=int8', 'm.onnx', '--exact', '--json'],
      ['m.onnx', '--json'],
    ],
    [
      ['--labels', '--exact', 'm.onnx', '--task', 'classify'],
      ['--labels', '--exact', 'm.onnx', '--task', 'classify'],
    ],
    [['-', '-o', '--precision'], ['-']],
  ];
  for (const [args, expected] of cases) {
    const parsed = { model: undefined, options: [], line: args };
    assert.deepEqual(without_options(parsed, ['--precision', '-o', '--exact']), expected);
  }
});

test('files_after_two_dashes_may_begin_with_a_dash', async (t) => {
  const cwd = temp_folder(t);
  for (const name of ['net.onnx', '-h', '--labels']) writeFileSync(join(cwd, name), conv_net());
  for (const [args, written] of [
    [['--', 'net.onnx'], 'net.kiln'],
    [['-o', 'x.kiln', '--', '-h'], 'x.kiln'],
    [['--', '--labels'], '--labels.kiln'],
  ]) {
    const { code, stderr } = await run_cli(['compile', ...args], { cwd });
    assert.equal(code, 0, stderr);
    assert.ok(existsSync(join(cwd, written)));
  }
  const { code, stdout } = await run_cli(['inspect', '--json', '--', '--labels'], { cwd });
  assert.equal(code, 0);
  assert.equal(JSON.parse(stdout).name, 'conv_net');
});

test('a_forgotten_value_is_a_usage_error', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const options = ['--labels', '--task', '--preprocess', '--input-shape', '--precision', '--dump', '-o'];
  for (const option of options) {
    for (const [args, message] of [
      [['net.onnx', option], `error: ${option} needs a value\n`],
      [['net.onnx', option, '--bind', 'x=y.npy'], `error: ${option} needs a value, but --bind follows\n`],
      [[option, '-o', 'x.kiln', 'net.onnx'], `error: ${option} needs a value, but -o follows\n`],
    ]) {
      const { code, stdout, stderr } = await run_cli(['compile', ...args], { cwd });
      assert.deepEqual([code, stdout], [2, ''], stderr);
      assert.ok(stderr.startsWith(message), stderr);
    }
  }
  const empty = await run_cli(['compile', 'net.onnx', '--labels='], { cwd });
  assert.equal(empty.code, 2);
  assert.match(empty.stderr, /--labels needs a value/);
  assert.deepEqual(readdirSync(cwd), ['net.onnx']);
});

test('output_names_become_file_names', () => {
  assert.equal(file_name_of('/model/out:0 (x)'), '_model_out_0__x_');
  assert.equal(file_name_of('A-z_0.9'), 'A-z_0.9');
  assert.equal(file_name_of('größe'), 'gr__e');
});

test('quantiles_tables_and_numbers', () => {
  assert.equal(quantile([4, 1, 3, 2], 0.5), 2.5);
  assert.equal(quantile([5], 0.9), 5);
  assert.equal(quantile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 0.9), 10);
  assert.equal(
    table([
      ['name', 'ms'],
      ['a', '1.5'],
      ['long', '10.0'],
    ]),
    'name    ms\na      1.5\nlong  10.0',
  );
  assert.equal(number_option('n', undefined, 7, 0, 9), 7);
  assert.throws(() => number_option('n', ' ', 7, 0, 9), { name: 'UsageError' });
});
