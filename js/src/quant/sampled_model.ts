// A loaded bundle that runs samples and lets its outputs be read in place: an observe bundle has too many to copy each.
import { KilnError } from '../core/errors.ts';
import { load, type Feeds, type LoadOptions, type Model, type TensorInfo } from '../core/model.ts';
import type { Native } from '../core/native.ts';
import { num_elements, Tensor } from '../core/tensor.ts';
import { recipe_of } from '../vision/recipe.ts';
import { VisionStage } from '../vision/stage.ts';
import { picture_of, type Sample } from './samples.ts';

/** How calibration and evaluation run a model: options of `load`. */
export type RuntimeOptions = Pick<LoadOptions, 'simd' | 'threads' | 'tile' | 'wasm'>;

/** An f32 output of the last run, in the model's memory: it is gone with the next one. */
export interface Value {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

const kYieldMs = 8;
let last_yield = 0;

/** Lets the page or the program do other work, every few milliseconds. */
async function yield_now_and_then(): Promise<void> {
  if (performance.now() - last_yield < kYieldMs) return;
  await new Promise((resolve) => setTimeout(resolve, 0));
  last_yield = performance.now();
}

/** A model and the samples' way into it. Dispose it. */
export class SampledModel {
  readonly model: Model;
  #stage: VisionStage | undefined;
  #place: { readonly native: Native; readonly handle: number } | undefined;
  #profile = 0;

  constructor(model: Model) {
    this.model = model;
  }

  /**
   * Loads a bundle. Plain SIMD by default: other instructions round differently, and then the same pictures would give other
   * bundles on other machines.
   */
  static async load(
    bundle: Uint8Array,
    runtime: RuntimeOptions,
    signal: AbortSignal | undefined,
  ): Promise<SampledModel> {
    return new SampledModel(await load(bundle, { simd: 'simd', ...runtime, signal }));
  }

  /** Runs one sample; `values` are its. */
  async run(sample: Sample, signal: AbortSignal | undefined): Promise<void> {
    await yield_now_and_then();
    const picture = this.#is_feed(sample) ? undefined : picture_of(sample);
    if (picture) {
      this.#stage ??= new VisionStage(this.model, recipe_of(this.model.metadata, undefined));
      const { profile } = this.#stage.io;
      await this.#stage.run(picture, signal, ({ native, handle }) => (this.#place = { native, handle }));
      this.#profile = profile;
      return;
    }
    const feeds = sample instanceof Tensor ? this.#only_feed(sample) : (sample as Feeds);
    await this.model.exclusive(async ({ native, handle, write_feeds, run }) => {
      const { profile, batch, full_batch } = write_feeds(feeds);
      if (batch !== full_batch) {
        const text = `a sample has ${batch} rows of a batch of ${full_batch}: padding would count as data; give full batches`;
        throw new KilnError('SHAPE', text);
      }
      await run(signal);
      this.#place = { native, handle };
      this.#profile = profile;
    });
  }

  /** f32 outputs of the last run that have elements. */
  values(): readonly Value[] {
    const { native, handle } = this.#place!;
    return this.model.outputs.flatMap(({ name, dtype, profiles }, index) => {
      const shape = profiles[this.#profile]!;
      const length = num_elements(shape);
      if (dtype !== 'f32' || length === 0) return [];
      const at = native.io_data(handle, 1, index);
      return [{ name, shape, data: new Float32Array(native.exports.memory.buffer, at, length) }];
    });
  }

  dispose(): void {
    this.model.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  // A u8 tensor may be a picture and a u8 input as well: a recipe says that the model takes pictures.
  #is_feed(sample: Sample): boolean {
    if (!(sample instanceof Tensor)) return false;
    const { dtype, shape } = this.#only_input();
    const fits = sample.dtype === dtype && sample.shape.join() === shape.join();
    return fits && !(picture_of(sample) && this.model.metadata['preprocess'] !== undefined);
  }

  #only_feed(tensor: Tensor): Feeds {
    return { [this.#only_input().name]: tensor };
  }

  #only_input(): TensorInfo {
    const { inputs } = this.model;
    if (inputs.length === 1) return inputs[0]!;
    const names = inputs.map(({ name }) => name).join(', ');
    const text = `a Tensor alone cannot feed ${inputs.length} inputs; give an object with feeds by name (${names})`;
    throw new KilnError('INVALID_ARGUMENT', text);
  }
}
