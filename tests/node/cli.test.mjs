// The command line end to end: every command on real files, JSON of stable shape on stdout and nothing else there.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import sharp from 'sharp';
import { graph, write_onnx, write_onnx_external } from '../../models/onnx_writer.mjs';
import { build_recipe } from '../../models/index.mjs';
import { find_face_api } from '../../models/face/face_weights.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor, relative_error, run_onnxruntime } from '../support/api.mjs';
import { run_cli } from '../support/cli.mjs';
import { temp_folder } from '../support/files.mjs';
import { add_net, conv_net } from '../support/graphs.mjs';

const kPhoto = join(find_face_api(), 'demo/sample1.jpg');
const kFaces = join(root, 'models/cache/tiny_face_detector'); // .onnx, .preprocess.json, .labels.txt

before(() => build_recipe('tiny_face_detector', join(root, 'models/cache')));

/** Runs and expects success; stdout. */
async function ok(args, options) {
  const { code, stdout, stderr } = await run_cli(args, options);
  assert.equal(code, 0, `${args.join(' ')}:\n${stderr}`);
  return stdout;
}

/** A bundle of conv_net that classifies 8 x 8 pictures. */
async function make_classifier(folder) {
  writeFileSync(join(folder, 'net.onnx'), conv_net());
  writeFileSync(join(folder, 'labels.txt'), 'apple\nbread\nchair\ndog\neel\n');
  const net = new api.Tensor('f32', [1], new Float32Array(1));
  assert.ok(net);
  await ok(['compile', 'net.onnx', '--task', 'classify', '--labels', 'labels.txt', '--preprocess', 'raw'], {
    cwd: folder,
  });
  return 'net.kiln';
}

async function make_picture(path, { width = 20, height = 10 } = {}) {
  const noise = { type: 'gaussian', mean: 128, sigma: 40 };
  await sharp({ create: { width, height, channels: 3, background: '#808080', noise } })
    .png()
    .toFile(path);
}

test('compile_writes_beside_the_model_or_where_told', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const { code, stdout, stderr } = await run_cli(['compile', 'net.onnx'], { cwd });
  assert.deepEqual([code, stderr], [0, 'wrote net.kiln\n']);
  assert.match(stdout, /^net\.kiln: .*weights.*\n.*steps.*\n +input +images f32\[1, 3, 8, 8\]/);
  for (const [flags, file] of [
    [['-o', 'other.kiln'], 'other.kiln'],
    [['--output=third.kiln'], 'third.kiln'],
  ]) {
    await ok(['compile', ...flags, 'net.onnx'], { cwd });
    assert.ok(readFileSync(join(cwd, 'net.kiln')).equals(readFileSync(join(cwd, file))));
  }
  assert.deepEqual(Buffer.from(await api.compile(conv_net())), readFileSync(join(cwd, 'net.kiln')));
  const failed = await run_cli(['compile', 'net.onnx', '-o', 'no/such/folder.kiln'], { cwd });
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /cannot be written/);
});

test('compile_usage_errors_of_the_compiler_exit_with_2', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  for (const [flags, message] of [
    [['--preprocess', 'ultralytic'], /ultralytic.*allowed: ultralytics, yolox/],
    [['--task', 'paint'], /paint.*allowed: detect:yolov5/],
    [['--precision', 'int4'], /int4; allowed: fp32/],
    [['--input-shape', 'images:a,b'], /images:a,b/],
    [['--wrong', '1'], /unknown option '--wrong'/],
  ]) {
    const { code, stdout, stderr } = await run_cli(['compile', 'net.onnx', ...flags], { cwd });
    assert.deepEqual([code, stdout], [2, ''], stderr);
    assert.match(stderr, message);
  }
  const { code, stderr } = await run_cli(['compile', 'net.onnx', '--labels', 'no.txt'], { cwd });
  assert.equal(code, 1);
  assert.match(stderr, /no\.txt/);
  assert.ok(!existsSync(join(cwd, 'net.kiln')));
});

test('compile_finds_external_data_beside_the_model_only', async (t) => {
  const cwd = temp_folder(t);
  mkdirSync(join(cwd, 'model'));
  const net = (location) => {
    const g = graph('external', { opset: 13 });
    const w = g.initializer('w', 'float32', [500], random_tensor([500], 3).data);
    g.output(g.node('Add', [g.input('x', [500]), w], {}, { outputs: ['y'] }), [500]);
    return write_onnx_external(g, { location, min_bytes: 100 });
  };
  const { model, data } = net('weights/w.bin');
  writeFileSync(join(cwd, 'model/m.onnx'), model);
  const missing = await run_cli(['compile', 'model/m.onnx'], { cwd });
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /m\.onnx keeps weights in an external file: '.*w\.bin' cannot be read: no such file/);
  mkdirSync(join(cwd, 'model/weights'));
  writeFileSync(join(cwd, 'model/weights/w.bin'), data);
  await ok(['compile', 'model/m.onnx'], { cwd });

  writeFileSync(join(cwd, 'secret.bin'), data);
  writeFileSync(join(cwd, 'model/m.onnx'), net('../secret.bin').model);
  const outside = await run_cli(['compile', 'model/m.onnx', '-o', 'leak.kiln'], { cwd });
  assert.equal(outside.code, 1);
  assert.match(outside.stderr, /secret\.bin/);
  assert.ok(!existsSync(join(cwd, 'leak.kiln')));
});

test('dump_and_stage_print_text', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const imported = await ok(['inspect', 'net.onnx', '--stage', 'import'], { cwd });
  for (const op of ['Conv', 'Relu', 'GlobalAveragePool', 'Gemm']) assert.match(imported, new RegExp(op));
  const planned = await ok(['compile', 'net.onnx', '--dump', 'plan'], { cwd });
  assert.match(planned, /Conv/);
  const { code, stderr } = await run_cli(['inspect', 'net.onnx', '--stage', 'oven'], { cwd });
  assert.equal(code, 2);
  assert.match(stderr, /oven/);
});

test('inspect_prints_models_and_bundles_as_JSON_and_as_text', async (t) => {
  const cwd = temp_folder(t);
  await make_classifier(cwd);
  for (const file of ['net.onnx', 'net.kiln']) {
    const described = JSON.parse(await ok(['inspect', file, '--json'], { cwd }));
    assert.equal(typeof described, 'object');
    assert.match(JSON.stringify(described), /images/);
    const text = await ok(['inspect', file], { cwd });
    assert.match(text, /images/);
    assert.match(text, /logits/);
  }
  const bundle = await ok(['inspect', 'net.kiln'], { cwd });
  assert.match(bundle, /classify/);
  assert.match(bundle, /stretch/); // the preprocessing recipe is printed
});

const kProblemKeys = ['code', 'node', 'op', 'opset', 'attribute', 'value', 'supported', 'message'];

test('inspect_check_lists_every_problem', async (t) => {
  const cwd = temp_folder(t);
  const g = graph('bad', { opset: 13, checked: false });
  g.output(g.node('Bake', [g.input('x', [1, 4, 8, 8])], {}, { name: 'oven' }), null);
  g.output(g.node('Fry', ['x'], {}, { name: 'pan' }), null);
  writeFileSync(join(cwd, 'bad.onnx'), write_onnx(g));
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  assert.equal((await run_cli(['inspect', 'net.onnx', '--check'], { cwd })).code, 0);
  const { code, stdout, stderr } = await run_cli(['inspect', 'bad.onnx', '--check'], { cwd });
  assert.equal(code, 1);
  for (const word of ['oven', 'Bake', 'pan', 'Fry']) assert.match(stdout + stderr, new RegExp(word));
  const json = await run_cli(['inspect', 'bad.onnx', '--check', '--json'], { cwd });
  assert.equal(json.code, 1);
  const { problems } = JSON.parse(json.stdout);
  for (const problem of problems) assert.deepEqual(Object.keys(problem), kProblemKeys);
});

test('inspect_check_json_prints_JSON_for_files_that_are_no_model_too', async (t) => {
  const cwd = temp_folder(t);
  const bundle = Buffer.from(await api.compile(conv_net()));
  writeFileSync(join(cwd, 'page.onnx'), '<!doctype html>');
  writeFileSync(join(cwd, 'lfs.onnx'), 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n');
  writeFileSync(join(cwd, 'cut.onnx'), conv_net().subarray(0, 500));
  writeFileSync(join(cwd, 'cut.kiln'), bundle.subarray(0, 500));
  for (const [file, problem, message] of [
    ['page.onnx', 'NOT_A_MODEL', /HTML/],
    ['lfs.onnx', 'NOT_A_MODEL', /git-LFS pointer/],
    ['cut.onnx', 'TRUNCATED', /truncated/],
    ['cut.kiln', 'TRUNCATED', /truncated/],
    ['no.onnx', 'NOT_FOUND', /no such file/],
  ]) {
    const { code, stdout, stderr } = await run_cli(['inspect', file, '--check', '--json'], { cwd });
    assert.equal(code, 1);
    const { problems } = JSON.parse(stdout);
    assert.deepEqual([problems.length, problems[0].code], [1, problem]);
    assert.deepEqual(Object.keys(problems[0]), kProblemKeys);
    assert.match(problems[0].message, message);
    assert.match(stderr, message);
  }
});

test('inspect_svg_draws_the_graph', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const { code, stderr } = await run_cli(['inspect', 'net.onnx', '--svg', 'net.svg'], { cwd });
  assert.equal(code, 0, stderr);
  const { width, height, format } = await sharp(join(cwd, 'net.svg')).metadata();
  assert.equal(format, 'svg');
  assert.ok(width > 50 && height > 50);
  assert.match(readFileSync(join(cwd, 'net.svg'), 'utf8'), /Conv/);
});

/** An ONNX TensorProto of f32: dims (1), data_type (2), raw_data (9). */
function tensor_proto({ shape, data }) {
  const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >>> 7)]);
  const raw = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const head = shape.flatMap((dim) => [8, ...varint(dim)]);
  return Buffer.concat([Buffer.from([...head, 16, 1, 74, ...varint(raw.length)]), raw]);
}

test('run_takes_npy_and_pb_and_writes_npy', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'add.onnx'), add_net('float32', [2, 300]));
  await ok(['compile', 'add.onnx'], { cwd });
  const feeds = { a: random_tensor([2, 300], 1), b: random_tensor([2, 300], 2) };
  writeFileSync(join(cwd, 'a.npy'), api.writeNpy(feeds.a));
  writeFileSync(join(cwd, 'b.pb'), tensor_proto(feeds.b));
  const stdout = await ok(['run', 'add.kiln', '--input', 'a=a.npy', '--input', 'b=b.pb', '--output-dir', 'out/deep'], {
    cwd,
  });
  assert.equal(stdout, `${join('out/deep', 'sum.npy')}: f32 [2, 300]\n`);
  const { sum } = await run_onnxruntime(add_net('float32', [2, 300]), feeds);
  const written = api.readNpy(readFileSync(join(cwd, 'out/deep/sum.npy')), 'sum.npy');
  assert.equal(relative_error(written.data, sum.data), 0);
});

test('run_names_files_after_outputs', async (t) => {
  const cwd = temp_folder(t);
  const net = (...names) => {
    const g = graph('names', { opset: 13 });
    const x = g.input('x', [2]);
    for (const name of names) g.output(g.node('Relu', [x], {}, { outputs: [name] }), [2]);
    return write_onnx(g);
  };
  writeFileSync(join(cwd, 'x.npy'), api.writeNpy(random_tensor([2], 1)));
  writeFileSync(join(cwd, 'm.onnx'), net('/model/out:0', 'B.b-b_1'));
  await ok(['compile', 'm.onnx'], { cwd });
  await ok(['run', 'm.kiln', '--input', 'x=x.npy', '--output-dir', 'out'], { cwd });
  assert.deepEqual(readdirSync(join(cwd, 'out')).sort(), ['B.b-b_1.npy', '_model_out_0.npy']);

  writeFileSync(join(cwd, 'm.onnx'), net('a:0', 'a/0'));
  await ok(['compile', 'm.onnx'], { cwd });
  const { code, stderr } = await run_cli(['run', 'm.kiln', '--input', 'x=x.npy', '--output-dir', 'both'], { cwd });
  assert.equal(code, 1);
  assert.match(stderr, /outputs 'a:0' and 'a\/0' would both be written to a_0\.npy/);
  assert.ok(!existsSync(join(cwd, 'both')));
});

test('run_says_what_is_wrong_with_inputs', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'add.onnx'), add_net());
  await ok(['compile', 'add.onnx'], { cwd });
  writeFileSync(join(cwd, 'a.npy'), api.writeNpy(random_tensor([2, 3], 1)));
  writeFileSync(join(cwd, 'long.npy'), api.writeNpy(random_tensor([2, 4], 1)));
  writeFileSync(join(cwd, 'text.npy'), 'hello, I am a text file');
  writeFileSync(join(cwd, 'text.pb'), 'hello, I am a text file');
  for (const [inputs, expected, message] of [
    [['a=a.npy'], 1, /input 'b' \(f32, \[2, 3\]\) is missing/],
    [['a=a.npy', 'b=long.npy'], 1, /input 'b': shape \[2, 4\] given, \[2, 3\] needed/],
    [['a=a.npy', 'b=text.npy'], 1, /'text\.npy': this is no \.npy file/],
    [['a=a.npy', 'b=text.pb'], 1, /'text\.pb': /],
    [['a=a.npy', 'b=no.npy'], 1, /'no\.npy' cannot be read: no such file/],
    [['a=a.npy', 'c=a.npy'], 1, /no input 'c'; its inputs: a, b/],
    [[], 2, /run needs --input NAME=FILE for a \(f32, \[2, 3\]\), b \(f32, \[2, 3\]\)\nusage: /],
    [['a=a.npy', 'b=a.npy', 'a=no.npy'], 2, /input 'a' is given twice: a\.npy and no\.npy/],
    [['a.npy'], 2, /--input a\.npy; needed: NAME=FILE/],
  ]) {
    const flags = inputs.flatMap((input) => ['--input', input]);
    const { code, stderr } = await run_cli(['run', 'add.kiln', ...flags, '--output-dir', 'out'], { cwd });
    assert.equal(code, expected, stderr);
    assert.match(stderr, message);
  }
});

async function make_face_detector(cwd) {
  const flags = [
    '--task',
    'detect:tiny-yolov2',
    '--labels',
    `${kFaces}.labels.txt`,
    '--preprocess',
    `${kFaces}.preprocess.json`,
  ];
  await ok(['compile', `${kFaces}.onnx`, '-o', 'faces.kiln', ...flags], { cwd });
}

test('detect_prints_boxes_in_pixels_of_the_image', async (t) => {
  const cwd = temp_folder(t);
  await make_face_detector(cwd);
  const { width, height } = await sharp(kPhoto).metadata();
  const results = JSON.parse(
    await ok(['detect', 'faces.kiln', kPhoto, '--json', '--score', '0.5', '--iou', '0.4'], { cwd }),
  );
  assert.equal(results.length, 1);
  assert.deepEqual(Object.keys(results[0]), ['image', 'width', 'height', 'detections']);
  assert.deepEqual([results[0].image, results[0].width, results[0].height], [kPhoto, width, height]);
  assert.ok(results[0].detections.length > 0);
  for (const detection of results[0].detections) {
    assert.deepEqual(Object.keys(detection), ['box', 'score', 'class', 'label']);
    const [x1, y1, x2, y2] = detection.box;
    assert.ok(0 <= x1 && x1 < x2 && x2 <= width && 0 <= y1 && y1 < y2 && y2 <= height);
    assert.ok(detection.score >= 0.5 && detection.score <= 1);
    assert.deepEqual([detection.class, detection.label], [0, 'face']);
  }
  const scores = results[0].detections.map(({ score }) => score);
  assert.deepEqual(scores, scores.toSorted ? scores.toSorted((a, b) => b - a) : [...scores].sort((a, b) => b - a));
  const text = await ok(['detect', 'faces.kiln', kPhoto, '--score', '0.5', '--iou', '0.4'], { cwd });
  assert.match(text, new RegExp(`: ${width} x ${height}, ${results[0].detections.length} objects?\n`));
  const none = JSON.parse(await ok(['detect', 'faces.kiln', kPhoto, '--json', '--score', '1'], { cwd }));
  assert.deepEqual(none[0].detections, []);
  const one = JSON.parse(await ok(['detect', 'faces.kiln', kPhoto, '--json', '--max-det', '1'], { cwd }));
  assert.equal(one[0].detections.length, 1);
});

test('detect_annotates_one_picture_or_several', async (t) => {
  const cwd = temp_folder(t);
  await make_face_detector(cwd);
  const { width, height } = await sharp(kPhoto).metadata();
  const { code, stdout, stderr } = await run_cli(['detect', 'faces.kiln', kPhoto, '--json', '--annotate', 'one.png'], {
    cwd,
  });
  assert.equal(code, 0, stderr);
  JSON.parse(stdout);
  assert.match(stderr, /wrote one\.png/);
  const drawn = await sharp(join(cwd, 'one.png')).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  assert.deepEqual([drawn.info.width, drawn.info.height], [width, height]);
  const plain = await sharp(kPhoto).rotate().raw().toBuffer();
  assert.ok(!drawn.data.equals(plain), 'something is drawn');
  await ok(['detect', 'faces.kiln', kPhoto, kPhoto, '--annotate', 'two.jpg'], { cwd });
  assert.ok(existsSync(join(cwd, 'two-1.jpg')) && existsSync(join(cwd, 'two-2.jpg')));
});

test('a_bad_picture_does_not_stop_the_others', async (t) => {
  const cwd = temp_folder(t);
  const bundle = await make_classifier(cwd);
  await make_picture(join(cwd, 'a.png'));
  writeFileSync(join(cwd, 'text.jpg'), 'no picture');
  writeFileSync(join(cwd, 'cut.png'), readFileSync(join(cwd, 'a.png')).subarray(0, 300));
  mkdirSync(join(cwd, 'folder'));
  const images = ['text.jpg', 'cut.png', 'no.jpg', 'folder', 'a.png'];
  const { code, stdout, stderr } = await run_cli(['classify', bundle, ...images, '--json'], { cwd });
  assert.equal(code, 1);
  assert.deepEqual(
    JSON.parse(stdout).map(({ image }) => image),
    ['a.png'],
  );
  for (const name of ['text.jpg', 'cut.png', 'no.jpg']) {
    assert.match(stderr, new RegExp(`error: '${name}' cannot be read as an image`));
  }
  assert.match(stderr, /error: 'folder' cannot be read as an image: it is a folder\n/);
});

test('classify_prints_the_likeliest_classes', async (t) => {
  const cwd = temp_folder(t);
  const bundle = await make_classifier(cwd);
  for (const name of ['a.png', 'b.png']) await make_picture(join(cwd, name));
  const results = JSON.parse(await ok(['classify', bundle, 'a.png', 'b.png', '--json', '--top', '3'], { cwd }));
  assert.deepEqual(
    results.map(({ image }) => image),
    ['a.png', 'b.png'],
  );
  for (const result of results) {
    assert.deepEqual(Object.keys(result), ['image', 'classes']);
    assert.equal(result.classes.length, 3);
    for (const one of result.classes) {
      assert.deepEqual(Object.keys(one), ['index', 'label', 'score']);
      assert.equal(one.label, ['apple', 'bread', 'chair', 'dog', 'eel'][one.index]);
      assert.ok(one.score >= 0 && one.score <= 1);
    }
  }
  const all = JSON.parse(await ok(['classify', bundle, 'a.png', '--json', '--top', '99'], { cwd }));
  const sum = all[0].classes.reduce((total, { score }) => total + score, 0);
  assert.equal(all[0].classes.length, 5);
  assert.ok(Math.abs(sum - 1) < 1e-5);
  assert.match(await ok(['classify', bundle, 'a.png'], { cwd }), /a\.png\nclass +score +label\n/);
});

const kBenchKeys =
  'model runs threads simd load_ms first_ms median_ms p90_ms min_ms pre_ms post_ms total_ms fps gflops arena_bytes weights_bytes'.split(
    ' ',
  );

test('bench_prints_one_object_of_stable_keys', async (t) => {
  const cwd = temp_folder(t);
  const bundle = await make_classifier(cwd);
  await make_picture(join(cwd, 'a.png'));
  for (const flags of [[], ['--image', 'a.png']]) {
    const stdout = await ok(['bench', bundle, '--runs', '5', '--warmup', '1', '--threads', '1', '--json', ...flags], {
      cwd,
    });
    const result = JSON.parse(stdout);
    assert.deepEqual(Object.keys(result), kBenchKeys);
    assert.deepEqual([result.model, result.runs, result.threads], [bundle, 5, 1]);
    assert.ok(['simd', 'relaxed'].includes(result.simd));
    for (const key of kBenchKeys.slice(4)) assert.ok(Number.isFinite(result[key]) && result[key] >= 0, key);
    assert.ok(result.min_ms <= result.median_ms && result.median_ms <= result.p90_ms);
    const expected = 1000 / (flags.length ? result.total_ms : result.median_ms);
    assert.ok(Math.abs(result.fps / expected - 1) < 1e-9);
    if (flags.length) assert.ok(result.pre_ms > 0 && result.post_ms > 0 && result.total_ms > result.median_ms / 2);
    else assert.deepEqual([result.pre_ms, result.post_ms], [0, 0]);
  }
  const two = JSON.parse(await ok(['bench', bundle, '--runs', '2', '--threads', '2', '--json'], { cwd }));
  assert.equal(two.threads, 2);
  const text = await ok(['bench', bundle, '--runs', '2', '--simd', 'simd', '--threads', 'auto'], { cwd });
  for (const word of ['load', 'first run', 'median', 'p90', 'GFLOP/s', 'FPS'])
    assert.match(text, new RegExp(`^${word}`, 'm'));
});

test('results_through_the_command_line_equal_those_of_the_API', async (t) => {
  const cwd = temp_folder(t);
  await make_face_detector(cwd);
  const [{ detections }] = JSON.parse(await ok(['detect', 'faces.kiln', kPhoto, '--json'], { cwd }));
  const detector = await api.Detector.load(join(cwd, 'faces.kiln'));
  t.after(() => detector.dispose());
  const found = await detector.detect(await api.readImage(kPhoto));
  assert.equal(detections.length, found.length);
  detections.forEach(({ box, score }, i) => {
    assert.ok(Math.abs(score - found[i].score) < 1e-6);
    box.forEach((value, side) => assert.ok(Math.abs(value - found[i].box[side]) < 1e-6));
  });
});
