// Ends the process if a test that blocks its thread for ever would hang it: node:test's timeouts need that thread.
import { Worker } from 'node:worker_threads';

const kWorker = `
  const { workerData: { beats, limit_ms } } = require('node:worker_threads');
  for (let last = -1; ;) {
    const now = Atomics.load(beats, 0);
    if (now === last) {
      require('node:fs').writeSync(2, 'watchdog: no progress for ' + limit_ms + ' ms\\n');
      process.kill(process.pid, 'SIGKILL');
    }
    last = now;
    Atomics.wait(beats, 1, 0, limit_ms);
  }`;

/**
 * @param t node:test context, whose end ends the watch
 * @param {number} limit_ms longest time between two calls
 * @returns {() => void} to be called while all is well
 */
export function watch_progress(t, limit_ms) {
  const beats = new Int32Array(new SharedArrayBuffer(8));
  const worker = new Worker(kWorker, { eval: true, workerData: { beats, limit_ms } });
  t.after(() => worker.terminate());
  return () => void Atomics.add(beats, 0, 1);
}
