// What a model is calibrated and evaluated on: images or tensors, gone through several times.
import { KilnError } from '../core/errors.ts';
import type { Feeds } from '../core/model.ts';
import { describe_value, value_text } from '../core/options.ts';
import { num_elements, Tensor, type TypedArray } from '../core/tensor.ts';
import { image_pixels, type ImageSource, type PixelImage } from '../vision/image.ts';

/**
 * One run's input: an image (pre-processed by the bundle's recipe), feeds by name, or a Tensor. A Tensor is the model's only
 * input, or a picture: u8 of [1, height, width, channels].
 */
export type Sample = ImageSource | Tensor | Feeds;

type SampleList = Iterable<Sample> | AsyncIterable<Sample>;

/**
 * Samples, or a function that gives them anew for each pass. A Tensor is cut along axis 0. What can be gone through once
 * only (a generator, a stream) is copied while that takes at most 256 MiB.
 */
export type Samples = Tensor | SampleList | (() => SampleList | Promise<SampleList>);

const kMostKept = 256 << 20; // bytes of a one-shot list
const kAllowed =
  'allowed: an array of images or tensors, another (async) iterable, a Tensor, or a function that gives one';

/** Whether samples can be told from other values, for option tables. */
export function is_samples(value: unknown): boolean {
  if (typeof value === 'function' || value instanceof Tensor) return true;
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false;
  return Symbol.iterator in value || Symbol.asyncIterator in value;
}

/** A sample that is a picture, as pixels; undefined if it is none. */
export function picture_of(sample: Sample): PixelImage | undefined {
  if (sample instanceof Tensor) {
    const { dtype, shape, data } = sample;
    const [n, height, width, channels] = shape;
    const fits = dtype === 'u8' && shape.length === 4 && n === 1 && [1, 3, 4].includes(channels!);
    if (!fits) return undefined;
    return { data: data as Uint8Array, width: width!, height: height!, channels: channels as 1 | 3 | 4 };
  }
  const { width, displayWidth } = sample as { readonly width?: unknown; readonly displayWidth?: unknown };
  const is_image = typeof width === 'number' || typeof displayWidth === 'number';
  return is_image ? image_pixels(sample as ImageSource) : undefined;
}

/** Row `index` of axis 0, as a tensor of batch 1 over the same elements. */
function row_of({ dtype, shape, data }: Tensor, index: number): Tensor {
  const row = [1, ...shape.slice(1)];
  const length = num_elements(row);
  return new Tensor(dtype, row, data.subarray(index * length, (index + 1) * length) as TypedArray);
}

/** `count` of `length` indices, spread evenly, so that a list sorted by class stays balanced. */
export function spread(length: number, count: number): number[] {
  const taken = Math.min(length, count);
  return Array.from({ length: taken }, (_, i) => Math.floor((i * length) / taken));
}

/** A copy that does not change when the caller reuses its buffers, and its bytes. */
function copy_of(sample: Sample): readonly [Sample, bytes: number] {
  const picture = sample instanceof Tensor ? undefined : picture_of(sample);
  if (picture) return [{ ...picture, data: picture.data.slice() }, picture.data.length];
  if (sample instanceof Tensor)
    return [new Tensor(sample.dtype, sample.shape, sample.data.slice() as TypedArray), sample.data.byteLength];
  let bytes = 0;
  const copies = Object.entries(sample as Feeds).map(([name, feed]): [string, Feeds[string]] => {
    const data = feed instanceof Tensor ? feed.data : feed;
    bytes += ArrayBuffer.isView(data) ? data.byteLength : 8 * data.length;
    return [name, feed instanceof Tensor ? (copy_of(feed)[0] as Tensor) : (feed.slice() as typeof feed)];
  });
  return [Object.fromEntries(copies), bytes];
}

/** Samples that can be gone through any number of times. */
export class SampleSet {
  readonly #what: string;
  readonly #count: number;
  readonly #most_kept: number;
  #samples: Samples;
  #length: number | undefined;
  #kept: Sample[] | undefined; // copies of a list that is gone through once only

  /**
   * @param what the option's name, for messages
   * @param count how many are taken at most: of an array or a Tensor evenly spread, of others the first
   * @param most_kept bytes that copies of a one-shot list may take
   */
  constructor(what: string, samples: Samples, count: number, most_kept = kMostKept) {
    if (!is_samples(samples))
      throw new KilnError('INVALID_ARGUMENT', `${what}=${value_text(samples)} is no list of samples; ${kAllowed}`);
    this.#what = what;
    this.#samples = samples;
    this.#count = count;
    this.#most_kept = most_kept;
  }

  /** How many samples a pass has, if that is known: of a function or a one-shot list, after the first pass. */
  get length(): number | undefined {
    if (this.#length !== undefined) return this.#length;
    const samples = this.#kept ?? this.#samples;
    const length =
      samples instanceof Tensor ? (samples.shape[0] ?? 0) : Array.isArray(samples) ? samples.length : undefined;
    return length === undefined ? undefined : Math.min(length, this.#count);
  }

  /** All samples in order. */
  async *pass(): AsyncGenerator<Sample> {
    let index = 0;
    for await (const sample of this.#open()) {
      if (index === this.#count) break;
      this.#check(sample, index++);
      yield sample;
    }
    this.#length = index;
    if (index === 0) throw new KilnError('INVALID_ARGUMENT', `${this.#what} is empty: it has no sample; ${kAllowed}`);
  }

  async *#open(): AsyncGenerator<Sample> {
    const samples = this.#kept ?? this.#samples;
    if (samples instanceof Tensor) {
      if (samples.shape.length < 2) {
        const text = `${this.#what} is a tensor of shape [${samples.shape.join(', ')}]; needed: a batch axis before the input's own`;
        throw new KilnError('SHAPE', text);
      }
      for (const index of spread(samples.shape[0]!, this.#count)) yield row_of(samples, index);
      return;
    }
    if (Array.isArray(samples)) {
      for (const index of spread(samples.length, this.#count)) yield samples[index] as Sample;
      return;
    }
    if (typeof samples === 'function') {
      const list = await samples();
      if (!is_samples(list) || typeof list === 'function') {
        const text = `${this.#what} is a function that gave ${value_text(list)}; allowed: a new iterable each time`;
        throw new KilnError('INVALID_ARGUMENT', text);
      }
      yield* list;
      return;
    }
    const sync = samples as Iterable<Sample>;
    const is_one_shot = !(Symbol.iterator in sync) || (sync[Symbol.iterator]() as unknown) === sync;
    yield* is_one_shot ? this.#keep(samples) : sync;
  }

  async *#keep(samples: SampleList): AsyncGenerator<Sample> {
    const kept: Sample[] = [];
    let total = 0;
    for await (const sample of samples) {
      if (kept.length === this.#count) break;
      this.#check(sample, kept.length);
      const [copy, bytes] = copy_of(sample);
      total += bytes;
      if (total > this.#most_kept) {
        const text = `${this.#what} can be gone through only once, and is too large to be kept (${kept.length + 1} samples take more than ${this.#most_kept} bytes): pass an array, or a function that gives the samples anew`;
        throw new KilnError('OUT_OF_MEMORY', text);
      }
      kept.push(copy);
      yield copy;
    }
    this.#kept = kept;
  }

  #check(sample: unknown, index: number): void {
    if (typeof sample === 'object' && sample !== null && !Array.isArray(sample) && !ArrayBuffer.isView(sample)) return;
    const text = `${this.#what}: sample ${index + 1} is ${describe_value(sample)}; allowed: an image, a Tensor, or an object with feeds by input name`;
    throw new KilnError('INVALID_ARGUMENT', text);
  }
}
