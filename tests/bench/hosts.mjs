// Where a race is run: in this Node process, or in a page of headless Chromium.
import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { root } from '../../scripts/run_stage.mjs';
import { chromium_path, launch_chromium, serve } from '../support/chromium.mjs';
import { onnxruntime_contender, tilekiln_contender } from './contenders.mjs';
import { race } from './race.mjs';

/** One race in Node. Null, with a line that says so, if the engine lacks the SIMD level. */
export async function bench_in_node(model, { simd, ...options }) {
  const api = await import(join(root, 'dist/index.node.js'));
  const ort = await import('onnxruntime-web');
  ort.env.wasm.numThreads = 1;
  const ours = tilekiln_contender(api, readFileSync(model.bundle), simd);
  const session = { executionProviders: ['wasm'] };
  const rival = onnxruntime_contender(ort, readFileSync(model.onnx), 'onnxruntime-web', session, model.shape);
  try {
    const input = new Float32Array(new Uint8Array(readFileSync(model.input)).buffer);
    return await race([ours, rival], input, options);
  } catch (error) {
    if (error.code !== 'UNSUPPORTED') throw error;
    console.log(`${model.name} in node, ${simd}: skipped: ${error.message}`);
    return null;
  }
}

/** One race in Chromium, in a page with COOP and COEP. Null, with a line that says so, without Chromium. */
export async function bench_in_chromium(model, options) {
  if (!chromium_path()) {
    console.log(`${model.name} in chromium: skipped: no Chromium on this machine (scripts/setup.sh browser)`);
    return null;
  }
  const server = await serve(
    {
      '/': join(root, 'tests/bench'),
      '/dist/': join(root, 'dist'),
      '/models/': dirname(model.onnx),
      '/ort/': join(root, 'node_modules/onnxruntime-web/dist'),
    },
    { headers: { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' } },
  );
  const browser = await launch_chromium();
  try {
    const page = await browser.context.newPage();
    page.on('pageerror', (error) => console.error(`page: ${error.message}`));
    await page.goto(`${server.url}/page.html`);
    await page.waitForFunction('window.bench_ready');
    const job = {
      ...options,
      onnx: `/models/${basename(model.onnx)}`,
      bundle: `/models/${basename(model.bundle)}`,
      input: `/models/${basename(model.input)}`,
      shape: model.shape,
    };
    return await page.evaluate((request) => window.bench_race(request), job);
  } finally {
    await browser.close();
    await server.close();
  }
}
