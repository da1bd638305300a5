// The real models of ../shared/data in Chromium, on pixels that Node decoded: the class of every picture, the boxes of COCO.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { list_recipes, read_recipe_labels } from '../../models/index.mjs';
import { api } from '../support/api.mjs';
import { differing_boxes } from '../support/boxes.mjs';
import { chromium_absent, open_page } from '../support/page.mjs';
import { arg_max, read_shared_json, read_shared_npy, shared_absent, shared_path } from '../support/shared.mjs';

const options = { skip: shared_absent || chromium_absent };

async function compile_recipe(name) {
  const recipe = list_recipes().find((candidate) => candidate.name === name);
  const { preprocess, task } = recipe;
  return api.compile(shared_path('models', recipe.file), { preprocess, task, labels: read_recipe_labels(recipe) });
}

/** The class of each of `count` pictures of side x side RGB pixels that lie one after the other at /pixels. */
const classify_all = (page, count, side) =>
  page.evaluate(
    async ([n, s]) => {
      const classifier = await api.Classifier.load('/model.kiln');
      const pixels = await fetch_bytes('/pixels');
      const classes = [];
      for (let i = 0; i < n; ++i) {
        const data = pixels.subarray(i * s * s * 3, (i + 1) * s * s * 3);
        const [best] = await classifier.classify({ data, width: s, height: s, channels: 3 }, { top: 1 });
        classes.push(best.index);
      }
      classifier.dispose();
      return classes;
    },
    [count, side],
  );

for (const name of ['resnet20_cifar10', 'resnet56_cifar10', 'resnet8_cifar10']) {
  test(`${name}_classes_of_1000_pictures`, options, async (t) => {
    const model = await compile_recipe(name);
    for (const set of ['eval_500', 'eval_500_hard']) {
      const { data } = read_shared_npy('cifar10', `${set}.npy`);
      const { page } = await open_page(t, { files: { '/model.kiln': model, '/pixels': data } });
      const expected = read_shared_npy('expected', `${name}_${set}_out.npy`).data;
      const wanted = Array.from({ length: 500 }, (_, i) => arg_max(expected.subarray(10 * i, 10 * i + 10)));
      assert.deepEqual(await classify_all(page, 500, 32), wanted, set);
    }
  });
}

test('mobilenet_v1_classes_of_51_pictures', options, async (t) => {
  const expected = read_shared_json('expected', 'mobilenetv1_025_224_imagenet_top5.json');
  const images = [];
  for (const { file } of expected) images.push(await api.readImage(shared_path('imagenet_ccby', file)));
  assert.ok(images.every(({ width, height, channels }) => width === 256 && height === 256 && channels === 3));
  const files = {
    '/model.kiln': await compile_recipe('mobilenet_v1'),
    '/pixels': Buffer.concat(images.map(({ data }) => data)),
  };
  const { page } = await open_page(t, { files });
  assert.deepEqual(
    await classify_all(page, images.length, 256),
    expected.map(({ top5 }) => top5[0][0]),
  );
});

test('yolox_nano_boxes_of_40_pictures', options, async (t) => {
  const bundle = await compile_recipe('yolox_nano');
  const names = readdirSync(shared_path('coco/images')).filter((name) => name.endsWith('.jpg'));
  const detector = await api.Detector.load(bundle, { simd: 'simd' });
  t.after(() => detector.dispose());
  const settings = { score: 0.25, iou: 0.65 };
  const images = {};
  for (const name of names) images[name] = await api.readImage(shared_path('coco/images', name));
  const files = { '/model.kiln': bundle };
  for (const name of names) {
    files[`/${name}`] = readFileSync(shared_path('coco/images', name));
    files[`/${name}.rgb`] = images[name].data;
  }
  const { page } = await open_page(t, { files });
  const found = await page.evaluate(
    async ([sizes, detect_options]) => {
      const one = await api.Detector.load('/model.kiln');
      const results = {};
      for (const [name, { width, height }] of Object.entries(sizes)) {
        const data = await fetch_bytes(`/${name}.rgb`);
        const decoded_by_node = await one.detect({ data, width, height, channels: 3 }, detect_options);
        const bitmap = await createImageBitmap(await (await fetch(`/${name}`)).blob());
        results[name] = { decoded_by_node, decoded_here: await one.detect(bitmap, detect_options) };
        bitmap.close();
      }
      one.dispose();
      return results;
    },
    [
      Object.fromEntries(names.map((name) => [name, { width: images[name].width, height: images[name].height }])),
      settings,
    ],
  );
  assert.equal(names.length, 40);
  for (const name of names) {
    const expected = await detector.detect(images[name], settings);
    const same = { iou: 0.98, score_tolerance: 0.005 };
    assert.equal(differing_boxes(found[name].decoded_by_node, expected, same), undefined, name);
    const other_decoder = { iou: 0.9, score_tolerance: 0.03, threshold: settings.score, nms_iou: settings.iou };
    assert.equal(differing_boxes(found[name].decoded_here, expected, other_decoder), undefined, name);
  }
});
