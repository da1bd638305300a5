// Long use of the package in one process: models come and go, runs overlap and are cut short; memory stays, bits stay.
// TILEKILN_SOAK_SHARE scales how long (1: `npm run soak`).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor } from '../support/api.mjs';
import { conv_net, deep_net } from '../support/graphs.mjs';
import { random_numbers } from '../support/random_numbers.mjs';

const share = Number(process.env.TILEKILN_SOAK_SHARE ?? 1);
const times = (full) => Math.max(2, Math.round(full * share));

const nets = [conv_net(), deep_net(), write_onnx(make_layout('mobilenet_v2', { size: 96 }))];
const bundles = await Promise.all(nets.map((onnx) => api.compile(onnx)));

const feeds_of = (model, seed) =>
  Object.fromEntries(model.inputs.map(({ name, shape }, i) => [name, random_tensor(shape, seed + i)]));

/** Outputs of every net for a few seeds, by a model of its own. */
const expected = await Promise.all(
  bundles.map(async (bundle) => {
    const model = await api.load(bundle);
    const outputs = [];
    for (let seed = 0; seed < 4; ++seed) outputs.push(await model.run(feeds_of(model, seed)));
    model.dispose();
    return outputs;
  }),
);

/** Once workers that were told to end have ended: what they held comes back a while later. */
const megabytes = async () => {
  for (let i = 0; i < 3; ++i) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    global.gc?.();
  }
  const { rss, arrayBuffers } = process.memoryUsage();
  return { rss: rss / 2 ** 20, buffers: arrayBuffers / 2 ** 20 };
};

test('models_come_and_go_in_any_order', async (t) => {
  const random = random_numbers(1);
  const next = (n) => Math.floor(random.next().value * n);
  const alive = [];
  const rounds = times(4000);
  let settled;
  for (let round = 0; round < rounds; ++round) {
    if (round === Math.floor(rounds / 2)) {
      for (const { model } of alive.splice(0)) model.dispose();
      settled = await megabytes();
    }
    if (alive.length < 6 && next(3) === 0) {
      const net = next(bundles.length);
      alive.push({ net, model: await api.load(bundles[net]) });
    }
    if (alive.length === 0) continue;
    const index = next(alive.length);
    const { net, model } = alive[index];
    const seed = next(4);
    const outputs = await model.run(feeds_of(model, seed));
    for (const [name, { data }] of Object.entries(outputs)) {
      assert.deepEqual(data, expected[net][seed][name].data, `round ${round}, net ${net}, seed ${seed}`);
    }
    if (next(4) === 0) {
      model.dispose();
      alive.splice(index, 1);
    }
  }
  for (const { model } of alive) model.dispose();
  const end = await megabytes();
  t.diagnostic(`${rounds} rounds; MB half-way ${JSON.stringify(settled)}, at the end ${JSON.stringify(end)}`);
  assert.ok(end.rss < settled.rss + 150, `memory grows: ${settled.rss.toFixed(0)} MB, then ${end.rss.toFixed(0)} MB`);
});

test('memory_of_a_model_does_not_grow_run_after_run', async (t) => {
  const model = await api.load(bundles[2]);
  t.after(() => model.dispose());
  await model.run(feeds_of(model, 0));
  const before = model.memory().wasm_bytes;
  for (let i = 0; i < times(1000); ++i) {
    const outputs = await model.run(feeds_of(model, i % 4));
    for (const [name, { data }] of Object.entries(outputs)) assert.deepEqual(data, expected[2][i % 4][name].data);
  }
  assert.equal(model.memory().wasm_bytes, before);
});

test('runs_cut_short_leave_the_model_usable', async (t) => {
  const random = random_numbers(3);
  const model = await api.load(bundles[2]);
  t.after(() => model.dispose());
  let cut = 0;
  for (let i = 0; i < times(1000); ++i) {
    const controller = new AbortController();
    const running = model.run(feeds_of(model, 0), { signal: controller.signal });
    const when = random.next().value;
    if (when < 0.3) controller.abort();
    else if (when < 0.6) setImmediate(() => controller.abort());
    try {
      await running;
    } catch (error) {
      assert.equal(error.code, 'ABORTED', error.message);
      cut += 1;
    }
  }
  const outputs = await model.run(feeds_of(model, 1));
  for (const [name, { data }] of Object.entries(outputs)) assert.deepEqual(data, expected[2][1][name].data);
  t.diagnostic(`${cut} runs were cut short`);
});

test('compiling_again_and_again_gives_the_same_bytes', async () => {
  for (let i = 0; i < times(200); ++i) {
    const net = i % nets.length;
    assert.deepEqual(await api.compile(nets[net]), bundles[net]);
  }
});
