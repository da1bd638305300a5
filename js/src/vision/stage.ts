// The wasm side of Detector and Classifier: an image into the model's input, then a run, with no copy through JS.
import { KilnError, throw_if_aborted } from '../core/errors.ts';
import { kLoadOptions, load, type LoadOptions, type Model, type TensorInfo } from '../core/model.ts';
import type { Native } from '../core/native.ts';
import { check_options, describe_value, pick_options, type OptionTable } from '../core/options.ts';
import type { ModelSource } from '../core/source.ts';
import { image_pixels, type PixelImage } from './image.ts';
import { kPlacementBytes, kRecipeBytes, write_recipe, type PreprocessRecipe } from './recipe.ts';

/** Milliseconds that the parts of one call took. */
export interface StageTimes {
  readonly pre_ms: number;
  readonly run_ms: number;
  readonly post_ms: number;
}

/** What `post` of a stage's run reads: the model's memory, and the address of the VisionPlacement. */
export interface StageResult {
  readonly native: Native;
  readonly handle: number;
  readonly placement: number;
}

/** An image model's input and outputs, in the first profile that takes a single image; others stay unused. */
export interface ImageIo {
  readonly profile: number;
  readonly input: TensorInfo;
  readonly outputs: readonly TensorInfo[];
}

/** Throws INVALID_ARGUMENT for what is no model, or one that is disposed. */
export function check_model(what: string, model: Model): void {
  if (typeof model?.exclusive !== 'function') {
    const text = `${what}: a Model is needed (await load(…)), got ${describe_value(model)}`;
    throw new KilnError('INVALID_ARGUMENT', text);
  }
  model.memory(); // throws if it has been disposed
}

/** Throws UNSUPPORTED unless the model has exactly one input. */
export function image_io(model: Model): ImageIo {
  const [first] = model.inputs;
  if (!first || model.inputs.length !== 1) {
    throw new KilnError(
      'UNSUPPORTED',
      `the model has ${model.inputs.length} inputs, one image is needed; use model.run()`,
    );
  }
  const profile = Math.max(
    0,
    first.profiles.findIndex((shape) => shape[0] === 1),
  );
  const in_profile = (info: TensorInfo): TensorInfo => ({ ...info, shape: info.profiles[profile]! });
  return { profile, input: in_profile(first), outputs: model.outputs.map(in_profile) };
}

/** Loads a bundle and gives it, with the options of `table`, to `make`; the model is disposed if that throws. */
export async function load_as<T, O extends object>(
  what: string,
  source: ModelSource,
  options: LoadOptions & O,
  table: OptionTable,
  make: (model: Model, options: O) => T,
): Promise<T> {
  check_options(what, options, { ...kLoadOptions, ...table });
  const model = await load(source, pick_options<LoadOptions>(options, kLoadOptions));
  try {
    return make(model, pick_options<O>(options, table));
  } catch (error) {
    model.dispose();
    throw error;
  }
}

/** A piece of wasm memory that grows when needed and is kept between calls; it goes with the model. */
export class Scratch {
  #pointer = 0;
  #bytes = 0;

  /** At least `bytes` bytes; contents are lost when it grows. `what` is named if there is no memory. */
  reserve(native: Native, bytes: number, what: string): number {
    if (this.#bytes < bytes) {
      if (this.#pointer) native.free(this.#pointer);
      this.#pointer = this.#bytes = 0;
      this.#pointer = native.alloc(bytes, what);
      this.#bytes = bytes;
    }
    return this.#pointer;
  }
}

/** Buffers in wasm memory that one Detector or Classifier keeps between calls. */
export class VisionStage {
  readonly io: ImageIo;
  readonly #model: Model;
  readonly #recipe: PreprocessRecipe;
  readonly #image = new Scratch();
  readonly #structs = new Scratch();

  constructor(model: Model, recipe: PreprocessRecipe) {
    this.io = image_io(model);
    this.#model = model;
    this.#recipe = recipe;
    write_recipe(new DataView(new ArrayBuffer(kRecipeBytes)), recipe, this.io.input); // refuses a bad recipe early
  }

  /** Pre-processes `pixels`, runs the model, then calls `post`. An abort is heeded between steps. */
  run<T>(
    pixels: PixelImage,
    signal: AbortSignal | undefined,
    post: (result: StageResult) => T,
  ): Promise<{ readonly value: T; readonly times: StageTimes }> {
    return this.#model.exclusive(async ({ native, handle, select_profile, run }) => {
      throw_if_aborted(signal);
      const start = performance.now();
      select_profile(this.io.profile);
      const placement = this.#preprocess(native, handle, pixels);
      const ready = performance.now();
      await run(signal);
      const ran = performance.now();
      const value = post({ native, handle, placement });
      const times = { pre_ms: ready - start, run_ms: ran - ready, post_ms: performance.now() - ran };
      return { value, times };
    });
  }

  #preprocess(native: Native, handle: number, pixels: PixelImage): number {
    image_pixels(pixels); // its buffer may have been transferred while other calls ran
    const size = pixels.data.length;
    const structs = this.#structs.reserve(native, kRecipeBytes + kPlacementBytes, 'the preprocessing recipe');
    const image = this.#image.reserve(native, size, `an image of ${pixels.width} x ${pixels.height} pixels`);
    native.bytes(image, size).set(pixels.data);
    const placement = structs + kRecipeBytes;
    const { input } = this.io;
    write_recipe(native.view(structs, kRecipeBytes), this.#recipe, input);
    const out_bytes = input.shape.reduce((n, dim) => n * dim, input.dtype === 'u8' ? 1 : 4);
    native.check(
      native.exports.kiln_preprocess(
        image,
        pixels.width,
        pixels.height,
        pixels.channels,
        pixels.width * pixels.channels,
        structs,
        kRecipeBytes,
        native.io_data(handle, 0, 0),
        out_bytes,
        placement,
        kPlacementBytes,
      ),
    );
    return placement;
  }
}
