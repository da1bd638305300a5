// Channels whose weights are all zero go at compile time: as many MACs fewer as they had, equal outputs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { decode_model, encode_model } from '../../models/onnx_proto.mjs';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor, relative_error, run_onnxruntime } from '../support/api.mjs';
import { read_shared_npy, shared_absent, shared_path, to_planes } from '../support/shared.mjs';

const kTolerance = 1e-5; // of the largest value: sums of fewer terms round otherwise

/** A decoded model whose float initialisers can be changed. */
class Editor {
  constructor(onnx) {
    this.model = decode_model(onnx);
    this.tensors = new Map(this.model.graph.initializer.map((tensor) => [tensor.name, tensor]));
    this.nodes = this.model.graph.node;
  }

  dims(name) {
    return this.tensors.get(name).dims.map(Number);
  }

  /** Rows of axis 0, through `change(row of values)`. */
  change_rows(name, rows, change) {
    const tensor = this.tensors.get(name);
    const values = new Float32Array(new Uint8Array(tensor.raw_data).buffer);
    const length = values.length / this.dims(name)[0];
    for (const row of rows) change(values.subarray(row * length, (row + 1) * length));
    tensor.raw_data = new Uint8Array(values.buffer);
  }

  fill_rows(name, rows, value) {
    this.change_rows(name, rows, (row) => row.fill(value));
  }

  scale_rows(name, rows, factor) {
    this.change_rows(name, rows, (row) => row.forEach((value, i) => (row[i] = value * factor)));
  }

  /** Empties rows of a convolution, and what its bias or its BatchNormalization adds. */
  empty(conv, rows) {
    this.fill_rows(conv.input[1], rows, 0);
    if (conv.input[2]) this.fill_rows(conv.input[2], rows, 0);
    const norm = this.nodes.find((node) => node.op_type === 'BatchNormalization' && node.input[0] === conv.output[0]);
    for (const name of norm ? [norm.input[2], norm.input[3]] : []) this.fill_rows(name, rows, 0);
  }

  bytes() {
    return encode_model(this.model);
  }
}

const quarter = (count) => Array.from({ length: count / 4 }, (_, i) => 4 * i + 1);

async function compile_counting(onnx, options) {
  const notices = [];
  const bundle = await api.compile(onnx, { ...options, onNotice: (notice) => notices.push(notice) });
  const model = await api.load(bundle, { threads: 1 });
  const steps = model.steps();
  return { model, notices, steps, bytes: bundle.length, macs: steps.reduce((sum, step) => sum + step.macs, 0) };
}

/**
 * Empties rows of convolutions in one copy of a model, and all but empties them in another, where nothing goes: fewer MACs
 * by what `share_of(step name)` says is left, equal outputs.
 */
async function check_pruned(t, { onnx, convs_of, rows_of, share_of, feeds, options }) {
  const [emptied, nudged] = [new Editor(onnx), new Editor(onnx)];
  for (const editor of [emptied, nudged]) {
    for (const conv of convs_of(editor)) editor.empty(conv, rows_of(editor.dims(conv.input[1])[0]));
  }
  for (const conv of convs_of(nudged)) nudged.fill_rows(conv.input[1], rows_of(nudged.dims(conv.input[1])[0]), 1e-30);
  const pruned = await compile_counting(emptied.bytes(), options);
  const whole = await compile_counting(nudged.bytes(), options);
  t.after(() => [pruned, whole].forEach(({ model }) => model.dispose()));
  t.diagnostic(`MACs ${whole.macs} -> ${pruned.macs}; bytes ${whole.bytes} -> ${pruned.bytes}`);
  assert.equal(
    pruned.macs,
    whole.steps.reduce((sum, step) => sum + step.macs * share_of(step.name), 0),
  );
  assert.ok(pruned.bytes < whole.bytes);
  assert.ok(!whole.notices.some((notice) => notice.startsWith('pruned')));
  assert.match(
    pruned.notices.find((notice) => notice.startsWith('pruned')),
    /^pruned \d+ channels, MACs .+ -> .+/,
  );
  const [a, b] = [await pruned.model.run(feeds), await whole.model.run(feeds)];
  const expected = await run_onnxruntime(emptied.bytes(), feeds);
  for (const name of Object.keys(b)) {
    const error = relative_error(a[name].data, b[name].data);
    t.diagnostic(`${name}: relative error ${error.toExponential(2)}`);
    assert.ok(error <= kTolerance, `${name}: ${error}`);
    assert.ok(relative_error(a[name].data, expected[name].data) <= 1e-4);
  }
}

test('resnet20_with_a_quarter_of_its_channels_emptied', { skip: shared_absent }, async (t) => {
  // The sums of a stage must be empty in all their terms. A shortcut's padding puts a stage's channels behind a quarter of
  // the next one's.
  const rows = [[1, 5, 9, 13]];
  for (const width of [32, 64]) {
    const inherited = rows.at(-1).map((row) => row + width / 4);
    rows.push([...inherited, ...inherited.map((_, i) => (i % 2 === 0 ? i : width - 1 - i))]);
  }
  const pictures = to_planes(read_shared_npy('cifar10', 'eval_500.npy'), (value) => (value / 255 - 0.45) / 0.225);
  await check_pruned(t, {
    onnx: readFileSync(shared_path('models', 'resnet20_cifar10.onnx')),
    convs_of: ({ nodes }) => nodes.filter((node) => node.op_type === 'Conv'),
    rows_of: (channels) => rows[Math.log2(channels / 16)],
    share_of: (name) => (name === 'conv_1' || !name.startsWith('conv_') ? 3 / 4 : 9 / 16),
    feeds: { input: new api.Tensor('f32', [4, 3, 32, 32], pictures.data.subarray(0, 4 * 3 * 1024)) },
    options: { inputShape: 'input:4,3,32,32' },
  });
});

test('resnet50_layout_with_emptied_bottlenecks', async (t) => {
  const shares = { conv1: 3 / 4, conv2: 9 / 16, conv3: 3 / 4 }; // sums keep their channels
  const onnx = write_onnx(make_layout('resnet50', { size: 64, bn: true }));
  await check_pruned(t, {
    onnx,
    convs_of: ({ nodes }) => nodes.filter(({ name }) => /layer.*conv[12]\/Conv$/.test(name)),
    rows_of: quarter,
    share_of: (name) => shares[/layer.*(conv\d)\/Conv$/.exec(name)?.[1]] ?? 1,
    feeds: { [decode_model(onnx).graph.input[0].name]: random_tensor([1, 3, 64, 64], 4) },
  });
});

test('pruning_by_threshold', async (t) => {
  const editor = new Editor(write_onnx(make_layout('resnet18', { size: 64 })));
  const convs = editor.nodes.filter((node) => /layer\d.*conv1\/Conv$/.test(node.name));
  assert.ok(convs.length >= 8);
  for (const conv of convs) {
    const rows = quarter(editor.dims(conv.input[1])[0]);
    editor.scale_rows(conv.input[1], rows, 1e-5);
    if (conv.input[2]) editor.scale_rows(conv.input[2], rows, 1e-5);
  }
  const onnx = editor.bytes();
  const whole = await compile_counting(onnx, {});
  const pruned = await compile_counting(onnx, { pruneThreshold: 1e-3 });
  t.after(() => [pruned, whole].forEach(({ model }) => model.dispose()));
  assert.ok(pruned.macs < whole.macs);
  assert.match(pruned.notices.join('\n'), /pruned \d+ channels, .*their weights were up to [\d.e-]+ of the largest/);
  const feeds = { [editor.model.graph.input[0].name]: random_tensor([1, 3, 64, 64], 4) };
  const [a, b] = [await pruned.model.run(feeds), await whole.model.run(feeds)];
  for (const name of Object.keys(b)) {
    const error = relative_error(a[name].data, b[name].data);
    t.diagnostic(`MACs ${whole.macs} -> ${pruned.macs}, relative error ${error.toExponential(2)}`);
    assert.ok(error <= 1e-3, `${name}: ${error}`);
  }
  for (const [threshold, message] of [
    [1, /--prune-threshold 1; allowed: 0 to below 1/],
    [-0.1, /pruneThreshold/],
  ]) {
    await assert.rejects(api.compile(onnx, { pruneThreshold: threshold }), message);
  }
});
