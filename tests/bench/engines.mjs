// The engines that are raced, each as a function that loads a model; the same code in a Node process and in a page.
//
// load({ io, files, shape, threads }) → { load_ms, run; of tilekiln also model, memory, threads }. `io` is what differs between hosts (node_io.mjs,
// page.mjs): module(name) imports a package, bytes(file) reads a model, folder(name) is the URL or path of a package's
// files. run(input) → Promise<Float32Array>: all of the first output. The input is NCHW; engines that want NHWC get it
// permuted once, outside the timing, as a program would that has a picture's pixels.
import { permute } from './permute.mjs';
import { build_tfjs } from './tfjs_net.mjs';

/** An engine, model or host that does not go with another: the race goes on without it. */
export class Skipped extends Error {}

async function load_tilekiln(api, { io, files, threads }, simd) {
  const bundle = await io.bytes(files.bundle);
  const start = performance.now();
  const model = await api.load(bundle, { simd, threads });
  const load_ms = performance.now() - start;
  const [input] = model.inputs;
  const [output] = model.outputs;
  return {
    load_ms,
    model,
    memory: () => model.memory(),
    threads: () => model.threads,
    run: async (data) => (await model.run({ [input.name]: data }))[output.name].data,
  };
}

const tilekiln = (simd) => async (job) => load_tilekiln(await job.io.module('tilekiln'), job, simd);

async function load_onnxruntime(ort, { io, files, shape }, options) {
  const onnx = await io.bytes(files.onnx);
  const start = performance.now();
  const session = await ort.InferenceSession.create(onnx, {
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
    ...options,
  });
  const load_ms = performance.now() - start;
  const [input] = session.inputNames;
  const [output] = session.outputNames;
  return {
    load_ms,
    run: async (data) => (await session.run({ [input]: new ort.Tensor('float32', data, shape) }))[output].data,
  };
}

async function onnxruntime_web(job) {
  const ort = await job.io.module('onnxruntime-web');
  ort.env.wasm.numThreads = job.threads;
  ort.env.logLevel = 'error';
  if (job.io.host === 'chromium') ort.env.wasm.wasmPaths = job.io.folder('onnxruntime-web');
  return load_onnxruntime(ort, job, { executionProviders: ['wasm'] });
}

async function onnxruntime_node(job) {
  const options = { executionProviders: ['cpu'], intraOpNumThreads: job.threads, interOpNumThreads: 1 };
  return load_onnxruntime(await job.io.module('onnxruntime-node'), job, options);
}

const kNhwc = [0, 2, 3, 1];
const nhwc_shape = (shape) => kNhwc.map((axis) => shape[axis]);

/** Input once in NHWC, kept as long as the caller passes the same array. */
function make_nhwc_cache(shape, wrap) {
  let last;
  let wrapped;
  return (data) => {
    if (data !== last) wrapped = wrap(permute(data, shape, kNhwc));
    last = data;
    return wrapped;
  };
}

async function litert({ io, files, shape, threads }) {
  if (io.host === 'node') throw new Skipped('LiteRT.js loads its wasm with a script element, which Node has not');
  if (!files.tflite) throw new Skipped('no .tflite of this model: it is made from the layouts of models/');
  const lite = await io.module('@litertjs/core');
  const bytes = await io.bytes(files.tflite);
  const start = performance.now();
  await lite.loadLiteRt(io.folder('@litertjs/core'), { threads: threads > 1 });
  const model = await lite.loadAndCompile(bytes, { accelerator: 'wasm', cpuOptions: { numThreads: threads } });
  const load_ms = performance.now() - start;
  const input_of = make_nhwc_cache(shape, (data) => new lite.Tensor(data, nhwc_shape(shape)));
  return {
    load_ms,
    run: async (data) => {
      const outputs = await model.run([input_of(data)]);
      const result = outputs[0].toTypedArray().slice();
      for (const output of outputs) output.delete();
      return result;
    },
  };
}

async function tfjs({ io, files, shape, threads }) {
  if (!files.plan) throw new Skipped('no TensorFlow.js form of this model: it is made from the layouts of models/');
  if (io.host === 'node' && threads > 1) throw new Skipped('TensorFlow.js has no threads in Node');
  const tf = await io.module('@tensorflow/tfjs');
  const plan = JSON.parse(new TextDecoder().decode(await io.bytes(files.plan)));
  const weights = new Float32Array((await io.bytes(files.plan_weights)).buffer);
  const start = performance.now();
  tf.wasm.setWasmPaths(io.folder('@tensorflow/tfjs-backend-wasm'));
  if (threads > 1) {
    // Its wasm caps the pool at half of the logical processors that it is told of.
    Object.defineProperty(navigator, 'hardwareConcurrency', { get: () => 2 * threads });
    tf.wasm.setThreadsCount(threads);
  } else {
    tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  }
  await tf.setBackend('wasm');
  await tf.ready();
  const net = build_tfjs(tf, plan, weights);
  const load_ms = performance.now() - start;
  const input_of = make_nhwc_cache(shape, (data) => tf.tensor(data, nhwc_shape(shape)));
  return {
    load_ms,
    run: async (data) => {
      const x = input_of(data); // outside tidy(), which would drop it
      const y = tf.tidy(() => net(x));
      const result = await y.data();
      y.dispose();
      return result;
    },
  };
}

/**
 * Name on the command line → {title, load; is_ours; is_native: runs in Node whatever the race's host; is_channels_last: the
 * output's axes are stored as lower_channels_last() says; package: whose version is told}.
 */
export const kEngines = {
  'tilekiln': { title: 'tilekiln', is_ours: true, load: tilekiln('relaxed') },
  'tilekiln-simd': { title: 'tilekiln, plain SIMD', is_ours: true, load: tilekiln('simd') },
  'tilekiln-fast': {
    title: 'tilekiln/node-fast',
    is_ours: true,
    load: async (job) => load_tilekiln(await job.io.module('tilekiln/node-fast'), job, 'auto'),
  },
  'onnxruntime-web': { title: 'onnxruntime-web', package: 'onnxruntime-web', load: onnxruntime_web },
  'litert': { title: 'LiteRT.js', package: '@litertjs/core', is_channels_last: true, load: litert },
  'tfjs': {
    title: 'TensorFlow.js-wasm',
    package: '@tensorflow/tfjs-backend-wasm',
    is_channels_last: true,
    load: tfjs,
  },
  'onnxruntime-node': {
    title: 'onnxruntime (native)',
    package: 'onnxruntime-node',
    is_native: true,
    load: onnxruntime_node,
  },
};
