// YOLOX-nano on 40 COCO pictures: the same boxes as onnxruntime between the package's own C++ pre- and post-processing, and
// the boxes that ../shared/data keeps.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { before, after, test } from 'node:test';
import * as ort from 'onnxruntime-node';
import { list_recipes, read_recipe_labels } from '../../models/index.mjs';
import { api } from '../support/api.mjs';
import { decode_boxes, differing_boxes, make_preprocessor } from '../support/boxes.mjs';
import { read_shared_json, shared_absent, shared_path } from '../support/shared.mjs';

const kScore = 0.25;
const kIou = 0.65;
const options = { skip: shared_absent };

let detector;
let preprocessor;
let session;
let recipe;

before(async () => {
  if (shared_absent) return;
  recipe = list_recipes().find(({ name }) => name === 'yolox_nano');
  const onnx = readFileSync(shared_path('models/yolox_nano.onnx'));
  const { preprocess, task } = recipe;
  detector = await api.Detector.load(await api.compile(onnx, { preprocess, task, labels: read_recipe_labels(recipe) }));
  preprocessor = await make_preprocessor(preprocess, [416, 416]);
  session = await ort.InferenceSession.create(onnx);
});
after(() => {
  detector?.dispose();
  preprocessor?.dispose();
});

const pictures = shared_absent ? [] : readdirSync(shared_path('coco/images')).filter((name) => name.endsWith('.jpg'));

async function detect_by_onnxruntime(image) {
  const { tensor, placement } = await preprocessor.run(image);
  const { output } = await session.run({ images: new ort.Tensor('float32', tensor.data, tensor.shape) });
  return decode_boxes(detector.model, {
    decoder: 'yolox',
    data: output.data,
    dims: output.dims,
    input: [416, 416],
    score: kScore,
    iou: kIou,
    placement,
    image,
  });
}

test('same_boxes_as_onnxruntime_with_the_same_pre_and_post_processing', options, async (t) => {
  assert.equal(pictures.length, 40);
  let boxes = 0;
  for (const name of pictures) {
    const image = await api.readImage(shared_path('coco/images', name));
    const actual = await detector.detect(image, { score: kScore, iou: kIou });
    const expected = await detect_by_onnxruntime(image);
    assert.equal(differing_boxes(actual, expected, { iou: 0.98, score_tolerance: 0.005 }), undefined, name);
    boxes += expected.length;
  }
  t.diagnostic(`${boxes} boxes in ${pictures.length} pictures`);
  assert.ok(boxes > 150);
});

test('the_boxes_kept_with_the_pictures', options, async () => {
  const kept = read_shared_json('expected/yolox_nano_detections.json');
  for (const name of pictures) {
    const image = await api.readImage(shared_path('coco/images', name));
    const actual = await detector.detect(image, { score: kScore, iou: kIou });
    const clip = (value, side) => Math.max(0, Math.min(value, side % 2 === 0 ? image.width : image.height));
    const expected = kept[name.replace('.jpg', '')].map(([x1, y1, x2, y2, score, class_id]) => ({
      box: [x1, y1, x2, y2].map(clip),
      score,
      class: class_id,
    }));
    // JPEG decoders differ by a level or two a pixel.
    const tolerance = { iou: 0.95, score_tolerance: 0.02, threshold: kScore, nms_iou: kIou };
    assert.equal(differing_boxes(actual, expected, tolerance), undefined, name);
  }
});

test('labels_and_decoder_come_from_the_bundle', options, async () => {
  assert.equal(detector.decoder, 'yolox');
  const image = await api.readImage(shared_path('coco/images', pictures[0]));
  const labels = read_recipe_labels(recipe);
  for (const { class: id, label } of await detector.detect(image)) assert.equal(label, labels[id]);
});

test('options_of_detect', options, async () => {
  const image = await api.readImage(shared_path('coco/images/000000000872.jpg'));
  const all = await detector.detect(image, { score: 0.05 });
  const strict = await detector.detect(image, { score: 0.5 });
  assert.ok(strict.length < all.length && strict.every(({ score }) => score >= 0.5));
  assert.deepEqual(await detector.detect(image, { score: 0.05, maxDetections: 2 }), all.slice(0, 2));
  assert.deepEqual(await detector.detect(image, { maxDetections: 0 }), []);
  const agnostic = await detector.detect(image, { score: 0.05, classAgnostic: true });
  const many = await detector.detect(image, { score: 0.05, multiLabel: true });
  assert.ok(agnostic.length <= all.length && many.length >= all.length);
  for (const [wrong, message] of [
    [{ score: 2 }, /score=2; allowed: 0 to 1/],
    [{ iou: NaN }, /iou=NaN/],
    [{ maxDetections: 1.5 }, /maxDetections=1\.5/],
  ]) {
    await assert.rejects(detector.detect(image, wrong), { code: 'INVALID_ARGUMENT', message });
  }
  await assert.rejects(detector.detect(image, { signal: AbortSignal.abort() }), { code: 'ABORTED' });
});
