// Builds and runs peak_native.c with the machine's C compiler.
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root, toolchain_env } from '../../scripts/run_stage.mjs';

let program; // undefined until it was tried, null without a C compiler

function build(folder) {
  const output = join(folder, 'peak_native');
  const source = join(root, 'tests/bench/peak_native.c');
  const flags = ['-O3', '-march=native', '-ffp-contract=fast', '-o', output, source];
  return spawnSync('cc', flags, { env: toolchain_env() }).status === 0 ? output : null;
}

/**
 * What `threads` cores reach in native code at the same time: {bits: width of their vectors, gflops}; null without a C compiler.
 * @param folder where the program is put
 */
export async function native_peak(folder, threads) {
  if (program === undefined) program = build(folder);
  if (!program) return null;
  const runs = await Promise.all(Array.from({ length: threads }, () => promisify(execFile)(program)));
  const results = runs.map(({ stdout }) => stdout.split(' ').map(Number));
  return { bits: results[0][0], gflops: results.reduce((sum, [, gflops]) => sum + gflops, 0) };
}
