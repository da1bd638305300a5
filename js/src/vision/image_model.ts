// ImageModel: an image in, the model's raw outputs out, for nets that are neither detector nor classifier.
import type { LoadOptions, Model } from '../core/model.ts';
import { check_options, kSignal } from '../core/options.ts';
import type { ModelSource } from '../core/source.ts';
import { array_type, num_elements, Tensor, type TypedArray } from '../core/tensor.ts';
import { image_pixels, type ImageSource } from './image.ts';
import { kPreprocess, recipe_of, type PreprocessRecipe } from './recipe.ts';
import { check_model, load_as, VisionStage, type StageTimes } from './stage.ts';

/** Where the image's pixels went: model pixel = image pixel * scale + offset. */
export interface Placement {
  readonly scaleX: number;
  readonly scaleY: number;
  readonly offsetX: number;
  readonly offsetY: number;
}

/** Outputs by name, and how points of the model's input map back to the image. */
export interface ImageRun {
  readonly outputs: Readonly<Record<string, Tensor>>;
  readonly placement: Placement;
}

const kImageModelOptions = { preprocess: kPreprocess };

/**
 * Runs any model with one image input: embeddings, landmarks, segmentation, depth.
 * @example
 * using net = await ImageModel.load('face_recognition.kiln');
 * const { outputs } = await net.run(await readImage('face.jpg'));
 */
export class ImageModel {
  readonly model: Model;
  /** Milliseconds of the last call's parts. */
  times: StageTimes = { pre_ms: 0, run_ms: 0, post_ms: 0 };
  readonly #stage: VisionStage;

  constructor(model: Model, options: { readonly preprocess?: PreprocessRecipe | undefined } = {}) {
    check_model('ImageModel', model);
    check_options('ImageModel', options, kImageModelOptions);
    this.model = model;
    this.#stage = new VisionStage(model, recipe_of(model.metadata, options.preprocess));
  }

  /** Loads a bundle and makes an ImageModel of it. */
  static async load(
    source: ModelSource,
    options: LoadOptions & { readonly preprocess?: PreprocessRecipe | undefined } = {},
  ): Promise<ImageModel> {
    const make = (model: Model, own: typeof options): ImageModel => new ImageModel(model, own);
    return load_as('ImageModel.load', source, options, kImageModelOptions, make);
  }

  /**
   * Runs the model on one image.
   * @throws KilnError INVALID_ARGUMENT, ABORTED
   */
  async run(image: ImageSource, options: { readonly signal?: AbortSignal | undefined } = {}): Promise<ImageRun> {
    check_options('run', options, { signal: kSignal });
    const { value, times } = await this.#stage.run(
      image_pixels(image),
      options.signal,
      ({ native, handle, placement }): ImageRun => {
        const view = native.view(placement, 16);
        const [scaleX, scaleY, offsetX, offsetY] = [0, 4, 8, 12].map((at) => view.getFloat32(at, true)) as [
          number,
          number,
          number,
          number,
        ];
        const outputs = this.#stage.io.outputs.map((info, index): [string, Tensor] => {
          const type = array_type(info.dtype);
          const data = native.io_data(handle, 1, index);
          const copy = new type(native.exports.memory.buffer, data, num_elements(info.shape)).slice() as TypedArray;
          return [info.name, new Tensor(info.dtype, info.shape, copy)];
        });
        return { outputs: Object.fromEntries(outputs), placement: { scaleX, scaleY, offsetX, offsetY } };
      },
    );
    this.times = times;
    return value;
  }

  /** Gives the model's memory back. */
  dispose(): void {
    this.model.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
