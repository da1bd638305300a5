// Fixed pseudo-random pixels (SplitMix32), the same in Node and in a page.

/** @returns {Float32Array} product of `shape` numbers in [0, 1) times `scale` */
export function random_input(shape, seed, scale = 1) {
  const data = new Float32Array(shape.reduce((product, dim) => product * dim, 1));
  let state = seed >>> 0;
  for (let i = 0; i < data.length; ++i) {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    data[i] = (((z ^ (z >>> 15)) >>> 0) / 2 ** 32) * scale;
  }
  return data;
}
