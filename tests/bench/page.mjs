// The page side of the bench: one race, asked for by the Node side through window.bench_race.
import * as api from '/dist/index.js';
import { onnxruntime_contender, tilekiln_contender } from './contenders.mjs';
import { race } from './race.mjs';

const fetch_bytes = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());

window.bench_race = async ({ onnx, bundle, input, shape, simd, ...options }) => {
  const ort = await import('/ort/ort.wasm.min.mjs');
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = '/ort/';
  const ours = tilekiln_contender(api, await fetch_bytes(bundle), simd);
  const rival = onnxruntime_contender(
    ort,
    await fetch_bytes(onnx),
    'onnxruntime-web',
    { executionProviders: ['wasm'] },
    shape,
  );
  return race([ours, rival], new Float32Array((await fetch_bytes(input)).buffer), options);
};
window.bench_ready = true;
