// Threads in Node: the same bits for any number of them, workers that end with their model, and what happens when they die.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor } from '../support/api.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net, deep_net } from '../support/graphs.mjs';
import { shared_absent, shared_path } from '../support/shared.mjs';
import { load_with_workers } from '../support/workers.mjs';

const small = await api.compile(conv_net({ height: 48, width: 48 }));
const deep = await api.compile(deep_net({ steps: 6, channels: 24, side: 32 }));

/** Loads with the test's end as the model's. */
async function load(t, bundle, options) {
  const model = await api.load(bundle, options);
  t.after(() => model.dispose());
  return model;
}

const feeds_of = (model) =>
  Object.fromEntries(model.inputs.map(({ name, shape }, i) => [name, random_tensor(shape, 7 + i).data]));

/** All outputs of one run, as bytes. */
async function bits(model, options) {
  const outputs = await model.run(feeds_of(model), options);
  return Buffer.concat(Object.values(outputs).map(({ data }) => Buffer.from(data.buffer)));
}

const is_shared = (model) => model.exclusive(({ native }) => native.exports.memory.buffer instanceof SharedArrayBuffer);

/** Workers that are started while `body` runs; each has `ended`, a promise. */
async function workers_of(body) {
  const workers = [];
  const collect = (worker) => {
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    workers.push({ worker, ended });
  };
  process.on('worker', collect);
  try {
    return { result: await body(), workers };
  } finally {
    process.off('worker', collect);
  }
}

const until = async (condition) => {
  for (let i = 0; i < 1000 && !(await condition()); ++i) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(await condition());
};

async function check_same_bits(t, bundle, what) {
  const expected = await bits(await load(t, bundle, { threads: 1 }));
  for (const threads of [2, 3, 4]) {
    const model = await load(t, bundle, { threads });
    await until(() => model.threads === threads);
    for (let run = 0; run < 3; ++run) assert.ok((await bits(model)).equals(expected), `${what}, ${threads} threads`);
    model.dispose();
  }
}

for (const [name, size] of [
  ['resnet18', 96],
  ['mobilenet_v2', 96],
  ['yolov5n', 128],
  ['yolov8n', 128],
]) {
  test(`same_bits_for_1_to_4_threads: ${name}`, async (t) => {
    await check_same_bits(t, await api.compile(write_onnx(make_layout(name, { size }))), name);
  });
}

test('same_bits_for_1_to_4_threads: yolox_nano', { skip: shared_absent }, async (t) => {
  const onnx = readFileSync(shared_path('models', 'yolox_nano.onnx'));
  await check_same_bits(t, await api.compile(onnx), 'yolox_nano');
});

test('threads_choose_the_artefact', async (t) => {
  const one = await load(t, small, { threads: 1 });
  assert.deepEqual([one.threads, one.notes, await is_shared(one)], [1, [], false]);
  const two = await load(t, small, { threads: 2, simd: 'simd' });
  await until(() => two.threads === 2);
  assert.deepEqual([two.notes, await is_shared(two), two.simd], [[], true, 'simd']);
  const automatic = await load(t, small);
  await until(() => automatic.threads === api.capabilities().threads);
  const wasm = new WebAssembly.Module(readFileSync(join(root, 'dist/kiln-simd.wasm')));
  const alone = await load(t, small, { threads: 2, wasm });
  assert.equal(alone.threads, 1);
  assert.deepEqual(alone.notes, ['one thread: the runtime given as `wasm` has no more']);
  const threaded = new WebAssembly.Module(readFileSync(join(root, 'dist/kiln-simd-mt.wasm')));
  const given = await load(t, small, { threads: 1, wasm: threaded });
  assert.deepEqual([given.threads, given.notes, await is_shared(given)], [1, [], true]);
  assert.ok((await bits(given)).equals(await bits(alone)));
});

test('dispose_ends_the_workers', async () => {
  const { result, workers } = await workers_of(() => api.load(small, { threads: 3 }));
  assert.equal(workers.length, 2);
  await bits(result);
  result.dispose();
  result.dispose();
  await Promise.all(workers.map(({ ended }) => ended));
  assert.throws(() => result.threads, { code: 'INVALID_ARGUMENT', message: /disposed/ });
});

test('a_load_that_fails_ends_the_workers', async () => {
  const damaged = small.slice();
  damaged[damaged.length - 9] ^= 1;
  const cases = [
    [() => api.load(damaged, { threads: 3 }), 'CORRUPT'],
    [() => api.load('no.kiln', { threads: 3 }), 'NOT_FOUND'],
    [() => api.load(small, { threads: 3, wasm: 'no.wasm' }), 'NOT_FOUND'],
  ];
  for (const [body, code] of cases) {
    const { workers } = await workers_of(() => assert.rejects(body, { name: 'KilnError', code }));
    assert.equal(workers.length, 2);
    await Promise.all(workers.map(({ ended }) => ended));
  }
});

test('a_model_that_is_dropped_ends_its_workers', async () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  const { workers } = await workers_of(async () => void (await bits(await api.load(small, { threads: 2 }))));
  let has_ended = false;
  void workers[0].ended.then(() => (has_ended = true));
  await until(() => (gc(), has_ended));
});

test('a_process_with_a_loaded_model_exits_by_itself', () => {
  const script = `
    import { load } from ${JSON.stringify(pathToFileURL(join(root, 'dist/index.node.js')).href)};
    const model = await load(Buffer.from(process.argv[1], 'base64'), { threads: 3 });
    await model.run({ images: new Float32Array(3 * 48 * 48) });
    console.log('ran');`;
  const args = ['--input-type=module', '-e', script, Buffer.from(small).toString('base64')];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
  assert.deepEqual([status, stdout, stderr], [0, 'ran\n', '']);
});

test('several_models_at_once', async (t) => {
  const expected = [await bits(await load(t, small, { threads: 1 })), await bits(await load(t, deep, { threads: 1 }))];
  const models = await Promise.all([2, 3, 2, 4].map((threads, i) => load(t, [small, deep][i % 2], { threads })));
  for (let round = 0; round < 5; ++round) {
    const results = await Promise.all(models.map((model) => bits(model)));
    results.forEach((result, i) => assert.ok(result.equals(expected[i % 2])));
  }
});

test('memory_grows_while_workers_are_there', async (t) => {
  const model = await load(t, small, { threads: 2 });
  await until(() => model.threads === 2);
  const expected = await bits(model);
  const before = model.memory().wasm_bytes;
  await model.exclusive(({ native }) => native.bytes(native.alloc(64 << 20, 'a test'), 64 << 20).fill(255));
  assert.ok(model.memory().wasm_bytes > before);
  assert.ok((await bits(model)).equals(expected));
});

test('an_abort_is_heeded_between_steps_of_threaded_runs', async (t) => {
  const model = await load(t, deep, { threads: 3 });
  const expected = await bits(model);
  const never = new AbortController();
  assert.ok((await bits(model, { signal: never.signal })).equals(expected));
  await assert.rejects(model.run(feeds_of(model), { signal: AbortSignal.abort() }), { code: 'ABORTED' });
  const started = new AbortController();
  await assert.rejects(
    (async () => {
      for (;;) {
        const running = model.run(feeds_of(model), { signal: started.signal });
        setTimeout(() => started.abort(), 1);
        await running;
      }
    })(),
    { code: 'ABORTED' },
  );
  assert.ok((await bits(model)).equals(expected));
});

test('errors_of_a_threaded_runtime_are_as_clear_as_ever', async (t) => {
  const model = await load(t, small, { threads: 2 });
  await assert.rejects(model.run({ images: new Float32Array(5) }), { code: 'SHAPE', message: /images/ });
  const other = new TextEncoder().encode('KILN and nothing behind it');
  await assert.rejects(api.load(other, { threads: 2 }), { name: 'KilnError', code: 'TRUNCATED' });
});

test('a_worker_that_ends_between_runs_is_a_thread_less', async (t) => {
  const { result: model, workers } = await workers_of(() => load(t, deep, { threads: 3 }));
  await until(() => model.threads === 3);
  const expected = await bits(model);
  await workers[0].worker.terminate();
  await until(() => model.threads === 2);
  assert.deepEqual(model.notes, ['worker thread 1 of 3 is missing: it ended with code 1']);
  assert.ok((await bits(model)).equals(expected));
});

test('a_worker_that_traps_in_a_tile_fails_the_run_and_no_other', async (t) => {
  // Its stack ends at address 0: the first kernel that needs more than some words of it traps.
  const change = (start) => ({ ...start, stack: 64 });
  const model = await load_with_workers(deep, { threads: 2 }, { change });
  t.after(() => model.dispose());
  const expected = await bits(await load(t, deep, { threads: 1 }));
  let failure;
  for (let run = 0; run < 500 && !failure; ++run) {
    await bits(model).catch((error) => (failure = error));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.deepEqual([failure.name, failure.code], ['KilnError', 'INTERNAL']);
  assert.equal(failure.message, 'a worker thread died in this run, its results are lost; later runs have 1 thread');
  assert.equal(model.threads, 1);
  assert.ok((await bits(model)).equals(expected));
  await until(() => model.notes.length === 1);
  assert.match(model.notes[0], /^worker thread 1 of 2 is missing: memory access out of bounds/);
});

test('a_stack_that_overflows_into_its_guard_fails_the_run', async (t) => {
  const kStackBytes = 256 * 1024;
  const change = (start) => ({ ...start, stack: start.stack - kStackBytes + 64 }); // nearly all of it is used up
  const model = await load_with_workers(deep, { threads: 2 }, { change });
  t.after(() => model.dispose());
  await until(() => model.threads === 2);
  let failure;
  for (let run = 0; run < 500 && !failure; ++run) await bits(model).catch((error) => (failure = error));
  assert.deepEqual([failure.name, failure.code], ['KilnError', 'INTERNAL']);
  assert.match(failure.message, /^the stack of worker thread 1 overflowed: .* dispose of the model$/);
});

test('workers_that_cannot_be_started_are_told_of', async (t) => {
  const refuse = () => {
    throw new Error('no more threads');
  };
  const model = await load_with_workers(deep, { threads: 3 }, { start_worker: refuse });
  t.after(() => model.dispose());
  assert.equal(model.threads, 1);
  assert.deepEqual(
    model.notes,
    [1, 2].map((thread) => `worker thread ${thread} of 3 could not be started: no more threads`),
  );
  assert.ok((await bits(model)).equals(await bits(await load(t, deep, { threads: 1 }))));
});

test('without_room_for_shared_memory_there_is_one_thread', async (t) => {
  const large = await api.compile(deep_net({ steps: 2, channels: 32, side: 96 })); // more than 2 MB of tensors
  const expected = await bits(await load(t, large, { threads: 1 }));
  const { Memory } = WebAssembly;
  t.after(() => (WebAssembly.Memory = Memory));
  const limits = [
    // a system that reserves little, one where the model does not fit in what it reserves, and one that reserves nothing
    [(descriptor) => descriptor.maximum <= 8192 && descriptor, 2, []],
    [(descriptor) => ({ ...descriptor, maximum: 32 }), 1, [/^one thread: .*no memory for/]],
    [() => false, 1, [/^one thread: no address space for 512 MB of shared memory$/]],
  ];
  for (const [limit, threads, notes] of limits) {
    WebAssembly.Memory = function (descriptor) {
      const limited = limit(descriptor);
      if (!limited) throw new RangeError('could not allocate memory');
      return new Memory(limited);
    };
    const model = await load(t, large, { threads: 2 });
    await until(() => model.threads === threads);
    assert.equal(model.notes.length, notes.length);
    notes.forEach((note, i) => assert.match(model.notes[i], note));
    assert.ok((await bits(model)).equals(expected));
  }
});

test('without_the_threaded_artefacts_a_model_has_one_thread', async (t) => {
  const folder = temp_folder(t);
  for (const name of readdirSync(join(root, 'dist'))) {
    if (/\.(js|wasm)$/.test(name) && !name.endsWith('-mt.wasm'))
      copyFileSync(join(root, 'dist', name), join(folder, name));
  }
  const { load: load_there } = await import(pathToFileURL(join(folder, 'index.node.js')));
  const model = await load_there(small, { threads: 2 });
  t.after(() => model.dispose());
  assert.equal(model.threads, 1);
  assert.match(model.notes[0], /^one thread: .*-mt\.wasm' cannot be read/);
  assert.ok((await bits(model)).equals(await bits(await load(t, small, { threads: 1 }))));
});
