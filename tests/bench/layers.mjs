// The time of each step of a tilekiln model, one step at a time; runs in Node and in a page.
import { median } from './race.mjs';

/**
 * @param model a loaded tilekiln Model that has run once, so that its inputs hold a picture
 * @param {number} rounds passes over all steps
 * @returns {Promise<{op: string, name: string, kernel: string, macs: number, ms: number}[]>} in the order they run
 */
export async function layer_times(model, rounds) {
  const steps = model.steps();
  const samples = steps.map(() => []);
  await model.exclusive(({ native, handle }) => {
    for (let round = -1; round < rounds; ++round) {
      for (let step = 0; step < steps.length; ++step) {
        const start = performance.now();
        native.check(native.exports.kiln_run(handle, step, step + 1));
        if (round >= 0) samples[step].push(performance.now() - start);
      }
    }
  });
  return steps.map((step, i) => ({ ...step, ms: median(samples[i]) }));
}
