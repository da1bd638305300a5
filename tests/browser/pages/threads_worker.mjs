// The package in a module worker with a pool of its own: one run for each thread count, answered by message.
import { capabilities, load } from '/dist/index.js';
import { all_threads } from './all_threads.mjs';

self.onmessage = async ({ data: { net, images, counts } }) => {
  try {
    const runs = [];
    for (const threads of counts) {
      const model = await load(net, { threads });
      await all_threads(model, threads);
      const { logits } = await model.run({ images });
      runs.push({ wanted: threads, threads: model.threads, notes: model.notes, logits: [...logits.data] });
      model.dispose();
    }
    self.postMessage({ runs, automatic: capabilities().threads });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
};
