// Runs with random thread counts and random delays where threads meet: none hangs, none differs in a bit.
// TILEKILN_SOAK_SHARE scales how many (1: `npm run soak`).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor } from '../support/api.mjs';
import { conv_net, deep_net } from '../support/graphs.mjs';
import { random_numbers } from '../support/random_numbers.mjs';
import { watch_progress } from '../support/watchdog.mjs';

const share = Number(process.env.TILEKILN_SOAK_SHARE ?? 1);
const kRuns = Math.max(2, Math.round(10_000 * share));
const kThreads = [1, 2, 3, 4, 7];

test('runs_with_random_threads_and_delays_neither_hang_nor_differ', async (t) => {
  const progress = watch_progress(t, 120_000);
  const nets = [
    conv_net({ height: 32, width: 32 }),
    deep_net({ steps: 4, channels: 16, side: 24 }),
    write_onnx(make_layout('mobilenet_v2', { size: 32 })),
  ];
  const models = [];
  for (const onnx of nets) {
    const bundle = await api.compile(onnx);
    models.push(await Promise.all(kThreads.map((threads) => api.load(bundle, { threads }))));
  }
  t.after(() => models.flat().forEach((model) => model.dispose()));
  const feeds = models.map(([{ inputs }]) => ({ [inputs[0].name]: random_tensor(inputs[0].shape, 5) }));
  const bits = async (net, model) =>
    Buffer.concat(Object.values(await model.run(feeds[net])).map(({ data }) => Buffer.from(data.buffer)));
  const expected = await Promise.all(models.map(([one], net) => bits(net, one)));

  const seed = Date.now() % 2 ** 31;
  t.diagnostic(`seed ${seed}`);
  const random = random_numbers(seed);
  const next = (n) => Math.floor(random.next().value * n);
  for (let run = 0; run < kRuns; ++run) {
    const net = next(nets.length);
    const model = models[net][next(kThreads.length)];
    const delay = next(3) === 0 ? 0 : 1 + next(2 ** 31);
    await model.exclusive(({ native }) => native.exports.kiln_threads_delay?.(delay));
    if (next(20) === 0) await new Promise((resolve) => setTimeout(resolve, next(3))); // workers fall asleep
    const actual = await bits(net, model);
    assert.ok(actual.equals(expected[net]), `run ${run}, net ${net}, ${model.threads} threads, delay ${delay}`);
    progress();
  }
  assert.ok(models.flat().every(({ notes }) => notes.length === 0));
});
