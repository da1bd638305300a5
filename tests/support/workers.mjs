// Workers of a model's pool as a test wants them: the inner modules over dist/, with another way to start a worker.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../../scripts/run_stage.mjs';
import { import_inner } from './inner.mjs';

const inner = await import_inner(['core/model.ts', 'core/platform.ts', 'targets/node.ts']);
const real = inner.node_platform(pathToFileURL(join(root, 'dist/index.node.js')).href);

/** `load` of the package, where `change(start)` alters what each worker is told, or `start_worker` starts it. */
export function load_with_workers(source, options, { change = (start) => start, start_worker, ...platform }) {
  const start = (events) => {
    const worker = real.start_worker(events);
    return { post: (message) => worker.post(change(message)), terminate: worker.terminate };
  };
  inner.set_platform({ ...real, start_worker: start_worker ?? start, ...platform });
  return inner.load(source, options);
}
