// Runs two contenders on the same input in turn, A B A B …, after comparing their outputs. Works in Node and in a page.

/** Value at a share of the samples: 0.5 is the median. */
export function quantile(samples, share) {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.ceil(at)] - sorted[low]) * (at - low);
}

/** Largest |a - b| over the largest |b|. */
export function relative_difference(a, b) {
  if (a.length !== b.length) return Infinity;
  let worst = 0;
  let largest = 0;
  for (let i = 0; i < a.length; ++i) {
    worst = Math.max(worst, Math.abs(a[i] - b[i]));
    largest = Math.max(largest, Math.abs(b[i]));
    if (Number.isNaN(a[i]) !== Number.isNaN(b[i])) return Infinity;
  }
  return largest > 0 ? worst / largest : worst;
}

/**
 * @param contenders two of {name, load: async () => ({run: async (input) => Float32Array, dispose})}
 * @param {Float32Array} input fed to both
 * @param {{rounds: number, warmup: number, tolerance: number, progress?: (text: string) => void}} options
 * @returns per contender {name, load_ms, first_ms, median_ms, min_ms, p90_ms}, `ratio` = rival / ours by medians of
 *   rounds with its quartiles, and `difference`
 */
export async function race(contenders, input, { rounds, warmup, tolerance, progress }) {
  const loaded = [];
  for (const contender of contenders) {
    const start = performance.now();
    const engine = await contender.load();
    const ready = performance.now();
    const output = Float32Array.from(await engine.run(input));
    loaded.push({
      name: contender.name,
      engine,
      output,
      load_ms: ready - start,
      first_ms: performance.now() - ready,
      samples: [],
    });
  }
  const [ours, rival] = loaded;
  const difference = relative_difference(ours.output, rival.output);
  if (!(difference <= tolerance)) {
    throw new Error(
      `${ours.name} and ${rival.name} differ by ${difference} of the largest value; allowed: ${tolerance}`,
    );
  }
  for (let round = -warmup; round < rounds; ++round) {
    for (const side of loaded) {
      const start = performance.now();
      await side.engine.run(input);
      if (round >= 0) side.samples.push(performance.now() - start);
    }
    progress?.(`round ${round + 1} of ${rounds}`);
  }
  const ratios = ours.samples.map((ms, i) => rival.samples[i] / ms);
  for (const side of loaded) side.engine.dispose?.();
  return {
    difference,
    ratio: quantile(rival.samples, 0.5) / quantile(ours.samples, 0.5),
    ratio_quartiles: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
    sides: loaded.map(({ name, load_ms, first_ms, samples }) => ({
      name,
      load_ms,
      first_ms,
      median_ms: quantile(samples, 0.5),
      min_ms: Math.min(...samples),
      p90_ms: quantile(samples, 0.9),
    })),
  };
}
