// Runs engines in turn, A B C A B C …, after comparing their outputs with a reference; and the statistics of it.

/** Value at a share of the samples, linear between neighbours: 0.5 is the median. */
export function quantile(samples, share) {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.ceil(at)] - sorted[low]) * (at - low);
}

export const median = (samples) => quantile(samples, 0.5);

/** Largest |a - b| over the largest |b|; Infinity where lengths or NaNs differ. */
export function relative_difference(a, b) {
  if (a.length !== b.length) return Infinity;
  let worst = 0;
  let largest = 0;
  for (let i = 0; i < a.length; ++i) {
    if (Number.isNaN(a[i]) !== Number.isNaN(b[i])) return Infinity;
    if (Number.isNaN(a[i])) continue;
    worst = Math.max(worst, Math.abs(a[i] - b[i]));
    largest = Math.max(largest, Math.abs(b[i]));
  }
  return largest > 0 ? worst / largest : worst;
}

/**
 * How many times faster `ours` is: median and quartiles of the ratios round by round, which a drift of the machine's speed
 * during the run does not touch.
 * @param {number[]} ours milliseconds, one a round
 * @param {number[]} rival milliseconds of the same rounds
 * @returns {{ratio: number, quartiles: [number, number]}}
 */
export function speed_ratio(ours, rival) {
  const by_round = ours.map((ms, round) => rival[round] / ms);
  return { ratio: median(by_round), quartiles: [quantile(by_round, 0.25), quantile(by_round, 0.75)] };
}

/**
 * @param entries engines that are loaded and have run once: {label, output: Float32Array, warm_up: () => Promise, turn: () =>
 *   Promise<number>}, where turn() runs the model and gives the milliseconds of a run
 * @param {Float32Array} reference what all of them should have computed
 * @param {{rounds: number, tolerance: number, progress?: (text: string) => void}} options
 * @returns an entry each, in order: {difference, samples: milliseconds a round}
 * @throws Error naming the engine whose output is off
 */
export async function race(entries, reference, { rounds, tolerance, progress }) {
  const results = entries.map(({ label, output }) => {
    const difference = relative_difference(output, reference);
    if (!(difference <= tolerance)) {
      throw new Error(`${label}: the output differs by ${difference} of the largest value; allowed: ${tolerance}`);
    }
    return { difference, samples: [] };
  });
  for (const { label, warm_up } of entries) {
    progress?.(`warming up ${label}`);
    await warm_up();
  }
  for (let round = 0; round < rounds; ++round) {
    for (const [i, { turn }] of entries.entries()) results[i].samples.push(await turn());
    progress?.(`round ${round + 1} of ${rounds}`);
  }
  return results;
}
