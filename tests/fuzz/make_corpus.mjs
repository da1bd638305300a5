// Writes the seeds of the fuzzers: build/fuzz/seeds/onnx_reader/*.onnx, and bundles made of them in seeds/bundle_reader.
// ONNX's own node vectors, where this machine has them, join in: they know every form of every operator.
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, toolchain_info } from '../../scripts/run_stage.mjs';
import { onnx_seeds } from './onnx_seeds.mjs';

const kLargestSeed = 4096; // bytes; libFuzzer takes the largest seed for the length of its own inputs

const folder = (name) => join(root, 'build/fuzz/seeds', name);
for (const name of ['onnx_reader', 'bundle_reader']) {
  rmSync(folder(name), { recursive: true, force: true });
  mkdirSync(folder(name), { recursive: true });
}

const files = [];
function add(name, bytes) {
  files.push(join(folder('onnx_reader'), `${name}.onnx`));
  writeFileSync(files.at(-1), bytes);
}

for (const [name, bytes] of Object.entries(onnx_seeds)) add(name, bytes);
// What fuzzing has found, and is mended.
const regressions = join(root, 'tests/fuzz/regressions');
for (const name of readdirSync(regressions)) add(name.replace(/\.onnx$/, ''), readFileSync(join(regressions, name)));
const vectors = join(toolchain_info().onnxTestdata ?? '', 'node');
for (const name of existsSync(vectors) ? readdirSync(vectors) : []) {
  const model = join(vectors, name, 'model.onnx');
  if (existsSync(model) && statSync(model).size <= kLargestSeed) add(name, readFileSync(model));
}
console.log(`${files.length} ONNX seeds in ${folder('onnx_reader')}`);
process.exit(await run(join(root, 'build/dev/make_bundle_seeds'), [folder('bundle_reader'), ...files]));
