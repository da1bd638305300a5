// The layouts with random weights: each loads, runs on a photo and gives finite outputs of a sane spread.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as ort from 'onnxruntime-node';
import sharp from 'sharp';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { list_sample_photos } from './face_reference.mjs';

const kImagenet = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
const kUnit = { mean: [0, 0, 0], std: [1, 1, 1] };

async function read_photo(size, { mean, std }) {
  const { data } = await sharp(list_sample_photos()[0])
    .resize(size, size, { fit: 'fill' })
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  const plane = size * size;
  return Float32Array.from({ length: 3 * plane }, (_, i) => {
    const channel = Math.floor(i / plane);
    return (data[3 * (i % plane) + channel] / 255 - mean[channel]) / std[channel];
  });
}

async function run_layout(name, options, normalisation) {
  const g = make_layout(name, options);
  const session = await ort.InferenceSession.create(write_onnx(g), { logSeverityLevel: 3 });
  const data = await read_photo(options.size, normalisation);
  const [input] = session.inputNames;
  const results = await session.run({ [input]: new ort.Tensor('float32', data, [1, 3, options.size, options.size]) });
  return results[session.outputNames[0]];
}

const spread = (values) => {
  const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
  return Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length);
};

const kClassifiers = [
  { name: 'resnet18', options: { size: 224 } },
  { name: 'resnet50', options: { size: 224 } },
  { name: 'resnet50', options: { size: 160, batch: 'N', opset: 11 } },
  { name: 'mobilenet_v2', options: { size: 224 } },
];

for (const { name, options } of kClassifiers) {
  test(`${name}_logits_are_sane ${JSON.stringify(options)}`, async () => {
    const { data, dims } = await run_layout(name, options, kImagenet);
    assert.deepEqual([...dims], [1, 1000]);
    assert.ok(data.every(Number.isFinite));
    assert.ok(spread(data) > 0.5 && spread(data) < 10, `spread ${spread(data)}`);
  });
}

// Best class score of each box.
function box_scores(name, { data, dims }) {
  if (name === 'yolov5n') {
    return Array.from(
      { length: dims[1] },
      (_, i) => data[85 * i + 4] * Math.max(...data.subarray(85 * i + 5, 85 * i + 85)),
    );
  }
  const count = dims[2];
  return Array.from({ length: count }, (_, i) => {
    let best = 0;
    for (let row = 4; row < 84; row++) best = Math.max(best, data[row * count + i]);
    return best;
  });
}

const kDetectors = [
  { name: 'yolov8n', options: { size: 640 }, dims: [1, 84, 8400] },
  { name: 'yolov8n', options: { size: 320, simplify: false, batch: 'N' }, dims: [1, 84, 2100] },
  { name: 'yolov5n', options: { size: 320 }, dims: [1, 6300, 85] },
];

for (const { name, options, dims } of kDetectors) {
  test(`${name}_boxes_and_scores_are_sane ${JSON.stringify(options)}`, async (t) => {
    const output = await run_layout(name, options, kUnit);
    assert.deepEqual([...output.dims], dims);
    assert.ok(output.data.every(Number.isFinite));
    const scores = box_scores(name, output).sort((a, b) => b - a);
    const confident = scores.filter((score) => score > 0.25).length;
    t.diagnostic(
      `best score ${scores[0].toFixed(3)}, median ${scores[scores.length >> 1].toFixed(3)}, ${confident} above 0.25`,
    );
    assert.ok(scores[0] > 0.25 && scores[scores.length >> 1] < 0.25);
    assert.ok(confident < scores.length / 4);
  });
}

for (const [name, size, normalisation] of [
  ['mobilenet_v2', 96, kImagenet],
  ['yolov8n', 160, kUnit],
]) {
  test(`${name}_with_batch_norm_is_the_same_function`, async () => {
    const folded = await run_layout(name, { size }, normalisation);
    const unfused = await run_layout(name, { size, bn: true }, normalisation);
    const largest = folded.data.reduce((max, v) => Math.max(max, Math.abs(v)), 0);
    const worst = folded.data.reduce((max, v, i) => Math.max(max, Math.abs(v - unfused.data[i])), 0);
    assert.ok(worst < 1e-4 * largest, `${worst} of ${largest}`);
  });
}

test('same_seed_same_bytes_other_seed_other_bytes', () => {
  const bytes = (seed) => Buffer.from(write_onnx(make_layout('yolov8n', { size: 64, seed })));
  assert.ok(bytes(1).equals(bytes(1)));
  assert.ok(!bytes(1).equals(bytes(2)));
});

test('bad_layout_name_lists_the_known', () => {
  assert.throws(() => make_layout('resnet19'), /unknown layout 'resnet19'; known: resnet18 resnet50/);
});
