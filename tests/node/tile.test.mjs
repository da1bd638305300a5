// Register tiles and Node's fast mode: whatever is chosen, the bits stay.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor, relative_error } from '../support/api.mjs';
import { run_cli } from '../support/cli.mjs';
import { temp_folder } from '../support/files.mjs';
import { deep_net } from '../support/graphs.mjs';

const kTiles = ['4x8', '6x8', '6x16'];
const bundle = await api.compile(deep_net({ steps: 3, channels: 40, side: 19 }));

async function bits(options) {
  const model = await api.load(bundle, options);
  try {
    const [{ name, shape }] = model.inputs;
    const outputs = await model.run({ [name]: random_tensor(shape, 3) });
    return {
      tile: model.tile,
      data: Buffer.concat(Object.values(outputs).map(({ data }) => Buffer.from(data.buffer))),
    };
  } finally {
    model.dispose();
  }
}

test('every tile gives the same bits, with one thread and with three', async () => {
  const { data } = await bits({ tile: 'auto', threads: 1 });
  for (const tile of kTiles) {
    for (const threads of [1, 3]) {
      const other = await bits({ tile, threads });
      assert.equal(other.tile, tile);
      assert.ok(other.data.equals(data), `${tile}, ${threads} threads`);
    }
  }
});

test('a tile is timed once and shown', async () => {
  const first = await bits({});
  assert.ok(kTiles.includes(first.tile), first.tile);
  assert.equal((await bits({})).tile, first.tile);
  assert.equal(api.capabilities().tile, first.tile);
});

test('a tile that there is not is refused', async () => {
  await assert.rejects(api.load(bundle, { tile: '8x8' }), {
    code: 'INVALID_ARGUMENT',
    message: /tile: '8x8'; allowed: auto, .*6x16/,
  });
  await assert.rejects(api.load(bundle, { tile: 4 }), { code: 'INVALID_ARGUMENT', message: /tile=4; allowed/ });
});

test('two instances agree about their self check', async () => {
  const hashes = [];
  for (let i = 0; i < 2; ++i) {
    const model = await api.load(bundle, { simd: 'simd', threads: 1 });
    hashes.push(await model.exclusive(({ native }) => native.exports.kiln_self_check()));
    model.dispose();
  }
  assert.notEqual(hashes[0], 0);
  assert.equal(hashes[0], hashes[1]);
});

test('tilekiln/node-fast gives the bits of the plain entry point', async (t) => {
  const file = join(temp_folder(t), 'm.kiln');
  writeFileSync(file, bundle);
  const script = `
    const { load, fast } = await import(${JSON.stringify(pathToFileURL(join(root, 'dist/index.node_fast.js')).href)});
    const model = await load(${JSON.stringify(file)}, { simd: 'simd' });
    const [{ name, shape }] = model.inputs;
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i));
    const outputs = await model.run({ [name]: data });
    const bytes = Buffer.concat(Object.values(outputs).map(({ data }) => Buffer.from(data.buffer)));
    console.log(JSON.stringify({ fast, bytes: bytes.toString('base64') }));`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  assert.equal(status, 0, stderr);
  const result = JSON.parse(stdout);
  assert.ok(result.fast.flags.length + result.fast.notes.length > 0, 'says what it did');

  const model = await api.load(bundle, { simd: 'simd', threads: 1 });
  const [{ name, shape }] = model.inputs;
  const data = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i));
  const outputs = await model.run({ [name]: data });
  model.dispose();
  const expected = Buffer.concat(Object.values(outputs).map(({ data: values }) => Buffer.from(values.buffer)));
  assert.ok(expected.equals(Buffer.from(result.bytes, 'base64')));
});

test('--fast runs a model in the command line, within rounding', async (t) => {
  const folder = temp_folder(t);
  writeFileSync(join(folder, 'm.kiln'), bundle);
  const input = random_tensor([1, 40, 19, 19], 3);
  writeFileSync(join(folder, 'x.npy'), api.writeNpy(input));
  const results = [];
  for (const fast of [[], ['--fast']]) {
    const out = `out${fast.length}`;
    const args = ['run', ...fast, 'm.kiln', '--input', 'x=x.npy', '--output-dir', out];
    const { code, stderr } = await run_cli(args, { cwd: folder });
    assert.equal(code, 0, stderr);
    results.push(api.readNpy(readFileSync(join(folder, out, 'y.npy'))).data);
  }
  assert.ok(relative_error(results[1], results[0]) <= 1e-5);
});

test('a trap on the calling thread ends the model, with the reason', async () => {
  for (const threads of [1, 2]) {
    const model = await api.load(bundle, { threads });
    await model.exclusive(({ native }) => void new Uint8Array(native.exports.memory.buffer).fill(0xff));
    await assert.rejects(model.warmup(), {
      code: 'INTERNAL',
      message: /stopped in the middle of a run .*load it again/,
    });
    await assert.rejects(model.warmup(), { code: 'INTERNAL', message: /load it again/ });
    assert.throws(() => model.memory(), { code: 'INTERNAL' });
    model.dispose();
  }
});
