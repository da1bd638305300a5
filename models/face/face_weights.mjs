// Reads the weights that the npm package @vladmandic/face-api ships (TensorFlow.js manifests, 8-bit quantised).
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const kPackage = '@vladmandic/face-api';

/** The folder of the installed package. */
export function find_face_api() {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${kPackage}/package.json`));
  } catch {
    throw new Error(`npm package ${kPackage} is not installed: run 'npm ci' in the project's folder`);
  }
}

/** The bytes of a file of the package, checked against the recipe's `source.sha256` if it lists the file. */
export function read_source(recipe, file) {
  const bytes = readFileSync(join(find_face_api(), file));
  const expected = recipe?.source.sha256[file];
  const actual = createHash('sha256').update(bytes).digest('hex');
  if (expected && actual !== expected) {
    throw new Error(`${kPackage}/${file}: sha256 is ${actual}, recipe '${recipe.name}' was written for ${expected}`);
  }
  return bytes;
}

const kArrays = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array, uint16: Uint16Array };

// real = scale * q + min, rounded to float32, as TensorFlow.js does it.
function read_weight(spec, bytes, offset) {
  const { quantization } = spec;
  const stored = kArrays[(quantization ?? spec).dtype];
  const count = spec.shape.reduce((product, dim) => product * dim, 1);
  const size = count * stored.BYTES_PER_ELEMENT;
  const values = new stored(bytes.buffer.slice(bytes.byteOffset + offset, bytes.byteOffset + offset + size));
  const data = quantization
    ? Float32Array.from(values, (q) => q * quantization.scale + quantization.min)
    : Float32Array.from(values);
  return { size, weight: { shape: spec.shape, data } };
}

/**
 * The weights of a model of the package by name: { shape, data } in TensorFlow's order (filters h, w, in, out).
 * `get(name)` throws if there is no such weight.
 */
export function read_face_weights(model, recipe) {
  const [group] = JSON.parse(read_source(recipe, `model/${model}-weights_manifest.json`).toString('utf8'));
  const bytes = read_source(recipe, `model/${model}.bin`);
  const weights = new Map();
  let offset = 0;
  for (const spec of group.weights) {
    const { size, weight } = read_weight(spec, bytes, offset);
    weights.set(spec.name, weight);
    offset += size;
  }
  if (offset !== bytes.length)
    throw new Error(`model/${model}.bin: ${bytes.length} bytes, its manifest describes ${offset}`);
  return {
    get(name) {
      if (!weights.has(name)) throw new Error(`model/${model}.bin has no weight '${name}'`);
      return weights.get(name);
    },
  };
}
