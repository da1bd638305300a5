// compile(…, { weights: 'fp16' }): half the file, outputs close to the float bundle's, memory that counts both forms.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { make_layout } from '../../models/layouts/index.mjs';
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor, relative_error } from '../support/api.mjs';
import { read_shared_npy, shared_absent, shared_path, to_planes } from '../support/shared.mjs';

const kTolerance = 2e-3; // of the largest value
// Of detectors, whose thousands of raw boxes on no object amplify any rounding: their root mean square error.
const kMeanTolerance = 1e-3;
const kLargestShare = 0.52; // of the float bundle's bytes

/** Outputs and memory of a model compiled with some options. */
async function run_compiled(t, source, feeds, options) {
  const bundle = await api.compile(source, options);
  const model = await api.load(bundle, { threads: 1 });
  t.after(() => model.dispose());
  return { bytes: bundle.length, outputs: await model.run(feeds), memory: model.memory() };
}

function mean_error(actual, expected) {
  let [sum, largest] = [0, 0];
  for (let i = 0; i < expected.length; ++i) {
    sum += (actual[i] - expected[i]) ** 2;
    largest = Math.max(largest, Math.abs(expected[i]));
  }
  return Math.sqrt(sum / expected.length) / largest;
}

async function compare(t, source, feeds, { is_detector = false, ...options } = {}) {
  const full = await run_compiled(t, source, feeds, options);
  const half = await run_compiled(t, source, feeds, { ...options, weights: 'fp16' });
  const largest = (measure) =>
    Math.max(...Object.keys(full.outputs).map((name) => measure(half.outputs[name].data, full.outputs[name].data)));
  const [error, mean] = [largest(relative_error), largest(mean_error)];
  const share = half.bytes / full.bytes;
  t.diagnostic(
    `${(100 * share).toFixed(2)} % of ${full.bytes} bytes, error ${error.toExponential(2)}, mean ${mean.toExponential(2)}`,
  );
  assert.ok(error > 0 && mean <= kMeanTolerance, `mean error ${mean}`);
  if (!is_detector) assert.ok(error <= kTolerance, `relative error ${error}`);
  assert.ok(share <= kLargestShare, `${half.bytes} of ${full.bytes} bytes`);
  const { weights_bytes, prepared_bytes } = half.memory;
  assert.ok(weights_bytes < kLargestShare * full.memory.weights_bytes);
  assert.ok(prepared_bytes > 0.9 * full.memory.weights_bytes + full.memory.prepared_bytes);
}

for (const [name, options, is_detector] of [
  ['resnet18', { size: 64 }],
  ['mobilenet_v2', { size: 96, bn: true }],
  ['yolov8n', { size: 64 }, true],
]) {
  test(`halves_of_${name}`, async (t) => {
    const onnx = write_onnx(make_layout(name, options));
    const shape = [1, 3, options.size, options.size];
    const model = await api.load(await api.compile(onnx), { threads: 1 });
    const [input] = model.inputs.map((info) => info.name);
    model.dispose();
    await compare(t, onnx, { [input]: random_tensor(shape, 3) }, { is_detector });
  });
}

test('halves_of_yolox_nano', { skip: shared_absent }, async (t) => {
  const pixels = read_shared_npy('expected', 'yolox_nano_397133_in_u8_rgb.npy');
  const images = to_planes({ shape: [1, ...pixels.shape], data: pixels.data }, (value) => value);
  await compare(t, shared_path('models', 'yolox_nano.onnx'), { images }, { is_detector: true });
});

test('halves_of_resnet20', { skip: shared_absent }, async (t) => {
  const pictures = to_planes(read_shared_npy('cifar10', 'eval_500.npy'), (value) => (value / 255 - 0.45) / 0.225);
  const input = new api.Tensor('f32', [10, 3, 32, 32], pictures.data.subarray(0, 10 * 3 * 1024));
  await compare(t, shared_path('models', 'resnet20_cifar10.onnx'), { input }, { inputShape: 'input:10,3,32,32' });
});

/** y = x · w with w of 32 x 32 numbers; a batch that is free. */
function product(numbers) {
  const g = graph('product', { opset: 13 });
  const x = g.input('x', ['N', 32]);
  const w = g.initializer('w', 'float32', [32, 32], numbers);
  g.output(g.node('MatMul', [x, w], {}, { name: 'product' }), ['N', 32]);
  return write_onnx(g);
}
const kNumbers = Float32Array.from({ length: 1024 }, (_, i) => (i - 500) / 64);

test('profiles_share_what_is_expanded', async (t) => {
  const memory_of = async (dynamicBatch) => {
    const model = await api.load(await api.compile(product(kNumbers), { dynamicBatch, weights: 'fp16' }));
    t.after(() => model.dispose());
    return model.memory();
  };
  const [one, three] = [await memory_of([1]), await memory_of([1, 2, 5])];
  assert.equal(three.weights_bytes, one.weights_bytes);
  assert.equal(three.prepared_bytes, one.prepared_bytes);
  assert.equal(one.prepared_bytes, 2 * one.weights_bytes);
});

test('numbers_that_halves_hold_give_equal_outputs', async (t) => {
  const x = random_tensor([2, 32], 5);
  const run = async (weights) => {
    const model = await api.load(await api.compile(product(kNumbers), { dynamicBatch: [2], weights }));
    t.after(() => model.dispose());
    return Object.values(await model.run({ x }))[0].data;
  };
  assert.deepEqual(await run('fp16'), await run('fp32'));
});

test('numbers_that_halves_do_not_hold_stay', async () => {
  const notices = [];
  const options = { dynamicBatch: [1], onNotice: (notice) => notices.push(notice) };
  const large = product(kNumbers.map((value, i) => (i === 7 ? 1e5 : value)));
  const half = await api.compile(large, { ...options, weights: 'fp16' });
  assert.ok(notices.some((notice) => /--weights fp16: 1 of the constants .* stay f32/.test(notice)));
  assert.deepEqual(half, await api.compile(large, options));
});

test('weights_is_checked', async () => {
  await assert.rejects(api.compile(product(kNumbers), { weights: 'fp8' }), /--weights fp8; allowed: fp32, fp16/);
  await assert.rejects(api.compile(product(kNumbers), { weights: 16 }), /weights/);
});
