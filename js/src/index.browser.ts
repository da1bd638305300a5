// Entry point of browsers and bundlers: artefacts are fetched from beside the module, and workers started from there.
import { set_platform } from './core/platform.ts';
import type { ThreadEvents, ThreadNews, ThreadWorker } from './worker/protocol.ts';

// Written out one by one, so that bundlers see each asset.
const kArtefacts: Readonly<Record<string, URL>> = {
  'kiln-simd.wasm': new URL('./kiln-simd.wasm', import.meta.url),
  'kiln-relaxed.wasm': new URL('./kiln-relaxed.wasm', import.meta.url),
  'kiln-simd-mt.wasm': new URL('./kiln-simd-mt.wasm', import.meta.url),
  'kiln-relaxed-mt.wasm': new URL('./kiln-relaxed-mt.wasm', import.meta.url),
  'compiler.wasm': new URL('./compiler.wasm', import.meta.url),
};

function start_worker({ on_news, on_failure }: ThreadEvents): ThreadWorker {
  const worker = new Worker(new URL('./kiln-thread.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }: MessageEvent<ThreadNews>): void => on_news(data);
  worker.onmessageerror = (): void => on_failure('a message could not be read');
  worker.onerror = (event): void => {
    event.preventDefault(); // the model tells by its notes
    on_failure(event.message || 'its script kiln-thread.js, beside the package, could not be loaded');
  };
  return { post: (start) => worker.postMessage(start), terminate: () => worker.terminate() };
}

set_platform({
  name: 'browser',
  open_artefact: (name) => fetch(kArtefacts[name]!),
  artefact_url: (name) => kArtefacts[name]!.href,
  num_cores: () => navigator.hardwareConcurrency || 1,
  can_start_workers: () => typeof Worker === 'function',
  start_worker,
});

export * from './api.ts';
