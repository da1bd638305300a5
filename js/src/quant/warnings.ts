// What is wrong with a calibration set, in sentences that say what to do about it.
import { kBins, type Statistics, type ValueStatistics } from './statistics.ts';

const kFewSamples = 100;
const kUnbalanced = 3; // largest class folder over smallest
const kCore = 0.9999; // share of a value's elements that ought to fill its range
const kCoreRange = 1 / 8; // of the range; less, and three of eight bits serve outliers
const kMostNamed = 3;

/** A notice about a set that is too small, or none. */
export function size_notices(samples: number): string[] {
  if (samples >= kFewSamples) return [];
  const count = `${samples} calibration sample${samples === 1 ? '' : 's'}`;
  return [
    `${count}: ranges from fewer than ${kFewSamples} may not hold for others; take ${kFewSamples} to 1000 that show what the model will see`,
  ];
}

/** A notice about class folders of very different sizes, or none. `counts` are samples by folder. */
export function balance_notices(counts: ReadonlyMap<string, number>): string[] {
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const [largest, smallest] = [sorted[0], sorted.at(-1)];
  if (!largest || !smallest || largest[1] <= kUnbalanced * smallest[1]) return [];
  return [
    `the calibration set is unbalanced: class folder '${largest[0]}' gives ${largest[1]} pictures, '${smallest[0]}' ${smallest[1]}; take about as many of each class`,
  ];
}

/** The shortest stretch of bins that holds the core of all elements, as a share of the range. */
export function core_share({ histogram }: Pick<ValueStatistics, 'histogram'>): number {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  const needed = kCore * total;
  let shortest = kBins;
  let held = 0;
  for (let begin = 0, end = 0; end < kBins; ++end) {
    held += histogram[end]!;
    while (held - histogram[begin]! >= needed) held -= histogram[begin++]!;
    if (held >= needed) shortest = Math.min(shortest, end - begin + 1);
  }
  return shortest / kBins;
}

/** A notice about values whose range is ruled by a few outliers, the worst ones named, or none. */
export function outlier_notices({ values, samples }: Statistics, method: string): string[] {
  const found = [...values]
    .map(([name, value]) => ({ name, value, share: core_share(value) }))
    .filter(({ value, share }) => value.max > value.min && share < kCoreRange)
    .sort((a, b) => a.share - b.share);
  if (found.length === 0) return [];
  const named = found.slice(0, kMostNamed).map(({ name, value, share }) => {
    const range = `${value.min.toPrecision(3)} to ${value.max.toPrecision(3)}`;
    return `'${name}' (${range}; 99.99 % lie in ${(100 * share).toFixed(1)} % of that; widest: sample ${value.widest_sample + 1} of ${samples})`;
  });
  const more = found.length > kMostNamed ? ` and ${found.length - kMostNamed} more` : '';
  const remedy = method === 'percentile' ? 'more pictures help' : '--calib-method percentile or more pictures help';
  const few = found.length === 1 ? 'the range of a value is' : `the ranges of ${found.length} values are`;
  return [`${few} ruled by a few outliers: ${named.join(', ')}${more}; ${remedy}`];
}
