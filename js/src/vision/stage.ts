// The wasm side of Detector and Classifier: an image into the model's input, then a run, with no copy through JS.
import { KilnError, throw_if_aborted } from '../core/errors.ts';
import type { Model } from '../core/model.ts';
import type { Native } from '../core/native.ts';
import type { PixelImage } from './image.ts';
import { kPlacementBytes, kRecipeBytes, write_recipe, type PreprocessRecipe } from './recipe.ts';

/** Milliseconds that the parts of one call took. */
export interface StageTimes {
  readonly pre_ms: number;
  readonly run_ms: number;
  readonly post_ms: number;
}

/** Buffers in wasm memory that one Detector or Classifier keeps between calls. */
export class VisionStage {
  readonly #model: Model;
  readonly #recipe: PreprocessRecipe;
  #image = 0;
  #image_bytes = 0;
  #structs = 0;
  #owner: Native | undefined;

  constructor(model: Model, recipe: PreprocessRecipe) {
    this.#model = model;
    this.#recipe = recipe;
    write_recipe(new DataView(new ArrayBuffer(kRecipeBytes)), recipe, model.inputs[0]!); // refuses a bad recipe early
  }

  /** Pre-processes `pixels`, runs the model, then calls `post` with the placement's address. */
  run<T>(
    pixels: PixelImage,
    signal: AbortSignal | undefined,
    post: (native: Native, handle: number, placement: number) => T,
  ): Promise<{ readonly value: T; readonly times: StageTimes }> {
    return this.#model.exclusive((native, handle) => {
      throw_if_aborted(signal);
      const start = performance.now();
      const placement = this.#preprocess(native, handle, pixels);
      const ready = performance.now();
      native.check(native.exports.kiln_run(handle, 0, -1));
      const ran = performance.now();
      const value = post(native, handle, placement);
      const times = { pre_ms: ready - start, run_ms: ran - ready, post_ms: performance.now() - ran };
      return { value, times };
    });
  }

  #preprocess(native: Native, handle: number, pixels: PixelImage): number {
    if (this.#owner !== native) {
      this.#owner = native;
      this.#structs = native.alloc(kRecipeBytes + kPlacementBytes, 'the preprocessing recipe');
      this.#image = this.#image_bytes = 0;
    }
    if (this.#image_bytes < pixels.data.length) {
      if (this.#image) native.free(this.#image);
      this.#image_bytes = 0;
      this.#image = native.alloc(pixels.data.length, `an image of ${pixels.width} x ${pixels.height} pixels`);
      this.#image_bytes = pixels.data.length;
    }
    native.bytes(this.#image, pixels.data.length).set(pixels.data);
    const info = this.#model.inputs[0]!;
    const placement = this.#structs + kRecipeBytes;
    write_recipe(native.view(this.#structs, kRecipeBytes), this.#recipe, info);
    const out_bytes = info.shape.reduce((n, dim) => n * dim, info.dtype === 'u8' ? 1 : 4);
    native.check(
      native.exports.kiln_preprocess(
        this.#image,
        pixels.width,
        pixels.height,
        pixels.channels,
        pixels.width * pixels.channels,
        this.#structs,
        kRecipeBytes,
        native.exports.kiln_io_data(handle, 0, 0),
        out_bytes,
        placement,
        kPlacementBytes,
      ),
    );
    return placement;
  }
}

/** A model that Detector or Classifier can use: one image input. */
export function check_one_input(model: Model): void {
  if (model.inputs.length !== 1) {
    throw new KilnError(
      'UNSUPPORTED',
      `the model has ${model.inputs.length} inputs, one image is needed; use model.run()`,
    );
  }
}
