// compile(): the same bytes each time and natively, all problems at once, notices, external data, exit of the process.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { graph, write_onnx, write_onnx_external } from '../../models/onnx_writer.mjs';
import { make_layout } from '../../models/layouts/index.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor, run_onnxruntime, relative_error } from '../support/api.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net } from '../support/graphs.mjs';

const kNative = ['build/release/tilekiln-compiler', 'build/dev/tilekiln-compiler']
  .map((path) => join(root, path))
  .find(existsSync);

test('the_same_model_gives_the_same_bytes', async () => {
  const first = await api.compile(conv_net());
  assert.deepEqual(await api.compile(conv_net()), first);
  assert.equal(new TextDecoder().decode(first.subarray(0, 4)), 'KILN');
});

const kPreprocess = { resize: 'letterbox', size: [64, 64], color: 'BGR', mean: [1, 2, 3] };
// Model, flags of the native compiler with file contents, options of compile().
const kSameBytes = [
  ['conv_net', () => conv_net(), [], {}],
  [
    'conv_net with profiles',
    () => conv_net({ batch: 'N', height: 'h', width: 'w' }),
    ['--input-shape', 'images:-1,3,-1,-1', '--dynamic-batch', '1,3', '--dynamic-size', '8,8;16,12'],
    {
      inputShape: 'images:-1,3,-1,-1',
      dynamicBatch: [1, 3],
      dynamicSize: [
        [8, 8],
        [16, 12],
      ],
    },
  ],
  [
    'yolov8n with everything',
    () => write_onnx(make_layout('yolov8n', { size: 64 })),
    ['--task', 'detect:yolov8', '--preprocess', 'preprocess.json', '--labels', 'labels.txt', '--input-layout', 'NHWC'],
    {
      task: 'detect:yolov8',
      preprocess: kPreprocess,
      labels: Array.from({ length: 80 }, (_, i) => `class ${i}`),
      inputLayout: 'NHWC',
    },
  ],
  [
    'mobilenet_v2',
    () => write_onnx(make_layout('mobilenet_v2', { size: 96, bn: true })),
    ['--preprocess', 'torchvision'],
    { preprocess: 'torchvision' },
  ],
];

for (const [name, make, flags, options] of kSameBytes) {
  test(`bytes_of_the_native_compiler: ${name}`, { skip: !kNative && 'no native compiler is built' }, async (t) => {
    const folder = temp_folder(t);
    const onnx = make();
    writeFileSync(join(folder, 'model.onnx'), onnx);
    writeFileSync(join(folder, 'preprocess.json'), JSON.stringify(kPreprocess));
    if (options.labels) writeFileSync(join(folder, 'labels.txt'), `${options.labels.join('\n')}\n`);
    const line = ['compile', 'model.onnx', '-o', 'model.kiln', ...flags];
    const { status, stderr } = spawnSync(kNative, line, { cwd: folder, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    const native = readFileSync(join(folder, 'model.kiln'));
    const ours = await api.compile(onnx, options);
    assert.ok(native.equals(ours), `${native.length} bytes natively, ${ours.length} in wasm`);
  });
}

function bad_net() {
  const g = graph('bad', { opset: 13, checked: false });
  const x = g.input('x', [1, 4, 8, 8]);
  const a = g.node('Bake', [x], {}, { name: 'oven' });
  const w = g.initializer('w', 'float32', [4, 4, 3, 3], new Float32Array(144));
  const b = g.node('Conv', [x, w], { group: 3 }, { name: 'stem/conv' });
  const c = g.node('Cast', [x], { to: 8 }, { name: 'to_text' }); // to strings
  g.output(a, null);
  g.output(b, null);
  g.output(c, null);
  return write_onnx(g);
}

test('all_problems_come_at_once', async () => {
  await assert.rejects(api.compile(bad_net()), (error) => {
    assert.equal(error.name, 'KilnError');
    const by_node = Object.fromEntries(error.problems.map((problem) => [problem.node, problem]));
    assert.equal(by_node['oven']?.code, 'UNKNOWN_OPERATOR');
    assert.equal(by_node['oven'].op, 'Bake');
    assert.equal(by_node['oven'].opset, 13);
    assert.equal(by_node['stem/conv']?.code, 'INVALID_MODEL');
    assert.equal(by_node['to_text']?.code, 'UNSUPPORTED');
    assert.deepEqual([by_node['to_text'].attribute, by_node['to_text'].value], ['to', '8 (STRING)']);
    assert.match(by_node['to_text'].supported, /FLOAT|float/);
    for (const { message, node } of error.problems) assert.ok(message.includes(node), message);
    assert.equal(error.code, error.problems[0].code);
    assert.equal(error.node, error.problems[0].node);
    for (const problem of error.problems) assert.ok(error.message.includes(problem.message), problem.message);
    return true;
  });
});

const kPage = new TextEncoder().encode('<!doctype html><p>404');
// What is compiled, options, code, message
const kRefused = [
  [kPage, {}, 'NOT_A_MODEL', /HTML/],
  [new TextEncoder().encode('version https://git-lfs.github.com/spec/v1\noid'), {}, 'NOT_A_MODEL', /git-LFS pointer/],
  [new Uint8Array(), {}, 'TRUNCATED', /empty/],
  [conv_net().subarray(0, 900), {}, 'TRUNCATED', /./],
  ['no.onnx', {}, 'NOT_FOUND', /'no\.onnx' cannot be read/],
  [conv_net({ height: 'h' }), {}, undefined, /--input-shape images:1,3,H,8|--input-shape/],
  [conv_net(), { inputShape: 'pictures:1,3,8,8' }, undefined, /pictures/],
  [conv_net(), { inputShape: 'images:1,3,8' }, undefined, /images/],
  [conv_net(), { preprocess: 'ultralytic' }, 'INVALID_ARGUMENT', /ultralytic.*allowed: ultralytics, yolox/],
  [conv_net(), { preprocess: { resize: 'fit' } }, 'INVALID_ARGUMENT', /resize="fit"/],
  [conv_net(), { task: 'detect:yolo9' }, 'INVALID_ARGUMENT', /detect:yolo9.*allowed: detect:yolov5/],
  [conv_net(), { labels: ['a\nb'] }, 'INVALID_ARGUMENT', /label "a\\nb" has a line break/],
  [conv_net(), { bind: { nothing: random_tensor([1], 1) } }, undefined, /nothing/],
  [conv_net(), { bind: { images: random_tensor([1, 3, 4, 4], 1) } }, undefined, /images/],
];

test('what_does_not_compile_says_why', async () => {
  for (const [source, options, code, message] of kRefused) {
    await assert.rejects(api.compile(source, options), (error) => {
      assert.equal(error.name, 'KilnError', `${error}`);
      assert.match(error.message, message);
      if (code) assert.equal(error.code, code, error.message);
      return true;
    });
  }
});

test('a_batch_left_open_becomes_1_with_a_notice', async (t) => {
  const notices = [];
  const bundle = await api.compile(conv_net({ batch: 'N' }), { onNotice: (notice) => notices.push(notice) });
  assert.equal(notices.length, 1);
  assert.match(notices[0], /batch.*1/);
  const model = await api.load(bundle);
  t.after(() => model.dispose());
  assert.deepEqual(model.inputs[0].shape, [1, 3, 8, 8]);
});

test('a_newer_IR_version_compiles_with_a_warning', async () => {
  const notices = [];
  await api.compile(conv_net({ ir_version: 99 }), { onNotice: (notice) => notices.push(notice) });
  assert.ok(
    notices.some((notice) => /IR version 99/.test(notice)),
    notices.join('\n'),
  );
});

test('task_labels_and_recipe_travel_in_the_bundle', async (t) => {
  const preprocess = { resize: 'stretch', color: 'BGR' };
  const model = await api.load(
    await api.compile(conv_net(), { task: 'classify', labels: ['a', 'b', 'c', 'd', 'é'], preprocess }),
  );
  t.after(() => model.dispose());
  assert.equal(model.metadata.task, 'classify');
  assert.equal(model.metadata.labels, 'a\nb\nc\nd\né');
  assert.equal(JSON.parse(model.metadata.preprocess).color, 'BGR');
});

test('external_data_comes_from_the_files_given', async (t) => {
  const g = graph('external', { opset: 13 });
  const w = g.initializer('w', 'float32', [1000], random_tensor([1000], 3).data);
  g.output(g.node('Add', [g.input('x', [1000]), w], {}, { outputs: ['y'] }), [1000]);
  const whole = write_onnx(g);
  const { model: bytes, data } = write_onnx_external(g, { location: 'labels.txt', min_bytes: 100 });
  const model = await api.load(await api.compile(bytes, { files: { 'labels.txt': data }, labels: ['a'] }));
  t.after(() => model.dispose());
  const x = random_tensor([1000], 4);
  const expected = await run_onnxruntime(whole, { x });
  assert.equal(relative_error((await model.run({ x })).y.data, expected.y.data), 0);
  await assert.rejects(api.compile(bytes), (error) => {
    assert.equal(error.problems[0].code, 'NOT_FOUND');
    assert.equal(error.problems[0].attribute, 'external_data');
    assert.equal(error.problems[0].value, 'labels.txt');
    return true;
  });
});

test('progress_and_abort', async () => {
  const seen = [];
  await api.compile(conv_net(), { onProgress: ({ stage, loaded }) => seen.push(`${stage} ${loaded}`) });
  assert.deepEqual(seen, ['compile 0', 'compile 1']);
  await assert.rejects(api.compile(conv_net(), { signal: AbortSignal.abort() }), { code: 'ABORTED' });
});

test('two_compilations_at_once_do_not_mix', async () => {
  const [a, b] = await Promise.all([api.compile(conv_net()), api.compile(conv_net({ height: 16 }))]);
  assert.deepEqual(a, await api.compile(conv_net()));
  assert.deepEqual(b, await api.compile(conv_net({ height: 16 })));
});

test('a_process_that_used_the_package_ends_by_itself', (t) => {
  const folder = temp_folder(t);
  writeFileSync(join(folder, 'net.onnx'), conv_net());
  const script = `
    import { compile, load } from ${JSON.stringify(join(root, 'dist/index.node.js'))};
    const model = await load(await compile('net.onnx')); // never disposed
    const { logits } = await model.run({ images: new Float32Array(192) });
    console.log(logits.data.length);
  `;
  writeFileSync(join(folder, 'use.mjs'), script);
  const { status, stdout, stderr, signal } = spawnSync(process.execPath, ['use.mjs'], {
    cwd: folder,
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.deepEqual([status, signal, stdout, stderr], [0, null, '5\n', '']);
});
