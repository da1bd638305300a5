// npm run soak: what takes too long for CI, in full; `npm run soak -- --share 0.1` runs a part. CI runs a tenth.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build_js } from './build_js.mjs';
import { build_wasm } from './build_wasm.mjs';
import { root, run, run_all } from './run_stage.mjs';
import { set_up } from './setup.mjs';

const kFuzzSeconds = 600; // a target
const kTimesRandomCases = 30; // of what the doctest suite tries by default; its test suite `random` takes TILEKILN_SOAK

/** Fuzzers, tests over random graphs, and the package in long use; `share` of the full length. An exit code. */
export async function soak(share) {
  const files = readdirSync(join(root, 'tests/soak')).map((file) => `tests/soak/${file}`);
  const factor = String(Math.max(1, Math.round(kTimesRandomCases * share)));
  const codes = [
    await run('node', ['tests/fuzz/run.mjs', String(Math.max(1, Math.round(kFuzzSeconds * share)))]),
    await run_all([
      ['cmake', ['--build', '--preset', 'dev', '--target', 'kiln_tests']],
      ['build/dev/kiln_tests', ['--test-suite=random'], { env: { TILEKILN_SOAK: factor } }],
    ]),
    await run('node', ['--expose-gc', '--test', ...files], { env: { TILEKILN_SOAK_SHARE: String(share) } }),
  ];
  return codes.find((code) => code !== 0) ?? 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { share: { type: 'string', default: '1' } } });
  const share = Number(values.share);
  if (!(share > 0 && share <= 10)) {
    console.error(`soak: --share ${values.share}; allowed: above 0, up to 10`);
    process.exit(2);
  }
  await set_up('all');
  await build_wasm();
  await build_js();
  process.exit(await soak(share));
}
