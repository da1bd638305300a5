// Builds and runs peak_native.c with the machine's C compiler.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root, toolchain_env } from '../../scripts/run_stage.mjs';

/** GFLOP/s of one core in native code, or null without a C compiler. */
export function native_peak(folder) {
  const program = join(folder, 'peak_native');
  const source = join(root, 'tests/bench/peak_native.c');
  const flags = ['-O3', '-march=native', '-ffp-contract=fast', '-o', program, source];
  if (spawnSync('cc', flags, { env: toolchain_env() }).status !== 0) return null;
  const { status, stdout } = spawnSync(program, { encoding: 'utf8' });
  return status === 0 ? Number(stdout) : null;
}
