// The wasm artefacts: wrong files are told apart, a failed download may be tried again, capabilities say why not.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { temp_folder } from '../support/files.mjs';
import { import_inner } from '../support/inner.mjs';
import { listen } from '../support/listen.mjs';

const { artefact_module, instantiate, capabilities, pick_simd, set_platform, node_platform, Native } =
  await import_inner(['core/artefact.ts', 'core/native.ts', 'core/platform.ts', 'targets/node.ts']);

const kEmptyModule = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
// (module (import "env" "memory" (memory 1)))
const kMemoryImport = Uint8Array.of(
  ...kEmptyModule,
  2,
  15,
  1,
  3,
  101,
  110,
  118,
  6,
  109,
  101,
  109,
  111,
  114,
  121,
  2,
  0,
  1,
);
const kHtml = '<!doctype html><title>App</title>';
const send = (type, body) => (_, response) => response.writeHead(200, { 'content-type': type }).end(body);

test('overrides_of_every_kind_compile', async (t) => {
  const folder = temp_folder(t);
  const path = join(folder, 'x.wasm');
  writeFileSync(path, kEmptyModule);
  const url = await listen(t, {
    '/x.wasm': send('application/wasm', kEmptyModule),
    '/plain.wasm': send('application/octet-stream', kEmptyModule),
  });
  set_platform(node_platform(pathToFileURL(join(folder, 'index.js')).href));
  const module = await WebAssembly.compile(kEmptyModule);
  assert.equal(await artefact_module('kiln-simd.wasm', module), module);
  const overrides = [
    path,
    pathToFileURL(path),
    pathToFileURL(path).href,
    `${url}/x.wasm`,
    new URL(`${url}/plain.wasm`),
    kEmptyModule,
    Buffer.from(kEmptyModule),
    kEmptyModule.slice().buffer,
    await fetch(`${url}/x.wasm`),
  ];
  for (const override of overrides) {
    const made = await artefact_module('kiln-simd.wasm', override);
    assert.ok(made instanceof WebAssembly.Module, String(override));
  }
  assert.ok((await artefact_module('x.wasm')) instanceof WebAssembly.Module); // beside the package
});

test('wrong_files_say_what_came_instead', async (t) => {
  const url = await listen(t, {
    '/page.wasm': send('text/html', kHtml),
    '/page-as-wasm.wasm': send('application/wasm', kHtml),
    '/empty.wasm': send('application/octet-stream', ''),
    '/text.wasm': send('text/plain', 'hello'),
    '/broken.wasm': send('application/octet-stream', Buffer.concat([kEmptyModule, Buffer.from([1, 99, 99])])),
  });
  const folder = temp_folder(t);
  set_platform(node_platform(pathToFileURL(join(folder, 'index.js')).href));
  const cases = [
    [
      `${url}/page.wasm`,
      'NOT_A_MODEL',
      /got HTML from 'http:.*page\.wasm' instead of the runtime's wasm: the server must/,
    ],
    [`${url}/page-as-wasm.wasm`, 'INTERNAL', /page-as-wasm\.wasm' does not compile/],
    [`${url}/empty.wasm`, 'NOT_A_MODEL', /got an empty file/],
    [`${url}/text.wasm`, 'NOT_A_MODEL', /got something that is no wasm/],
    [`${url}/broken.wasm`, 'INTERNAL', /broken\.wasm' does not compile/],
    [`${url}/missing.wasm`, 'NOT_FOUND', /missing\.wasm': the server answered 404/],
    ['http://127.0.0.1:9/x.wasm', 'NOT_FOUND', /cannot be read: fetch failed \(.+\); the server must serve/],
    [join(folder, 'no.wasm'), 'NOT_FOUND', /no\.wasm' cannot be read: ENOENT.*pass its URL as `wasm`/],
    [undefined, 'NOT_FOUND', /kiln-simd\.wasm' cannot be read.*copy it from the package/],
    [Buffer.from(kHtml), 'NOT_A_MODEL', /got HTML from the bytes given as `wasm`/],
  ];
  for (const [override, code, message] of cases) {
    await assert.rejects(artefact_module('kiln-simd.wasm', override), { name: 'KilnError', code, message });
  }
});

test('a_failed_download_is_tried_again_and_a_good_one_kept', async (t) => {
  let answers = 0;
  const url = await listen(t, {
    '/x.wasm': (request, response) => {
      ++answers;
      if (answers === 1) response.writeHead(503).end();
      else send('application/wasm', kEmptyModule)(request, response);
    },
  });
  set_platform(node_platform(import.meta.url));
  await assert.rejects(artefact_module('kiln-simd.wasm', `${url}/x.wasm`), { message: /answered 503/ });
  const first = await artefact_module('kiln-simd.wasm', `${url}/x.wasm`);
  assert.equal(await artefact_module('kiln-simd.wasm', `${url}/x.wasm`), first);
  assert.equal(answers, 2);
});

test('a_module_that_is_no_runtime_is_refused', async () => {
  await assert.rejects(instantiate(await WebAssembly.compile(kMemoryImport)), {
    code: 'INTERNAL',
    message: /imports a memory 'env\.memory'/,
  });
  const instance = await instantiate(await WebAssembly.compile(kEmptyModule));
  assert.throws(() => new Native(instance), { code: 'VERSION', message: /both must come from one release/ });
});

test('capabilities_agree_with_the_engine', () => {
  const { simd, relaxed, threads, notes } = capabilities();
  assert.equal(simd, true);
  assert.equal(threads, Math.min(availableParallelism(), 8));
  const [major] = process.versions.node.split('.').map(Number);
  const on = major >= 22 || process.execArgv.includes('--experimental-wasm-relaxed-simd');
  assert.equal(relaxed, on);
  assert.equal(
    notes.some((note) => note.includes('no relaxed SIMD')),
    !relaxed,
  );
  assert.ok(!notes.some((note) => note.includes('thread')));
  assert.equal(pick_simd('auto'), relaxed ? 'relaxed' : 'simd');
  assert.equal(pick_simd('simd'), 'simd');
  if (!relaxed) assert.throws(() => pick_simd('relaxed'), { code: 'UNSUPPORTED', message: /--experimental-wasm/ });
  assert.throws(() => pick_simd('fast'), { code: 'INVALID_ARGUMENT', message: /'fast'; allowed: auto, simd, relaxed/ });
});
