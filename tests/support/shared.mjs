// The real models and pictures of ../shared/data, where they are; tests that need them skip elsewhere.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../scripts/run_stage.mjs';
import { api } from './api.mjs';

const kFolder = join(root, '../shared/data');

/** For node:test's `skip`: false, or why. */
export const shared_absent = existsSync(kFolder) ? false : '../shared/data is not here';

export const shared_path = (...parts) => join(kFolder, ...parts);
export const read_shared_npy = (...parts) => api.readNpy(readFileSync(shared_path(...parts)), parts.at(-1));
export const read_shared_json = (...parts) => JSON.parse(readFileSync(shared_path(...parts), 'utf8'));

/** pixels (n, h, w, 3) u8 → f32 (n, 3, h, w) through `(value, channel) => number`. */
export function to_planes({ shape: [n, h, w], data }, convert) {
  const plane = h * w;
  const out = new Float32Array(n * 3 * plane);
  for (let i = 0; i < n; ++i) {
    for (let c = 0; c < 3; ++c) {
      for (let p = 0; p < plane; ++p) out[(3 * i + c) * plane + p] = convert(data[(i * plane + p) * 3 + c], c);
    }
  }
  return new api.Tensor('f32', [n, 3, h, w], out);
}

/** Index of the largest value; the first of equals. */
export function arg_max(values) {
  let best = 0;
  for (let i = 1; i < values.length; ++i) if (values[i] > values[best]) best = i;
  return best;
}
