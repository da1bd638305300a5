// The real models of ../shared/data against the reference outputs kept there: values, and the class of every picture.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { list_recipes, read_recipe_labels } from '../../models/index.mjs';
import { api, relative_error, run_onnxruntime } from '../support/api.mjs';
import { make_preprocessor } from '../support/boxes.mjs';
import {
  arg_max,
  read_shared_json,
  read_shared_npy,
  shared_absent,
  shared_path,
  to_planes,
} from '../support/shared.mjs';
import { readFileSync, readdirSync } from 'node:fs';

const kTolerance = 1e-4; // of the tensor's largest value
const options = { skip: shared_absent };

async function load_model(t, file, compile_options) {
  const start = performance.now();
  const bundle = await api.compile(shared_path('models', file), compile_options);
  const model = await api.load(bundle);
  t.after(() => model.dispose());
  t.diagnostic(`${file}: compiled in ${(performance.now() - start).toFixed(0)} ms, ${model.simd}`);
  return model;
}

test('yolox_nano_output', options, async (t) => {
  const model = await load_model(t, 'yolox_nano.onnx');
  const pixels = read_shared_npy('expected', 'yolox_nano_397133_in_u8_rgb.npy');
  const bgr = { shape: [1, ...pixels.shape], data: pixels.data.slice() };
  for (let i = 0; i < bgr.data.length; i += 3) [bgr.data[i], bgr.data[i + 2]] = [bgr.data[i + 2], bgr.data[i]];
  const { output } = await model.run({ images: to_planes(bgr, (value) => value) });
  const expected = read_shared_npy('expected', 'yolox_nano_397133_out.npy');
  assert.deepEqual(output.shape, expected.shape);
  const error = relative_error(output.data, expected.data);
  t.diagnostic(`relative error ${error.toExponential(2)}`);
  assert.ok(error <= kTolerance, `relative error ${error}`);
});

const kMean = [0.485, 0.456, 0.406];
const kStd = [0.229, 0.224, 0.225];
const kCifarNets = [
  ['resnet20_cifar10', (value, c) => (value / 255 - kMean[c]) / kStd[c]],
  ['resnet56_cifar10', (value, c) => (value / 255 - kMean[c]) / kStd[c]],
  ['resnet8_cifar10', (value) => value],
];
const kBatch = 20;

for (const [name, convert] of kCifarNets) {
  test(`${name}_outputs_and_classes_of_1000_pictures`, options, async (t) => {
    const model = await load_model(t, `${name}.onnx`, { inputShape: `input:${kBatch},3,32,32` });
    const [output] = model.outputs.map((info) => info.name);
    for (const set of ['eval_500', 'eval_500_hard']) {
      const pictures = to_planes(read_shared_npy('cifar10', `${set}.npy`), convert);
      const expected = read_shared_npy('expected', `${name}_${set}_out.npy`);
      const item = 3 * 32 * 32;
      const actual = new Float32Array(expected.data.length);
      for (let i = 0; i < 500; i += kBatch) {
        const feed = new api.Tensor('f32', [kBatch, 3, 32, 32], pictures.data.subarray(i * item, (i + kBatch) * item));
        actual.set((await model.run({ input: feed }))[output].data, i * 10);
      }
      const error = relative_error(actual, expected.data);
      t.diagnostic(`${set}: relative error ${error.toExponential(2)}`);
      assert.ok(error <= kTolerance, `${set}: relative error ${error}`);
      for (let i = 0; i < 500; ++i) {
        const class_of = (data) => arg_max(data.subarray(10 * i, 10 * i + 10));
        assert.equal(class_of(actual), class_of(expected.data), `${set}, picture ${i}`);
      }
    }
  });
}

test('cifar_pictures_through_Classifier', options, async (t) => {
  const recipe = list_recipes().find(({ name }) => name === 'resnet20_cifar10');
  const model = await load_model(t, 'resnet20_cifar10.onnx', {
    task: 'classify',
    preprocess: recipe.preprocess,
    labels: read_recipe_labels(recipe),
  });
  const classifier = new api.Classifier(model);
  const { shape, data } = read_shared_npy('cifar10', 'eval_500_hard.npy');
  const expected = read_shared_npy('expected', 'resnet20_cifar10_eval_500_hard_out.npy').data;
  const { classes } = read_shared_json('cifar10', 'labels.json');
  const bytes = 32 * 32 * 3;
  for (let i = 0; i < shape[0]; ++i) {
    const pixels = data.subarray(i * bytes, (i + 1) * bytes);
    const [best] = await classifier.classify({ data: pixels, width: 32, height: 32, channels: 3 }, { top: 1 });
    assert.equal(best.index, arg_max(expected.subarray(10 * i, 10 * i + 10)), `picture ${i}`);
    assert.equal(best.label, classes[best.index]);
  }
});

test('mobilenet_v1_output', options, async (t) => {
  const model = await load_model(t, 'mobilenetv1_025_224_imagenet.onnx', { inputShape: 'input:4,3,224,224' });
  const pixels = read_shared_npy('expected', 'mobilenetv1_025_224_imagenet_first4_in_u8.npy');
  const { predictions } = await model.run({ input: to_planes(pixels, (value) => value / 127.5 - 1) });
  const expected = read_shared_npy('expected', 'mobilenetv1_025_224_imagenet_first4_out.npy');
  const error = relative_error(predictions.data, expected.data);
  t.diagnostic(`relative error ${error.toExponential(2)}`);
  assert.ok(error <= kTolerance, `relative error ${error}`);
});

test('imagenet_pictures_through_Classifier', options, async (t) => {
  const recipe = list_recipes().find(({ name }) => name === 'mobilenet_v1');
  const file = 'mobilenetv1_025_224_imagenet.onnx';
  const model = await load_model(t, file, {
    task: 'classify',
    preprocess: recipe.preprocess,
    labels: read_recipe_labels(recipe),
  });
  const classifier = new api.Classifier(model);
  const preprocessor = await make_preprocessor(recipe.preprocess, [224, 224]);
  t.after(() => preprocessor.dispose());
  const onnx = readFileSync(shared_path('models', file));
  const expected = read_shared_json('expected', 'mobilenetv1_025_224_imagenet_top5.json');
  assert.equal(
    expected.length,
    readdirSync(shared_path('imagenet_ccby')).filter((name) => name.endsWith('.jpg')).length,
  );
  for (const { file: name, top5 } of expected) {
    const image = await api.readImage(join(shared_path('imagenet_ccby'), name));
    const classes = await classifier.classify(image, { top: 5 });
    assert.equal(classes[0].index, top5[0][0], name);
    const { tensor } = await preprocessor.run(image);
    const { predictions } = await run_onnxruntime(onnx, { input: tensor });
    assert.equal(classes[0].index, arg_max(predictions.data), name);
    for (const { index, score } of classes) {
      assert.ok(Math.abs(score - predictions.data[index]) <= kTolerance, `${name}: class ${index} ${score}`);
    }
  }
});
