// npm run soak: what takes too long for CI, in full; CI runs a tenth. `npm run soak -- --share 0.1` runs a part.
import { parseArgs } from 'node:util';
import { build_js } from './build_js.mjs';
import { build_wasm } from './build_wasm.mjs';
import { run } from './run_stage.mjs';
import { set_up } from './setup.mjs';

const kFuzzSeconds = 600; // a target
const { values } = parseArgs({ options: { share: { type: 'string', default: '1' } } });
const share = Number(values.share);
if (!(share > 0 && share <= 10)) {
  console.error(`soak: --share ${values.share}; allowed: above 0, up to 10`);
  process.exit(2);
}
await set_up('all');
await build_wasm();
await build_js();
const codes = [
  await run('node', ['tests/fuzz/run.mjs', String(Math.max(1, Math.round(kFuzzSeconds * share)))]),
  await run('node', ['--test', 'tests/soak/'], { env: { TILEKILN_SOAK_SHARE: String(share) } }),
];
process.exit(codes.some((code) => code !== 0) ? 1 : 0);
