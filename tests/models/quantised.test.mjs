// Post-training quantisation of the shared models: nearly all products in int8, a bundle a quarter as large, and results close
// to float on pictures that were not calibrated on.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { list_recipes } from '../../models/index.mjs';
import { api } from '../support/api.mjs';
import { mean_average_precision } from '../support/mean_ap.mjs';
import { read_shared_json, read_shared_npy, shared_absent, shared_path } from '../support/shared.mjs';

const options = { skip: shared_absent };
const recipe_named = (name) => list_recipes().find((recipe) => recipe.name === name);

/** The float and the int8 bundle of a shared model, and the report. */
async function quantise(file, compile_options, calibration, quantization = {}) {
  const onnx = readFileSync(shared_path('models', file));
  let report;
  const onReport = (made) => (report = made);
  const int8 = await api.compile(onnx, {
    ...compile_options,
    precision: 'int8',
    calibration,
    quantization: { ...quantization, onReport },
  });
  return { float: await api.compile(onnx, compile_options), int8, report };
}

/**
 * What holds for every model: the share of int8 beside the head, and the size. Last, so that the results are seen. Of nets below
 * a million weights, what is kept a channel (bias, multiplier) and the head in float weigh more.
 */
function check_report(t, { float, int8, report }, largest = 0.27) {
  const share = report.int8_macs / (report.macs - report.head_macs);
  const size = int8.length / float.length;
  t.diagnostic(
    `int8 ${(100 * share).toFixed(1)} % of MACs beside the head, bundle ${(100 * size).toFixed(1)} % of float`,
  );
  t.diagnostic(report.outputs.map(({ name, sqnr_db }) => `${name} ${sqnr_db.toFixed(1)} dB`).join(', '));
  assert.ok(share >= 0.95, `int8 share ${share}`);
  assert.ok(size <= largest, `size ${size}`);
}

/** Samples whose label is among the `k` likeliest classes. */
async function count_right(bundle, samples, labels, k) {
  const net = await api.ImageModel.load(bundle);
  let right = 0;
  for (const [i, sample] of samples.entries()) {
    const { outputs } = await net.run(await sample());
    const scores = [...Object.values(outputs)[0].data];
    const top = scores.map((_, index) => index).sort((a, b) => scores[b] - scores[a]);
    if (top.slice(0, k).some((index) => labels[i].includes(index))) ++right;
  }
  net.dispose();
  return right;
}

const pictures_of = ({ shape: [n, height, width], data }) =>
  Array.from({ length: n }, (_, i) => {
    const size = height * width * 3;
    return async () => ({ data: data.subarray(i * size, (i + 1) * size), width, height, channels: 3 });
  });

for (const name of ['resnet20', 'resnet56']) {
  test(`${name}_loses_at_most_three_of_500_pictures`, options, async (t) => {
    const calibration = read_shared_npy('cifar10/calib_256.npy');
    const { preprocess, task } = recipe_named(`${name}_cifar10`);
    const made = await quantise(`${name}_cifar10.onnx`, { preprocess, task }, calibration);
    assert.deepEqual(
      made.report.notices.filter((notice) => /fewer than 100/.test(notice)),
      [],
    );
    const pictures = pictures_of(read_shared_npy('cifar10/eval_500_hard.npy'));
    const { labels } = read_shared_json('cifar10/labels.json').eval_500;
    const classes = labels.map((label) => [label]);
    const [float, int8] = [
      await count_right(made.float, pictures, classes, 1),
      await count_right(made.int8, pictures, classes, 1),
    ];
    t.diagnostic(`top-1 of ${pictures.length}: float ${float}, int8 ${int8}`);
    assert.ok(float >= 440 && float - int8 <= 3);
    check_report(t, made);
  });
}

const files_of = (folder) =>
  readdirSync(shared_path(folder))
    .filter((name) => name.endsWith('.jpg'))
    .sort()
    .map((name) => shared_path(folder, name));

async function* read_all(files) {
  for (const file of files) yield await api.readImage(file);
}

test('mobilenet_v1_loses_at_most_one_picture_at_top_5', options, async (t) => {
  const { preprocess, task } = recipe_named('mobilenet_v1');
  const calibration = () => read_all(files_of('coco_calib/images'));
  const made = await quantise('mobilenetv1_025_224_imagenet.onnx', { preprocess, task }, calibration);
  assert.match(made.report.notices.join('\n'), /26 calibration samples: ranges from fewer than 100/);
  const entries = Object.values(read_shared_json('imagenet_ccby/labels.json'))
    .flat()
    .filter((entry) => entry?.file);
  assert.ok(entries.length >= 50);
  const pictures = entries.map(
    ({ file }) =>
      () =>
        api.readImage(shared_path('imagenet_ccby', file)),
  );
  const labels = entries.map(({ imagenet }) => imagenet);
  const [float, int8] = [
    await count_right(made.float, pictures, labels, 5),
    await count_right(made.int8, pictures, labels, 5),
  ];
  t.diagnostic(`top-5 of ${pictures.length}: float ${float}, int8 ${int8}`);
  assert.ok(float >= 36 && float - int8 <= 1);
  check_report(t, made, 0.275);
});

/** Objects of a picture as the dataset labels them. */
function read_objects(file, { width, height }) {
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => {
    const [id, x, y, w, h] = line.split(' ').map(Number);
    return { class: id, box: [(x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height] };
  });
}

async function detect_all(bundle, files) {
  const detector = await api.Detector.load(bundle);
  const detections = [];
  for (const file of files) {
    const limits = { score: 0.001, iou: 0.65, maxDetections: 10_000, multiLabel: true };
    detections.push(await detector.detect(await api.readImage(file), limits));
  }
  detector.dispose();
  return detections;
}

const above = (detections, score) => detections.flat().filter((one) => one.score >= score).length;

test('yolox_nano_loses_at_most_one_point_of_map_and_its_scores_do_not_collapse', options, async (t) => {
  const { preprocess, task } = recipe_named('yolox_nano');
  const calibration = () => read_all(files_of('coco_calib/images'));
  const made = await quantise('yolox_nano.onnx', { preprocess, task }, calibration);
  assert.ok(made.report.head.length > 0, 'the head stays float');
  const files = files_of('coco/images');
  const objects = await Promise.all(
    files.map(async (file) => {
      const labels = file.replace('/images/', '/labels/').replace('.jpg', '.txt');
      return read_objects(labels, await api.readImage(file));
    }),
  );
  const [float, int8] = [await detect_all(made.float, files), await detect_all(made.int8, files)];
  const [float_map, int8_map] = [float, int8].map((found) => mean_average_precision(found, objects));
  t.diagnostic(`mAP@0.5: float ${float_map.toFixed(4)}, int8 ${int8_map.toFixed(4)}`);
  t.diagnostic(`boxes of score >= 0.25: float ${above(float, 0.25)}, int8 ${above(int8, 0.25)}`);
  assert.ok(Math.abs(float_map - 0.528) < 0.002);
  assert.ok(float_map - int8_map <= 0.01);
  assert.ok(above(int8, 0.25) >= 0.9 * above(float, 0.25));
  check_report(t, made, 0.31);
});
