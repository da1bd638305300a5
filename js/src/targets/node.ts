// Node's side of Platform: files are read by path, artefacts and the workers' script from beside the module.
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import type { Platform } from '../core/platform.ts';
import type { ThreadEvents, ThreadNews, ThreadWorker } from '../worker/protocol.ts';

const read = async (path: string): Promise<Uint8Array<ArrayBuffer>> => {
  const bytes = await readFile(path.startsWith('file:') ? fileURLToPath(path) : path);
  return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
};

function start_worker(script: URL, { on_news, on_failure }: ThreadEvents): ThreadWorker {
  const worker = new Worker(script, { execArgv: [], env: SHARE_ENV }); // no preloads of the program: they take time
  worker.unref();
  worker.on('message', (news: ThreadNews) => on_news(news));
  worker.on('messageerror', () => on_failure('a message could not be read'));
  worker.on('error', (error: Error) => on_failure(error.message));
  worker.on('exit', (code) => on_failure(`it ended with code ${code}`));
  return { post: (start) => worker.postMessage(start), terminate: () => void worker.terminate() };
}

/** @param module_url import.meta.url of the entry point, beside which the artefacts lie */
export function node_platform(module_url: string): Platform {
  return {
    name: 'node',
    read_file: read,
    open_artefact: (name) => read(new URL(name, module_url).href),
    artefact_url: (name) => new URL(name, module_url).href,
    num_cores: availableParallelism,
    can_start_workers: () => true,
    start_worker: (events) => start_worker(new URL('kiln-thread.node.js', module_url), events),
  };
}
