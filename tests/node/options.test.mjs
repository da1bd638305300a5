// Options of every call: an unknown name and a value of another kind are refused, never ignored.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api } from '../support/api.mjs';
import { conv_net } from '../support/graphs.mjs';

const onnx = conv_net();
const feeds = { images: new Float32Array(192) };
let bundle;
let model;

before(async () => {
  bundle = await api.compile(onnx);
  model = await api.load(bundle);
});
after(() => model.dispose());

/** The call must fail, at once or as a promise, with INVALID_ARGUMENT and this message. */
const refused = (call, message) =>
  assert.rejects(async () => call(), { name: 'KilnError', code: 'INVALID_ARGUMENT', message });

test('unknown_keys_and_wrong_values_of_load_and_run_are_named', async () => {
  const cases = [
    [() => api.load(bundle, { SIMD: 'simd' }), /^load: unknown key 'SIMD'; allowed: simd, wasm, signal, onProgress$/],
    [() => api.load(bundle, null), /^load: an object is needed, got null/],
    [() => api.load(bundle, 'simd'), /^load: an object is needed, got "simd"/],
    [() => api.load(bundle, { signal: 5 }), /^load: signal=5; allowed: an AbortSignal/],
    [() => api.load(bundle, { onProgress: true }), /^load: onProgress=true; allowed: a function/],
    [() => model.run(feeds, { output: {} }), /^run: unknown key 'output'; allowed: outputs, signal$/],
    [() => model.run(feeds, null), /^run: an object is needed, got null/],
    [() => model.run(feeds, { signal: 5 }), /^run: signal=5; allowed: an AbortSignal/],
    [() => model.run(feeds, { outputs: 'logits' }), /^run: outputs="logits"; allowed: an object/],
  ];
  for (const [call, message] of cases) await refused(call, message);
  await model.run(feeds, { outputs: undefined, signal: undefined });
  await model.run(feeds, undefined);
});

test('unknown_keys_and_wrong_values_of_compile_are_named', async () => {
  const circle = { resize: 'stretch' };
  circle.mean = circle;
  const cases = [
    [{ dynamicSizes: [] }, /^compile: unknown key 'dynamicSizes'; allowed: inputShape, dynamicBatch, dynamicSize,/],
    [null, /^compile: an object is needed, got null/],
    [{ dynamicBatch: 4 }, /^compile: dynamicBatch=4; allowed: an array of whole numbers/],
    [{ dynamicBatch: '1,4' }, /dynamicBatch="1,4"; allowed/],
    [{ dynamicBatch: [1, 2.5] }, /dynamicBatch=\[1,2\.5\]; allowed/],
    [{ dynamicSize: [320, 320] }, /dynamicSize=\[320,320\]; allowed: an array of pairs \[height, width\]/],
    [{ inputShape: { images: [1, 3, 8, 8] } }, /inputShape={"images".*; allowed: a text like 'images:1,3,640,640'/],
    [{ inputShape: null }, /inputShape=null; allowed/],
    [{ inputLayout: 5 }, /inputLayout=5; allowed: a text/],
    [{ inputLayout: '' }, /--input-layout needs a value/],
    [{ task: 'classify\0--labels' }, /"classify\\u0000--labels" has a zero character/],
    [{ inputShape: ['images:1,3,8,8\0'] }, /has a zero character/],
    [{ labels: ['a\0b'] }, /label "a\\u0000b" has a zero character/],
    [{ labels: 'abc' }, /labels="abc"; allowed: an array of texts/],
    [{ labels: [1, 2] }, /labels=\[1,2\]; allowed: an array of texts/],
    [{ labels: new Array(2) }, /labels=\[null,null\]; allowed/],
    [{ labels: ['a', '', 'b'] }, /: labels: line 2 is empty; allowed: one class name a line/],
    [{ preprocess: 5 }, /preprocess=5; allowed: the name of a preset, or a recipe/],
    [{ preprocess: circle }, /preprocess is no JSON: .*circular/],
    [{ preprocess: { resize: 'fit' } }, /: preprocess: preprocessing recipe: resize="fit"/],
    [{ files: { x: 'abc' } }, /files={"x":"abc"}; allowed: an object with Uint8Arrays by name/],
    [{ files: { x: new ArrayBuffer(4) } }, /files=.*; allowed: an object with Uint8Arrays/],
    [{ bind: { images: new Float32Array(192) } }, /bind=.*; allowed: an object with Tensors by name/],
    [{ onNotice: 'log' }, /onNotice="log"; allowed: a function/],
    [{ signal: 5 }, /signal=5; allowed: an AbortSignal/],
    [{ wasm: 5 }, /wasm=5; allowed: URL or path string, URL, Response/],
    [{ wasm: null }, /wasm=null; allowed/],
  ];
  for (const [options, message] of cases) await refused(() => api.compile(onnx, options), message);
  await refused(() => api.load(bundle, { wasm: null }), /wasm=null; allowed: URL or path string/);
  const wasm = join(root, 'dist/kiln-simd.wasm');
  await assert.rejects(api.compile(onnx, { wasm }), { code: 'VERSION', message: /compiler\.wasm is needed/ });
  const bind = { images: new api.Tensor('f32', [1], new Float32Array(1)) };
  await assert.rejects(api.compile(onnx, { bind }), (error) => !error.message.includes('option:'));
});

const kRecipe = { resize: 'stretch' };
const kImage = { data: new Uint8Array(192), width: 8, height: 8, channels: 3 };

/** A bundle whose output has this shape and is all 0, and whose input is images [1, 3, size, size]. */
function head_net(shape, { size = 64, name = 'out' } = {}) {
  const g = graph('head', { opset: 13 });
  const x = g.input('images', [1, 3, size, size]);
  const zero = g.node('ReduceMean', [g.node('Sub', [x, x])], { keepdims: 1, axes: [0, 1, 2, 3] });
  const flat = g.node('Reshape', [zero, g.initializer('one', 'int64', [1], [1n])]);
  const dims = g.initializer('dims', 'int64', [shape.length], shape.map(BigInt));
  g.output(g.node('Expand', [flat, dims], {}, { outputs: [name] }), shape);
  return api.compile(write_onnx(g));
}

test('unknown_keys_and_wrong_values_of_vision_are_named', async (t) => {
  const yolox = await api.load(await head_net([1, 84, 7]));
  const classes = await api.load(await head_net([1, 10]));
  t.after(() => [yolox, classes].forEach((m) => m.dispose()));
  const preprocess = kRecipe;
  const detector = new api.Detector(yolox, { preprocess });
  const classifier = new api.Classifier(classes, { preprocess, labels: undefined });
  const net = new api.ImageModel(classes, { preprocess });
  const { Detector, Classifier, ImageModel } = api;
  const cases = [
    [
      () => new Detector(yolox, { decode: 'yolox' }),
      /^Detector: unknown key 'decode'; allowed: decoder, preprocess, labels/,
    ],
    [() => new Detector(yolox, null), /^Detector: an object is needed, got null/],
    [() => new Detector(yolox, { decoder: 5 }), /^Detector: decoder=5; allowed: yolov5, yolov8/],
    [() => new Detector(yolox, { labels: [1, 2] }), /^Detector: labels=\[1,2\]; allowed: an array of texts/],
    [() => new Detector(yolox, { labels: 'person' }), /^Detector: labels="person"/],
    [
      () => new Detector(yolox, { preprocess: 'yolox' }),
      /^Detector: preprocess="yolox"; .*presets are for compile\(\) only/,
    ],
    [
      () => Detector.load(bundle, { simd: 'simd', score: 0.5 }),
      /^Detector\.load: unknown key 'score'; allowed: simd, wasm/,
    ],
    [() => Detector.load(bundle, null), /^Detector\.load: an object is needed, got null/],
    [
      () => detector.detect(kImage, { scores: 0.5 }),
      /^detect: unknown key 'scores'; allowed: score, iou, maxDetections/,
    ],
    [() => detector.detect(kImage, { score: '0.5' }), /^detect: score="0\.5"; allowed: 0 to 1/],
    [
      () => detector.detect(kImage, { maxDetections: 1.5 }),
      /^detect: maxDetections=1\.5; allowed: whole numbers, 0 to/,
    ],
    [() => detector.detect(kImage, { classAgnostic: 'no' }), /^detect: classAgnostic="no"; allowed: true, false/],
    [() => detector.detect(kImage, { signal: 5 }), /^detect: signal=5/],
    [() => detector.detect(kImage, null), /^detect: an object is needed, got null/],
    [
      () => new Classifier(classes, { softMax: true }),
      /^Classifier: unknown key 'softMax'; allowed: preprocess, labels, softmax/,
    ],
    [
      () => new Classifier(classes, { preprocess, softmax: 'x' }),
      /^Classifier: softmax="x"; allowed: true, false, 'auto'/,
    ],
    [() => Classifier.load(bundle, { top: 5 }), /^Classifier\.load: unknown key 'top'/],
    [() => classifier.classify(kImage, { k: 5 }), /^classify: unknown key 'k'; allowed: top, signal/],
    [() => classifier.classify(kImage, { top: 0 }), /^classify: top=0; allowed: whole numbers from 1/],
    [() => new ImageModel(classes, { recipe: preprocess }), /^ImageModel: unknown key 'recipe'; allowed: preprocess/],
    [() => ImageModel.load(bundle, { preproces: preprocess }), /^ImageModel\.load: unknown key 'preproces'/],
    [() => net.run(kImage, { outputs: {} }), /^run: unknown key 'outputs'; allowed: signal/],
  ];
  for (const [call, message] of cases) await refused(call, message);
  assert.equal((await classifier.classify(kImage)).length, 5);
});

test('load_of_vision_takes_the_options_of_both', async () => {
  const options = { simd: 'simd', preprocess: kRecipe, onProgress: undefined, labels: undefined };
  const net = await api.Classifier.load(await head_net([1, 10]), options);
  assert.equal(net.model.simd, 'simd');
  net.dispose();
});
