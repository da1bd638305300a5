// Threads in pages: with COOP and COEP on the main thread and in a worker, without them one thread, and the same bits.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { api, random_tensor } from '../support/api.mjs';
import { conv_net } from '../support/graphs.mjs';
import { chromium_absent, open_page } from '../support/page.mjs';

const options = { skip: chromium_absent };
const kShape = [1, 3, 64, 64];
const kImages = [...random_tensor(kShape, 3).data];
const kIsolated = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'content-security-policy':
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; img-src data:",
};

let bundle;
before(async () => void (bundle = await api.compile(conv_net({ height: 64, width: 64 }))));

const page_with = (t, more = {}) => open_page(t, { files: { '/net.kiln': bundle }, ...more });

/** One run for each thread count on the page's main thread, and what 'auto' means there. */
const run_in_page = (page, counts) =>
  page.evaluate(
    async ({ images, counts }) => {
      const runs = [];
      for (const threads of counts) {
        const model = await api.load('/net.kiln', { threads });
        const first = await model.run({ images: new Float32Array(images) });
        await window.all_threads(model, threads);
        for (let i = 0; i < 20; ++i) await model.run({ images: new Float32Array(images) });
        const { logits } = await model.run({ images: new Float32Array(images) });
        const same = first.logits.data.every((value, i) => value === logits.data[i]);
        runs.push({ wanted: threads, threads: model.threads, notes: model.notes, same, logits: [...logits.data] });
        model.dispose();
      }
      return { runs, automatic: api.capabilities().threads, cores: navigator.hardwareConcurrency };
    },
    { images: kImages, counts },
  );

const run_in_worker = (page, counts) =>
  page.evaluate(
    ({ images, counts }) =>
      new Promise((resolve, reject) => {
        const worker = new Worker('/threads_worker.mjs', { type: 'module' });
        worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data));
        worker.onerror = ({ message }) => reject(new Error(message || 'the worker does not start'));
        worker.postMessage({ net: '/net.kiln', images: new Float32Array(images), counts });
      }),
    { images: kImages, counts },
  );

test('isolated_pages_have_threads_and_the_same_bits', options, async (t) => {
  const { page, complaints } = await page_with(t, { headers: kIsolated });
  const { runs, automatic, cores } = await run_in_page(page, [1, 2, 3, 4, 'auto']);
  assert.equal(automatic, Math.min(cores, 8));
  for (const { wanted, threads, notes, same, logits } of runs) {
    assert.deepEqual([threads, notes, same], [wanted === 'auto' ? automatic : wanted, [], true]);
    assert.deepEqual(logits, runs[0].logits);
  }
  const inside = await run_in_worker(page, [1, 2, 3]);
  assert.deepEqual(
    inside.runs.map(({ threads, notes, logits }) => ({ threads, notes, logits })),
    [1, 2, 3].map((threads) => ({ threads, notes: [], logits: runs[0].logits })),
  );
  assert.equal(inside.automatic, automatic);
  assert.deepEqual(complaints, []);
});

test('pages_without_isolation_have_one_thread_and_say_why_once', options, async (t) => {
  const { page, complaints } = await page_with(t);
  const hints = [];
  page.on('console', (message) => hints.push(message.text()));
  const { runs, automatic } = await run_in_page(page, [1, 'auto', 2]);
  assert.equal(automatic, 1);
  const [one, two, three] = runs;
  for (const { threads, logits } of runs) assert.deepEqual([threads, logits], [1, one.logits]);
  assert.deepEqual(one.notes, []);
  assert.match(two.notes[0], /^one thread: .*'Cross-Origin-Opener-Policy: same-origin'.*'Cross-Origin-Embedder-Policy/);
  assert.deepEqual(three.notes, two.notes);
  assert.deepEqual(hints, [`tilekiln: ${two.notes[0]}`]);
  const inside = await run_in_worker(page, [2]);
  assert.deepEqual([inside.runs[0].threads, inside.runs[0].logits], [1, one.logits]);
  assert.deepEqual(complaints, []);
});

test('dispose_ends_the_workers_of_a_page', options, async (t) => {
  const { page } = await page_with(t, { headers: kIsolated });
  await page.evaluate(async () => void (window.model = await api.load('/net.kiln', { threads: 3 })));
  assert.equal(page.workers().length, 2);
  await page.evaluate(() => window.model.dispose());
  for (let i = 0; i < 500 && page.workers().length > 0; ++i) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(page.workers().length, 0);
});

test('a_site_that_lacks_the_workers_script_runs_with_one_thread', options, async (t) => {
  const handler = (path, response) => path.endsWith('kiln-thread.js') && Boolean(response.writeHead(404).end());
  const { page } = await page_with(t, { headers: kIsolated, handler });
  const { runs } = await run_in_page(page, [1, 3]);
  assert.deepEqual([runs[1].threads, runs[1].logits], [1, runs[0].logits]);
  assert.equal(runs[1].notes.length, 2);
  assert.match(runs[1].notes[0], /^worker thread 1 of 3 is missing: its script kiln-thread\.js, beside the package, /);
});
