// What the quantiser must know of each value: its range, a histogram over it, and the mean of each channel.
// Two passes over the samples: ranges first, then counts within them. Memory does not grow with the number of samples.
import { KilnError } from '../core/errors.ts';
import type { SampledModel, Value } from './sampled_model.ts';
import type { SampleSet } from './samples.ts';

/** Bins of a histogram. */
export const kBins = 2048;

/** One value's statistics over all samples. */
export interface ValueStatistics {
  readonly min: number;
  readonly max: number;
  /** Counts; bin i holds min + [i, i + 1) * (max - min) / kBins, the last one max as well. */
  readonly histogram: Float64Array;
  /** Mean over all axes but the last; empty for rank 0 and 1. */
  readonly channel_mean: Float64Array;
  /** Lowest and highest element of each channel; empty for rank 0 and 1. */
  readonly channel_min: Float64Array;
  readonly channel_max: Float64Array;
  /** Index of the sample that reaches furthest from 0. */
  readonly widest_sample: number;
}

/** Statistics of the values of an observe bundle, by name. */
export interface Statistics {
  readonly samples: number;
  readonly values: ReadonlyMap<string, ValueStatistics>;
}

/** Lowest and highest element so far. */
export interface Range {
  min: number;
  max: number;
  widest_sample: number;
}

/** Widens `range` by the elements of `data`; false, and nothing, if one is NaN or infinite. */
export function widen_range(range: Range, data: Float32Array, sample: number): boolean {
  let low = data[0]!;
  let high = low;
  let has_nan = false;
  for (let i = 0; i < data.length; ++i) {
    const v = data[i]!;
    if (v < low) low = v;
    else if (v > high) high = v;
    else if (v !== v) has_nan = true;
  }
  if (has_nan || !Number.isFinite(low) || !Number.isFinite(high)) return false;
  if (Math.max(-low, high) > Math.max(-range.min, range.max)) range.widest_sample = sample;
  if (low < range.min) range.min = low;
  if (high > range.max) range.max = high;
  return true;
}

/** Counts of a value within its range, and sums of its channels. */
export interface Counts {
  readonly min: number;
  readonly max: number;
  readonly histogram: Float64Array;
  readonly channel_sum: Float64Array;
  readonly channel_min: Float64Array;
  readonly channel_max: Float64Array;
  rows: number;
}

/** Empty counts; `channels` is the last axis, or 0 for none. */
export function make_counts({ min, max }: Pick<Range, 'min' | 'max'>, channels: number): Counts {
  const channel_sum = new Float64Array(channels);
  const channel_min = new Float64Array(channels).fill(Infinity);
  const channel_max = new Float64Array(channels).fill(-Infinity);
  return { min, max, histogram: new Float64Array(kBins), channel_sum, channel_min, channel_max, rows: 0 };
}

const kScratch = new Uint32Array(kBins); // integers count faster than the f64 that hold any sum

/** Counts elements, rows of channels. What lies outside the range goes into the outer bins. */
export function add_counts(counts: Counts, data: Float32Array): void {
  const { min, max, histogram, channel_sum, channel_min, channel_max } = counts;
  const channels = channel_sum.length;
  kScratch.fill(0);
  const scale = max > min ? kBins / (max - min) : 0;
  for (let i = 0; i < data.length; ++i) {
    const bin = ((data[i]! - min) * scale) | 0;
    ++kScratch[bin < 0 ? 0 : bin < kBins ? bin : kBins - 1]!;
  }
  for (let bin = 0; bin < kBins; ++bin) histogram[bin]! += kScratch[bin]!;
  if (channels === 0) return;
  for (let row = 0; row < data.length; row += channels) {
    for (let c = 0; c < channels; ++c) {
      const v = data[row + c]!;
      channel_sum[c]! += v;
      if (v < channel_min[c]!) channel_min[c] = v;
      if (v > channel_max[c]!) channel_max[c] = v;
    }
  }
  counts.rows += data.length / channels;
}

const channels_of = ({ shape }: Value): number => (shape.length < 2 ? 0 : shape.at(-1)!);

/** Names of the values that the compiler wants statistics of; of a bundle without them, all outputs. */
function observed_names(metadata: Readonly<Record<string, string>>): ReadonlySet<string> | undefined {
  const text = metadata['observe'];
  return text === undefined ? undefined : new Set(JSON.parse(text) as string[]);
}

/** One pass over the samples. */
async function for_each_value(
  model: SampledModel,
  set: SampleSet,
  signal: AbortSignal | undefined,
  on_sample: (index: number) => void,
  body: (value: Value, sample: number) => void,
): Promise<number> {
  const names = observed_names(model.model.metadata);
  let index = 0;
  for await (const sample of set.pass()) {
    await model.run(sample, signal);
    for (const value of model.values()) {
      if (!names || names.has(value.name)) body(value, index);
    }
    on_sample(++index);
  }
  return index;
}

/**
 * Runs the float observe bundle on all samples, twice.
 * @param on_sample called with the runs done and the runs in all, 0 while that is not known
 * @throws KilnError INVALID_ARGUMENT if a value is not finite, or the second pass has another number of samples
 */
export async function collect_statistics(
  model: SampledModel,
  set: SampleSet,
  signal: AbortSignal | undefined,
  on_sample: (done: number, total: number) => void,
): Promise<Statistics> {
  const ranges = new Map<string, Range>();
  const expected = 2 * (set.length ?? 0);
  const first_pass = (done: number): void => on_sample(done, expected);
  const samples = await for_each_value(model, set, signal, first_pass, (value, sample) => {
    let range = ranges.get(value.name);
    if (!range) ranges.set(value.name, (range = { min: Infinity, max: -Infinity, widest_sample: 0 }));
    if (widen_range(range, value.data, sample)) return;
    const text = `value '${value.name}' is not finite for calibration sample ${sample + 1}: is the preprocessing that of the training?`;
    throw new KilnError('INVALID_ARGUMENT', text);
  });

  const counts = new Map<string, Counts>();
  const second_pass = (done: number): void => on_sample(samples + done, 2 * samples);
  const again = await for_each_value(model, set, signal, second_pass, (value) => {
    let own = counts.get(value.name);
    if (!own) counts.set(value.name, (own = make_counts(ranges.get(value.name)!, channels_of(value))));
    add_counts(own, value.data);
  });
  if (again !== samples) {
    const text = `calibration gave ${samples} samples in the first pass and ${again} in the second; needed: the same ones`;
    throw new KilnError('INVALID_ARGUMENT', text);
  }
  const values = [...counts].map(([name, own]): [string, ValueStatistics] => {
    const { min, max, histogram, channel_sum, channel_min, channel_max, rows } = own;
    const channel_mean = channel_sum.map((sum) => sum / rows);
    const { widest_sample } = ranges.get(name)!;
    return [name, { min, max, histogram, channel_mean, channel_min, channel_max, widest_sample }];
  });
  return { samples, values: new Map(values) };
}

/** The statistics as the compiler reads them (`--calib-stats`). */
export function statistics_json({ samples, values }: Statistics): string {
  const entries = [...values].map(([name, { min, max, histogram, channel_mean, channel_min, channel_max }]) => [
    name,
    {
      min,
      max,
      histogram: Array.from(histogram),
      channel_mean: Array.from(channel_mean),
      channel_min: Array.from(channel_min),
      channel_max: Array.from(channel_max),
    },
  ]);
  return JSON.stringify({ version: 1, samples, values: Object.fromEntries(entries) as object });
}
