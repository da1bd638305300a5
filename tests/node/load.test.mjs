// load(): every kind of source gives the same model, and any bytes that are no bundle give an error that says so.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor } from '../support/api.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net } from '../support/graphs.mjs';
import { listen } from '../support/listen.mjs';

const onnx = conv_net();
const images = random_tensor([1, 3, 8, 8], 9);
let bundle;
let expected;

before(async () => {
  bundle = await api.compile(onnx);
  const model = await api.load(bundle);
  expected = (await model.run({ images })).logits.data;
  model.dispose();
});

test('every_source_gives_the_same_model', async (t) => {
  const path = join(temp_folder(t), 'net.kiln');
  writeFileSync(path, bundle);
  const url = await listen(t, { '/net.kiln': (_, response) => response.end(bundle) });
  const sources = {
    path,
    file_url: pathToFileURL(path),
    http: `${url}/net.kiln`,
    response: await fetch(`${url}/net.kiln`),
    blob: new Blob([bundle]),
    file: new File([bundle], 'net.kiln'),
    array_buffer: bundle.slice().buffer,
    bytes: bundle,
    unaligned: Buffer.concat([Buffer.alloc(3), bundle]).subarray(3),
  };
  for (const [name, source] of Object.entries(sources)) {
    const model = await api.load(source);
    assert.deepEqual((await model.run({ images })).logits.data, expected, name);
    model.dispose();
  }
});

test('the_bytes_given_are_neither_detached_nor_changed', async () => {
  const copy = bundle.slice();
  const model = await api.load(copy);
  await model.run({ images });
  assert.deepEqual(copy, bundle);
  copy.fill(0); // the model has its own
  assert.deepEqual((await model.run({ images })).logits.data, expected);
  model.dispose();
});

test('inputs_outputs_and_metadata_are_told', async (t) => {
  const model = await api.load(bundle);
  t.after(() => model.dispose());
  assert.deepEqual(model.inputs, [
    { name: 'images', dtype: 'f32', shape: [1, 3, 8, 8], profiles: [[1, 3, 8, 8]], layout: 'NCHW', batched: false },
  ]);
  assert.deepEqual(
    model.outputs.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
    [
      { name: 'features', dtype: 'f32', shape: [1, 6, 4, 4] },
      { name: 'logits', dtype: 'f32', shape: [1, 5] },
    ],
  );
  assert.match(model.metadata.source_sha256, /^[0-9a-f]{64}$/);
  assert.match(model.metadata.producer, /tilekiln/);
  assert.equal(model.simd, api.capabilities().relaxed ? 'relaxed' : 'simd');
  const { weights_bytes, arena_bytes, peak_live_bytes, wasm_bytes } = model.memory();
  assert.ok(
    weights_bytes >= 4 * (4 * 27 + 4 + 6 * 36 + 30) && peak_live_bytes <= arena_bytes && arena_bytes < wasm_bytes,
  );
  const steps = model.steps();
  assert.ok(steps.some((step) => step.op === 'Conv' && step.macs === 4 * 27 * 64));
});

test('progress_covers_download_and_set_up', async (t) => {
  const url = await listen(t, {
    '/net.kiln': (_, response) => response.writeHead(200, { 'content-length': bundle.length }).end(bundle),
  });
  const seen = [];
  const model = await api.load(`${url}/net.kiln`, { onProgress: (progress) => seen.push(progress) });
  model.dispose();
  assert.deepEqual(seen.at(-2), { stage: 'download', loaded: bundle.length, total: bundle.length });
  assert.deepEqual(seen.at(-1), { stage: 'set-up', loaded: 1, total: 1 });
});

/** Header fields of src/bundle/format.h changed, its checksum left as it was. */
function with_version(version) {
  const copy = bundle.slice();
  new DataView(copy.buffer).setUint32(4, version, true);
  return copy;
}

test('what_is_no_bundle_is_told_apart', async (t) => {
  const folder = temp_folder(t);
  const write = (name, data) => {
    const path = join(folder, name);
    writeFileSync(path, data);
    return path;
  };
  const cases = [
    [write('page.kiln', '<!doctype html><p>not found'), 'NOT_A_MODEL', /page\.kiln': got HTML instead of a bundle/],
    [write('lfs.kiln', 'version https://git-lfs.github.com/spec/v1\n'), 'NOT_A_MODEL', /git-LFS pointer/],
    [write('m.onnx', onnx), 'NOT_A_MODEL', /m\.onnx': got an ONNX model, not a bundle: compile it first/],
    [write('empty.kiln', ''), 'TRUNCATED', /empty\.kiln': the file is empty/],
    [
      write('cut.kiln', bundle.subarray(0, bundle.length - 1)),
      'TRUNCATED',
      /cut\.kiln': the bundle is truncated: \d+ of \d+ bytes, 1 are missing/,
    ],
    [with_version(2), 'VERSION', /the bytes given: .*version 2/],
    [with_version(0xffffffff), 'VERSION', /version 4294967295/],
  ];
  for (const [source, code, message] of cases) {
    await assert.rejects(api.load(source), { name: 'KilnError', code, message });
  }
});

test('a_bundle_cut_anywhere_is_truncated', async () => {
  const module = new WebAssembly.Module(readFileSync(join(root, 'dist/kiln-simd.wasm')));
  const cuts = [
    1,
    3,
    4,
    5,
    31,
    32,
    33,
    63,
    64,
    65,
    ...Array.from({ length: 30 }, (_, i) => Math.floor((bundle.length * i) / 30)),
  ];
  for (const length of cuts) {
    const load = api.load(bundle.subarray(0, length), { simd: 'simd', wasm: module });
    await assert.rejects(load, (error) => {
      assert.equal(error.name, 'KilnError', `cut to ${length}: ${error}`);
      assert.ok(['TRUNCATED', 'NOT_A_MODEL'].includes(error.code), `cut to ${length}: ${error.code} ${error.message}`);
      return true;
    });
  }
});

test('a_flipped_bit_is_found_by_the_checksum', async () => {
  const module = new WebAssembly.Module(readFileSync(join(root, 'dist/kiln-simd.wasm')));
  for (let i = 0; i < 200; ++i) {
    const at = (i * 7919) % bundle.length;
    const damaged = bundle.slice();
    damaged[at] ^= 1 << (i % 8);
    await assert.rejects(api.load(damaged, { simd: 'simd', wasm: module }), (error) => {
      assert.equal(error.name, 'KilnError', `bit ${i % 8} of byte ${at}: ${error}`);
      return true;
    });
  }
});

test('abort_stops_a_load', async (t) => {
  await assert.rejects(api.load(bundle, { signal: AbortSignal.abort() }), { code: 'ABORTED' });
  const url = await listen(t, {
    '/slow.kiln': (_, response) => {
      response.writeHead(200, { 'content-length': bundle.length });
      response.write(bundle.subarray(0, 100));
    },
  });
  const controller = new AbortController();
  const onProgress = () => controller.abort();
  await assert.rejects(api.load(`${url}/slow.kiln`, { signal: controller.signal, onProgress }), { code: 'ABORTED' });
});

test('wrong_options_are_refused', async () => {
  await assert.rejects(api.load(bundle, { simd: 'avx' }), { code: 'INVALID_ARGUMENT', message: /simd: 'avx'/ });
  await assert.rejects(api.load(bundle, { wasm: join(root, 'dist/compiler.wasm') }), { code: 'VERSION' });
  await assert.rejects(api.load(bundle, { wasm: join(root, 'package.json') }), { code: 'NOT_A_MODEL' });
});
