// Seeded random weights: the same seed and tensor name give the same numbers on any engine.
//
// Each tensor has a stream of its own (xorshift128 seeded by a hash of its name), so adding a layer leaves the
// others as they were. A normal deviate is the sum of four 16-bit uniforms, which needs no libm function.

function hash_text(text, seed) {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash;
}

function mix(hash) {
  let h = hash >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d);
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b);
  return (h ^ (h >>> 16)) >>> 0;
}

// The sum of four independent uniforms on 0..65535 has this mean and standard deviation.
const kSumMean = 2 * 65535;
const kSumStd = Math.sqrt(4 * ((65536 ** 2 - 1) / 12));

/** A stream of random numbers for one tensor: `uniform()` on [0, 1), `normal()` with mean 0 and variance 1. */
export function random_stream(name, seed) {
  const first = hash_text(name, seed);
  let a = mix(first + 1);
  let b = mix(first + 2);
  let c = mix(first + 3);
  let d = mix(first + 4) | 1;
  const next = () => {
    const t = a ^ (a << 11);
    a = b;
    b = c;
    c = d;
    d = d ^ (d >>> 19) ^ (t ^ (t >>> 8));
    return d >>> 0;
  };
  return {
    uniform: () => next() / 2 ** 32,
    normal: () => {
      const p = next();
      const q = next();
      return ((p & 0xffff) + (p >>> 16) + (q & 0xffff) + (q >>> 16) - kSumMean) / kSumStd;
    },
  };
}

/** `count` normal deviates as a Float32Array. */
export function random_normal(name, seed, count, std = 1, mean = 0) {
  const { normal } = random_stream(name, seed);
  return Float32Array.from({ length: count }, () => mean + std * normal());
}

/**
 * Weights of `rows` filters of `fan_in` values with variance gain / fan_in.
 *
 * `centred` filters sum to zero. Activations after ReLU or SiLU have a positive mean; without centring that mean,
 * the same at every pixel, grows with the depth until it hides the picture, and a random network's output is the
 * same for any image.
 */
export function random_filters(name, seed, rows, fan_in, { gain = 1, centred = true } = {}) {
  const weights = random_normal(name, seed, rows * fan_in, Math.sqrt(gain / fan_in));
  if (!centred) return weights;
  for (let row = 0; row < rows; row++) {
    const filter = weights.subarray(row * fan_in, (row + 1) * fan_in);
    const mean = filter.reduce((sum, w) => sum + w, 0) / fan_in;
    for (let i = 0; i < fan_in; i++) filter[i] -= mean;
  }
  return weights;
}
