// Entry point of a pool's worker in Node.
import { parentPort } from 'node:worker_threads';
import type { ThreadStart } from './protocol.ts';
import { run_thread } from './thread.ts';

parentPort!.once('message', (start: ThreadStart) => {
  run_thread(start, (news) => parentPort!.postMessage(news));
});
