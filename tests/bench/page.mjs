// The page side: one engine in a page; window.bench_call answers as node_child.mjs does.
import { Session } from './session.mjs';
import { Skipped } from './engines.mjs';

const script = (url) =>
  new Promise((resolve, reject) => {
    const element = document.createElement('script');
    element.src = url;
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${url} does not load`));
    document.head.append(element);
  });

const kModules = {
  'tilekiln': () => import('/dist/index.js'),
  'onnxruntime-web': () => import('/packages/onnxruntime-web/dist/ort.wasm.min.mjs'),
  '@litertjs/core': () => import('@litertjs/core'),
  '@tensorflow/tfjs': async () => {
    await script('/packages/@tensorflow/tfjs-core/dist/tf-core.min.js');
    await script('/packages/@tensorflow/tfjs-backend-wasm/dist/tf-backend-wasm.min.js');
    return window.tf;
  },
};

const kFolders = {
  'onnxruntime-web': '/packages/onnxruntime-web/dist/',
  '@litertjs/core': '/packages/@litertjs/core/wasm/',
  '@tensorflow/tfjs-backend-wasm': '/packages/@tensorflow/tfjs-backend-wasm/dist/',
};

const session = new Session({
  host: 'chromium',
  module: async (name) => {
    if (!kModules[name]) throw new Skipped(`${name} is for Node only`);
    return kModules[name]();
  },
  folder: (name) => kFolders[name],
  bytes: async (file) => new Uint8Array(await (await fetch(`/models/${file}`)).arrayBuffer()),
});

window.bench_call = async (method, args) => {
  try {
    const result = await session[method](...args);
    if (!result?.output) return { result };
    // Numbers go by HTTP: as an argument they would become text.
    await fetch('/output', { method: 'POST', body: new Uint8Array(result.output.buffer) });
    return { result: { ...result, output: null } };
  } catch (error) {
    return { error: { name: error.constructor.name, code: error.code, message: error.message } };
  }
};
