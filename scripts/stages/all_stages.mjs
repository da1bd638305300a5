// The stages of `npm test`, in order; a stage is a name, what it shows, and a function that gives an exit code.
import { existsSync } from 'node:fs';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { check_format } from './check_format.mjs';
import { check_layers } from './check_layers.mjs';
import { build_js } from '../build_js.mjs';
import { build_wasm } from '../build_wasm.mjs';
import { root, run, run_all } from '../run_stage.mjs';
import { soak } from '../soak.mjs';

const preset = async (name, targets = []) => {
  const commands = [];
  if (!existsSync(join(root, `build/${name}/build.ninja`))) commands.push(['cmake', ['--preset', name]]);
  commands.push(['cmake', ['--build', '--preset', name, ...targets.flatMap((target) => ['--target', target])]]);
  return run_all(commands);
};

const ctest = (build, ...args) => run('ctest', ['--test-dir', `build/${build}`, '--verbose', ...args]);

/** Test files *.test.mjs below tests/<folder>. */
const test_files = (folder) =>
  readdirSync(join(root, 'tests', folder), { recursive: true })
    .filter((file) => file.endsWith('.test.mjs'))
    .map((file) => join('tests', folder, file))
    .sort();

const node_test = (folder) => run('node', ['--test', '--test-concurrency=1', ...test_files(folder)]);

export const all_stages = [
  { name: 'format', what: 'clang-format and prettier', run: check_format },
  { name: 'layers', what: 'the include arrows of ARCHITECTURE.md', run: check_layers },
  {
    name: 'native',
    what: 'doctest suite and golden files under ASan and UBSan',
    run: async () => (await preset('dev')) || ctest('dev', '-E', '^conformance$'),
  },
  {
    name: 'tsan',
    what: 'the thread pool, and a model on it, under ThreadSanitizer',
    run: async () => (await preset('tsan', ['kiln_thread_tests'])) || run('build/tsan/kiln_thread_tests', []),
  },
  {
    name: 'conformance',
    what: 'ONNX node vectors, compiled and run natively under ASan and UBSan',
    run: async () => (await preset('dev', ['kiln_conformance'])) || ctest('dev', '-R', '^conformance$'),
  },
  {
    name: 'build',
    what: 'wasm artefacts within their size budget, and the package',
    needed_by_rest: true,
    run: async () => {
      await build_wasm();
      await build_js();
      return 0;
    },
  },
  {
    name: 'wasm',
    what: 'the doctest suite built with Emscripten, in Node, for each runtime artefact',
    run: async () => (await preset('wasm')) || ctest('wasm'),
  },
  { name: 'node', what: 'API, CLI, bundles and ONNX node vectors in Node', run: () => node_test('node') },
  { name: 'models', what: 'real models against onnxruntime', run: () => node_test('models') },
  { name: 'browser', what: 'the package in headless Chromium', run: () => node_test('browser') },
  { name: 'examples', what: 'every example runs', run: () => node_test('examples') },
  {
    name: 'soak',
    what: 'a tenth of npm run soak: fuzzers, tests over random graphs, the package in long use',
    run: () => soak(0.1),
  },
];
