// The built package and onnxruntime side by side: compile a small graph, run both, compare.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as ort from 'onnxruntime-node';
import { root } from '../../scripts/run_stage.mjs';

/** dist/index.node.js, as a user imports it. */
export const api = await import(pathToFileURL(join(root, 'dist/index.node.js')));

/** Largest |a - b| over the largest |b|; Infinity where lengths or NaNs differ. */
export function relative_error(actual, expected) {
  if (actual.length !== expected.length) return Infinity;
  let worst = 0;
  let largest = 0;
  for (let i = 0; i < actual.length; ++i) {
    const [a, b] = [Number(actual[i]), Number(expected[i])];
    if (Number.isNaN(a) !== Number.isNaN(b)) return Infinity;
    if (Number.isNaN(a) || a === b) {
      largest = Math.max(largest, Number.isFinite(b) ? Math.abs(b) : 0);
      continue;
    }
    worst = Math.max(worst, Math.abs(a - b));
    largest = Math.max(largest, Math.abs(b));
  }
  return largest > 0 ? worst / largest : worst;
}

const kOrtTypes = { f32: 'float32', i64: 'int64', i32: 'int32', u8: 'uint8', i8: 'int8', bool: 'bool', f64: 'float64' };

/** Runs onnxruntime on an ONNX file's bytes; feeds are Tensors of the package. Outputs as {dims, data} by name. */
export async function run_onnxruntime(onnx, feeds) {
  const session = await ort.InferenceSession.create(onnx, { logSeverityLevel: 3 });
  const tensors = Object.entries(feeds).map(([name, { dtype, shape, data }]) => [
    name,
    new ort.Tensor(kOrtTypes[dtype], data, shape),
  ]);
  const outputs = await session.run(Object.fromEntries(tensors));
  return Object.fromEntries(Object.entries(outputs).map(([name, { dims, data }]) => [name, { dims: [...dims], data }]));
}

/** One f32 Tensor of seeded numbers in [-1, 1). */
export function random_tensor(shape, seed) {
  const data = new Float32Array(shape.reduce((n, dim) => n * dim, 1));
  let state = seed >>> 0;
  for (let i = 0; i < data.length; ++i) {
    state = (state + 0x9e3779b9) >>> 0;
    let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    data[i] = ((z ^ (z >>> 15)) >>> 0) / 2 ** 31 - 1;
  }
  return new api.Tensor('f32', shape, data);
}
