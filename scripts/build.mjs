// Builds the npm package into dist/: wasm artefacts by CMake, TypeScript by tsc, one ES module an entry point by esbuild.
//   node scripts/build.mjs [--wasm | --js]     (default: both)
import { build_js } from './build_js.mjs';
import { build_wasm } from './build_wasm.mjs';
import { set_up } from './setup.mjs';

const only = process.argv[2];
if (only !== undefined && only !== '--wasm' && only !== '--js') {
  console.error(`build: unknown argument '${only}'; allowed: --wasm, --js`);
  process.exit(2);
}
await set_up('all');
if (only !== '--js') await build_wasm();
if (only !== '--wasm') await build_js();
