// A consumer of the package in strict TypeScript: compiled (not run) by types.test.mjs under several module resolutions.
import {
  capabilities,
  Classifier,
  compile,
  Detector,
  ImageModel,
  KilnError,
  load,
  quantizationSvg,
  quantizationText,
  Tensor,
  type Detection,
  type DType,
  type Feeds,
  type ImageSource,
  type Model,
  type PreprocessRecipe,
  type QuantizationOptions,
  type TensorInfo,
} from 'tilekiln';

export async function use_model(source: string | URL | Blob | ArrayBuffer): Promise<number> {
  const controller = new AbortController();
  using model: Model = await load(source, {
    signal: controller.signal,
    onProgress: ({ stage, loaded, total }) => console.log(stage, loaded / total),
    simd: 'auto',
  });
  const input: TensorInfo | undefined = model.inputs[0];
  const dtype: DType = input?.dtype ?? 'f32';
  const feeds: Feeds = {
    a: new Float32Array(3),
    b: [1n, 2n],
    c: [1, 2],
    d: new Tensor(dtype, [1], new Float32Array(1)),
  };
  const outputs = await model.run(feeds, { outputs: { y: new Float32Array(10) }, signal: controller.signal });
  const first: Tensor | undefined = Object.values(outputs)[0];
  return (first?.data.length ?? 0) + model.memory().arena_bytes;
}

export async function use_vision(image: ImageSource): Promise<readonly Detection[]> {
  const preprocess: PreprocessRecipe = { resize: 'letterbox', color: 'BGR', std: [1, 1, 1] };
  using detector = await Detector.load('yolo.kiln', { preprocess, decoder: 'yolox' });
  using classifier = await Classifier.load('resnet.kiln');
  using net = await ImageModel.load('net.kiln');
  const [best] = await classifier.classify(image, { top: 1 });
  const { outputs, placement } = await net.run(image);
  console.log(best?.label, Object.keys(outputs), placement.scaleX, detector.times.run_ms);
  return detector.detect(image, { score: 0.3 });
}

export async function use_compiler(): Promise<Uint8Array> {
  if (!capabilities().simd) throw new Error('no SIMD');
  try {
    return await compile('m.onnx', { inputShape: 'x:1,3,8,8', dynamicBatch: [1, 4], task: 'detect:yolov8' });
  } catch (error) {
    if (error instanceof KilnError) for (const problem of error.problems) console.log(problem.node, problem.message);
    throw error;
  }
}

export async function use_quantization(pictures: readonly ImageSource[], tensor: Tensor): Promise<string> {
  const texts: string[] = [];
  const quantization: QuantizationOptions = {
    count: 200,
    method: 'percentile',
    keepFloat: ['conv1'],
    accuracyBudget: 0.5,
    evaluate: tensor,
    evaluateLabels: [1, 'cat'],
    runtime: { threads: 1 },
    onReport: (report) => texts.push(quantizationText(report), quantizationSvg(report)),
  };
  await compile('m.onnx', { precision: 'int8', calibration: pictures, quantization, weights: 'fp16' });
  await compile('m.onnx', { precision: 'int8', calibration: async () => [{ images: tensor }, tensor] });
  return texts.join();
}

// Misuse must not compile.
export async function misuse(model: Model): Promise<void> {
  // @ts-expect-error a source of that type is not supported
  await load(42);
  // @ts-expect-error no such option
  await model.run({}, { output: {} });
  // @ts-expect-error inputs are not to be replaced
  model.inputs = [];
  // @ts-expect-error no such decoder
  new Detector(model, { decoder: 'yolo99' });
}
