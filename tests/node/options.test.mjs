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
    [
      () => api.load(bundle, { SIMD: 'simd' }),
      /^load: unknown key 'SIMD'; allowed: simd, threads, tile, wasm, signal, onProgress$/,
    ],
    [() => api.load(bundle, { threads: 0 }), /^load: threads=0; allowed: 'auto', whole numbers from 1 to 64$/],
    [() => api.load(bundle, { threads: 65 }), /^load: threads=65; allowed: 'auto', whole/],
    [() => api.load(bundle, { threads: 1.5 }), /^load: threads=1\.5; allowed: 'auto', whole/],
    [() => api.load(bundle, { threads: NaN }), /^load: threads=NaN; allowed: 'auto', whole/],
    [() => api.load(bundle, { threads: '2' }), /^load: threads="2"; allowed: 'auto', whole/],
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

const int8 = (quantization, calibration = [feeds]) => ({ precision: 'int8', calibration, quantization });

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
    [{ precision: 'int8' }, /^compile: precision 'int8' needs calibration: some hundred images or tensors/],
    [{ calibration: [] }, /^compile: calibration goes with precision: 'int8' only/],
    [{ quantization: {} }, /^compile: quantization goes with precision: 'int8' only/],
    [int8({}, 'photos'), /^compile: calibration="photos"; allowed: an array of images or tensors/],
    [int8({ methods: 'mse' }), /^compile: quantization: unknown key 'methods'; allowed: count, method, keepFloat/],
    [int8({ method: 'best' }), /method="best"; allowed: search, minmax, percentile, entropy, mse/],
    [int8({ count: 0 }), /count=0; allowed: a whole number, 1 to/],
    [int8({ keepFloat: 'conv' }), /keepFloat="conv"; allowed: an array of node names/],
    [int8({ keepFloat: ['a,b'] }), /keepFloat has the node name 'a,b'; allowed: names without a comma/],
    [int8({ accuracyBudget: 1 }), /accuracyBudget needs evaluate/],
    [int8({ evaluateLabels: [1] }), /evaluateLabels needs evaluate/],
    [int8({ evaluate: [], accuracyBudget: -1 }), /accuracyBudget=-1; allowed: a number, 0 to 100/],
    [
      int8({ runtime: { signal: 5 } }),
      /quantization: runtime: unknown key 'signal'; allowed: simd, threads, tile, wasm/,
    ],
    [{ pruneThreshold: -1 }, /pruneThreshold=-1; allowed: a number, 0 to below 1/],
    [{ exact: 1 }, /exact=1; allowed: true, false/],
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

/** A bundle with input images [1, 3, 64, 64] and output `out` of this shape, which holds `value` but for boxes of some size. */
function head_net(shape, { value = 0 } = {}) {
  const g = graph('head', { opset: 13 });
  const x = g.input('images', [1, 3, 64, 64]);
  const zero = g.node('ReduceMean', [g.node('Sub', [x, x])], { keepdims: 1, axes: [0, 1, 2, 3] });
  const flat = g.node('Reshape', [zero, g.initializer('one', 'int64', [1], [1n])]);
  const count = shape.reduce((n, dim) => n * dim, 1);
  const numbers = Array.from({ length: count }, (_, i) => (i % 6 === 2 || i % 6 === 3 ? 9 : value));
  const fixed = g.initializer('values', 'float32', shape, value === 0 ? new Array(count).fill(0) : numbers);
  g.output(g.node('Add', [flat, fixed], {}, { outputs: ['out'] }), shape);
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
      /^Detector\.load: unknown key 'score'; allowed: simd, threads, tile, wasm/,
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

test('labels_of_another_number_are_named_with_their_origin', async (t) => {
  const made = await Promise.all([head_net([1, 84, 7]), head_net([1, 10])]);
  const [yolox, classes] = await Promise.all(made.map((bytes) => api.load(bytes)));
  t.after(() => [yolox, classes].forEach((m) => m.dispose()));
  const preprocess = kRecipe;
  const make = (Class, of, count) => new Class(of, { preprocess, labels: new Array(count).fill('x') });
  assert.equal(make(api.Detector, yolox, 2).decoder, 'yolox');
  make(api.Classifier, classes, 10);
  await refused(() => make(api.Detector, yolox, 1), /room for 2 classes, but there are 1 labels in the options/);
  await refused(() => make(api.Detector, yolox, 81), /room for 2 classes, but there are 81 labels in the options/);
  await refused(() => make(api.Classifier, classes, 3), /has 10 classes, but there are 3 labels in the options/);
  await refused(() => make(api.Classifier, classes, 20), /has 10 classes, but there are 20 labels in the options/);
  const options = { labels: ['a', 'b', 'c'], preprocess: kRecipe };
  const mislabelled = await api.compile(onnx, options);
  await refused(() => api.Classifier.load(mislabelled), /has 5 classes, but there are 3 labels in the bundle/);
});

test('anchors_are_checked', async (t) => {
  const tiny = await api.load(await head_net([1, 2, 2, 10]));
  const yolox = await api.load(await head_net([1, 84, 7]));
  t.after(() => [tiny, yolox].forEach((m) => m.dispose()));
  const make = (anchors, of = tiny) =>
    new api.Detector(of, { decoder: of === tiny ? 'tiny-yolov2' : 'yolox', preprocess: kRecipe, anchors });
  const pair = [1, 2];
  make([pair, pair]);
  make([pair]);
  make([pair], yolox);
  const cases = [
    [[], /tiny-yolov2 needs 1 to 16 anchors.* got \[\]/],
    [undefined, /tiny-yolov2 needs 1 to 16 anchors.* got \[\]/],
    [[pair, pair, pair], /output 'out' \[1, 2, 2, 10\] has 5 \+ classes values for each/],
    [[1, 2], /anchors=\[1,2\]; allowed: at most 16 pairs/],
    [[[1, 2, 3]], /anchors=/],
    [[[0, 1]], /anchors=/],
    [[[1, -1]], /anchors=/],
    [[[1, NaN]], /anchors=/],
    [[['1', '2']], /anchors=/],
    ['1,2', /anchors="1,2"/],
    [new Array(40).fill(pair), /anchors=.*; allowed: at most 16 pairs/],
  ];
  for (const [anchors, message] of cases) await refused(() => make(anchors), message);
  await refused(() => make(new Array(40).fill(pair), yolox), /allowed: at most 16 pairs/);
  const image = { data: new Uint8Array(192), width: 8, height: 8, channels: 3 };
  assert.ok((await make([pair, pair]).detect(image)).every(({ score }) => score === 0.5));
});

test('a_score_above_1_is_an_error', async (t) => {
  const level = async (value) => {
    const detector = new api.Detector(await api.load(await head_net([1, 20, 6], { value })), { preprocess: kRecipe });
    t.after(() => detector.dispose());
    return detector.detect(kImage);
  };
  const [best] = await level(1 + 2 ** -20); // rounding of a sigmoid
  assert.equal(best.score, 1);
  await assert.rejects(level(3.875), {
    code: 'INVALID_ARGUMENT',
    message: /'end2end' reads a score of 3\.875 from output 'out' \[1, 20, 6\], scores are 0 to 1: another decoder/,
  });
});

test('load_of_vision_takes_the_options_of_both', async () => {
  const options = { simd: 'simd', preprocess: kRecipe, onProgress: undefined, labels: undefined };
  const net = await api.Classifier.load(await head_net([1, 10]), options);
  assert.equal(net.model.simd, 'simd');
  net.dispose();
});
