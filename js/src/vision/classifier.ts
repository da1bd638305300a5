// Classifier: an image in, the likeliest classes out.
import { KilnError } from '../core/errors.ts';
import type { LoadOptions, Model, TensorInfo } from '../core/model.ts';
import { check_options, is_one_of, is_whole, kLabels, kSignal, type OptionTable } from '../core/options.ts';
import type { ModelSource } from '../core/source.ts';
import { num_elements } from '../core/tensor.ts';
import { image_pixels, type ImageSource } from './image.ts';
import { kPreprocess, recipe_of, type PreprocessRecipe } from './recipe.ts';
import { check_model, image_io, load_as, Scratch, VisionStage, type StageTimes } from './stage.ts';

/** One class and how likely it is. */
export interface ClassScore {
  readonly index: number;
  readonly label: string;
  /** Probability, 0..1, unless `softmax: false` says to leave scores as they are. */
  readonly score: number;
}

/** How Classifier reads a model. All are optional where the bundle carries them. */
export interface ClassifierOptions {
  readonly preprocess?: PreprocessRecipe | undefined;
  readonly labels?: readonly string[] | undefined;
  /** Apply softmax to the scores; 'auto' (the default) does so unless they are probabilities already. */
  readonly softmax?: boolean | 'auto' | undefined;
}

/** What to return. */
export interface ClassifyOptions {
  /** How many classes; default 5. */
  readonly top?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const kClassifierOptions: OptionTable<keyof ClassifierOptions> = {
  preprocess: kPreprocess,
  labels: kLabels,
  softmax: [is_one_of(true, false, 'auto'), "true, false, 'auto'"],
};
const kClassifyOptions: OptionTable<keyof ClassifyOptions> = {
  top: [is_whole(1, Infinity), 'whole numbers from 1'],
  signal: kSignal,
};

// Probabilities: all within [0, 1] and a sum of 1 but for rounding.
function are_probabilities(scores: Float32Array): boolean {
  let sum = 0;
  for (const score of scores) {
    if (!(score >= 0 && score <= 1.0001)) return false;
    sum += score;
  }
  return Math.abs(sum - 1) < 1e-3;
}

/** The output with class scores: of one row, with one score a label if there are labels, else the first of its kind. */
function score_output(outputs: readonly TensorInfo[], num_labels: number): number {
  const is_row = ({ dtype, shape }: TensorInfo): boolean =>
    dtype === 'f32' && num_elements(shape) > 0 && shape.filter((dim) => dim !== 1).length <= 1;
  const labelled = outputs.findIndex((info) => is_row(info) && num_elements(info.shape) === num_labels);
  const found = labelled >= 0 ? labelled : outputs.findIndex(is_row);
  if (found >= 0) return found;
  const list = outputs.map(({ name, dtype, shape }) => `'${name}' ${dtype} [${shape.join(', ')}]`).join(', ');
  throw new KilnError(
    'UNSUPPORTED',
    `none of the outputs ${list} holds class scores ([1, classes] of f32); use model.run()`,
  );
}

/**
 * Tells what an image shows, with a ResNet-style model.
 * @example
 * using classifier = await Classifier.load('resnet50.kiln');
 * const [best] = await classifier.classify(imageBitmap, { top: 1 });
 */
export class Classifier {
  readonly model: Model;
  readonly labels: readonly string[];
  readonly num_classes: number;
  /** Milliseconds of the last call's parts. */
  times: StageTimes = { pre_ms: 0, run_ms: 0, post_ms: 0 };

  readonly #stage: VisionStage;
  readonly #output: number;
  readonly #softmax: boolean | 'auto';
  readonly #buffer = new Scratch();

  /** @param model a loaded bundle with an output that holds one score a class */
  constructor(model: Model, options: ClassifierOptions = {}) {
    check_model('Classifier', model);
    check_options('Classifier', options, kClassifierOptions);
    this.model = model;
    this.labels = options.labels ?? (model.metadata['labels'] ?? '').split('\n').filter(Boolean);
    const { outputs } = image_io(model);
    this.#output = score_output(outputs, this.labels.length);
    const { name, shape } = outputs[this.#output]!;
    this.num_classes = num_elements(shape);
    if (this.labels.length > 0 && this.labels.length !== this.num_classes) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `output '${name}' [${shape.join(', ')}] has ${this.num_classes} classes, but there are ${this.labels.length} labels in the ${options.labels ? 'options' : 'bundle'}`,
      );
    }
    this.#softmax = options.softmax ?? 'auto';
    this.#stage = new VisionStage(model, recipe_of(model.metadata, options.preprocess));
  }

  /** Loads a bundle and makes a classifier of it. */
  static async load(source: ModelSource, options: LoadOptions & ClassifierOptions = {}): Promise<Classifier> {
    const make = (model: Model, own: ClassifierOptions): Classifier => new Classifier(model, own);
    return load_as('Classifier.load', source, options, kClassifierOptions, make);
  }

  /**
   * The likeliest classes of one image.
   * @returns classes by falling score, ties by lower index
   * @throws KilnError INVALID_ARGUMENT, ABORTED
   */
  async classify(image: ImageSource, options: ClassifyOptions = {}): Promise<readonly ClassScore[]> {
    check_options('classify', options, kClassifyOptions);
    const k = Math.min(options.top ?? 5, this.num_classes);
    const { value, times } = await this.#stage.run(image_pixels(image), options.signal, ({ native, handle }) => {
      const indices = this.#buffer.reserve(native, this.num_classes * 8, 'class scores');
      const scores = native.io_data(handle, 1, this.#output);
      const apply =
        this.#softmax === 'auto'
          ? !are_probabilities(new Float32Array(native.exports.memory.buffer, scores, this.num_classes))
          : this.#softmax;
      const values = indices + 4 * this.num_classes;
      native.check(native.exports.kiln_top_k(scores, this.num_classes, k, apply ? 1 : 0, indices, values));
      const view = native.view(indices, this.num_classes * 8);
      return Array.from({ length: k }, (_, i): ClassScore => {
        const index = view.getInt32(4 * i, true);
        return {
          index,
          label: this.labels[index] ?? String(index),
          score: view.getFloat32(4 * (this.num_classes + i), true),
        };
      });
    });
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
