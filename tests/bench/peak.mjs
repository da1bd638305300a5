// The most arithmetic that one thread of this engine can do: multiply-adds in registers alone, 128 bits wide. Runs in Node
// and in a page; the module is put together here, byte by byte.
import { quantile } from './race.mjs';

const kChains = 12; // independent accumulators: more than the latency of a multiply-add times the units that do it
const kFlopsAPass = kChains * 8;

const i32_const = (value) => [0x41, ...signed_leb(value)];
const get = (index) => [0x20, index];
const set = (index) => [0x21, index];
const f32_const = (value) => [0x43, ...new Uint8Array(Float32Array.of(value).buffer)];
const simd = (opcode) => [0xfd, ...unsigned_leb(opcode)];
const kSplat = simd(0x13); // f32x4.splat
const kExtract = [...simd(0x1f), 0]; // f32x4.extract_lane 0
const kAdd = simd(0xe4);
const kMul = simd(0xe6);
const kRelaxedMadd = simd(0x105);

function unsigned_leb(value) {
  const bytes = [];
  do {
    const rest = value >>> 7;
    bytes.push((value & 0x7f) | (rest ? 0x80 : 0));
    value = rest;
  } while (value);
  return bytes;
}

function signed_leb(value) {
  const bytes = [];
  for (;;) {
    const byte = value & 0x7f;
    value >>= 7;
    const is_last = (value === 0 && !(byte & 0x40)) || (value === -1 && byte & 0x40);
    bytes.push(is_last ? byte : byte | 0x80);
    if (is_last) return bytes;
  }
}

const section = (id, content) => [id, ...unsigned_leb(content.length), ...content];

/**
 * (func (export "run") (param $n i32) (result f32)): n passes of acc = acc * m + c over kChains accumulators.
 * @param {number[]} multiply_add instructions: (acc, m, c) → acc * m + c with acc on the stack, then m and c pushed by them
 */
function peak_module(multiply_add) {
  const [n, m, c, first] = [0, 1, 2, 3];
  const accumulators = Array.from({ length: kChains }, (_, i) => first + i);
  const body = [
    ...[...f32_const(0.999), ...kSplat, ...set(m)],
    ...[...f32_const(0.001), ...kSplat, ...set(c)],
    ...accumulators.flatMap((a) => [...f32_const(a), ...kSplat, ...set(a)]), // different: equal ones might be merged
    ...[0x03, 0x40], // loop
    ...accumulators.flatMap((a) => [...get(a), ...multiply_add(get(m), get(c)), ...set(a)]),
    ...[...get(n), ...i32_const(1), 0x6b, 0x22, n, 0x0d, 0, 0x0b], // br_if 0 (n -= 1); end
    ...get(first),
    ...accumulators.slice(1).flatMap((a) => [...get(a), ...kAdd]),
    ...kExtract,
    0x0b,
  ];
  const code = [1, kChains + 2, 0x7b, ...body]; // one group of v128 locals
  return new Uint8Array([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 1, 0x7f, 1, 0x7d]),
    ...section(3, [1, 0]),
    ...section(7, [1, 3, 0x72, 0x75, 0x6e, 0, 0]),
    ...section(10, [1, ...unsigned_leb(code.length), ...code]),
  ]);
}

const kModules = {
  muladd: peak_module((m, c) => [...m, ...kMul, ...c, ...kAdd]),
  relaxed_madd: peak_module((m, c) => [...m, ...c, ...kRelaxedMadd]),
};

const kPasses = 2_000_000;
const kSamples = 9;

/**
 * @param {number} share of the samples to look at: 0 is the fastest, 0.5 the median
 * @returns {Promise<{muladd: number, relaxed_madd: number | null}>} GFLOP/s; null where the engine has not the instruction
 */
export async function measure_peak(share) {
  const result = {};
  for (const [name, bytes] of Object.entries(kModules)) {
    result[name] = null;
    if (!WebAssembly.validate(bytes)) continue;
    const { run } = (await WebAssembly.instantiate(bytes)).instance.exports;
    for (let i = 0; i < 50; ++i) run(20_000); // until the optimizing compiler's code is in use
    const samples = Array.from({ length: kSamples }, () => {
      const start = performance.now();
      run(kPasses);
      return performance.now() - start;
    });
    result[name] = (kPasses * kFlopsAPass) / quantile(samples, share) / 1e6;
  }
  return result;
}
