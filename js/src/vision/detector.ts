// Detector: an image in, boxes in the image's own pixels out.
import { KilnError } from '../core/errors.ts';
import type { LoadOptions, Model, TensorInfo } from '../core/model.ts';
import {
  check_options,
  is_list,
  is_number,
  is_text,
  is_whole,
  kFlag,
  kLabels,
  kSignal,
  value_text,
  type Check,
  type OptionTable,
} from '../core/options.ts';
import type { ModelSource } from '../core/source.ts';
import { check_classes, choose_decoder, kDecoders, type DecoderName } from './decoder.ts';
import { image_pixels, type ImageSource } from './image.ts';
import { image_input, kPlacementBytes, kPreprocess, recipe_of, type PreprocessRecipe } from './recipe.ts';
import { check_model, image_io, load_as, Scratch, VisionStage, type StageResult, type StageTimes } from './stage.ts';

/** One object found. */
export interface Detection {
  /** x1, y1, x2, y2 in pixels of the image, within it. */
  readonly box: readonly [number, number, number, number];
  /** 0..1 */
  readonly score: number;
  /** Class index. */
  readonly class: number;
  /** Class name, or the index as text where the bundle has no labels. */
  readonly label: string;
}

/** How Detector reads a model. All are optional where the bundle carries them. */
export interface DetectorOptions {
  readonly decoder?: DecoderName | undefined;
  readonly preprocess?: PreprocessRecipe | undefined;
  readonly labels?: readonly string[] | undefined;
  /** tiny-yolov2: width and height of each anchor in grid cells. */
  readonly anchors?: readonly (readonly [number, number])[] | undefined;
}

/** What to keep. */
export interface DetectOptions {
  /** Lowest score; default 0.25. */
  readonly score?: number | undefined;
  /** Largest overlap of two boxes of a class; default 0.45. */
  readonly iou?: number | undefined;
  /** Most boxes returned; default 300. */
  readonly maxDetections?: number | undefined;
  /** Suppress across classes; default false. */
  readonly classAgnostic?: boolean | undefined;
  /** A box for every class above the score instead of the best one; default false. */
  readonly multiLabel?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

const kRequestBytes = 216; // sizeof(DetectRequest), src/vision/detect.h
const kDetectionBytes = 24;
const kMaxAnchors = 16;
const kMostDetections = 100_000;
const kRounding = 1e-3; // of a sigmoid, above 1

/** Anchors that the model's maker put into the ONNX metadata entry `decode`. */
function anchors_of(metadata: Readonly<Record<string, string>>): readonly (readonly [number, number])[] {
  try {
    const decode = JSON.parse(metadata['onnx.decode'] ?? '{}') as {
      readonly anchors?: readonly (readonly [number, number])[];
    };
    return Array.isArray(decode.anchors) ? decode.anchors : [];
  } catch {
    return []; // somebody else's entry of that name
  }
}

const is_anchor: Check = (v) => is_list(is_number(1e-6, 1e6))(v) && (v as unknown[]).length === 2;
const is_anchors: Check = (v) => is_list(is_anchor)(v) && (v as unknown[]).length <= kMaxAnchors;

const kDetectorOptions: OptionTable<keyof DetectorOptions> = {
  decoder: [is_text, kDecoders.join(', ')],
  preprocess: kPreprocess,
  labels: kLabels,
  anchors: [is_anchors, `at most ${kMaxAnchors} pairs [width, height] of numbers above 0`],
};
const kDetectOptions: OptionTable<keyof DetectOptions> = {
  score: [is_number(0, 1), '0 to 1'],
  iou: [is_number(0, 1), '0 to 1'],
  maxDetections: [is_whole(0, kMostDetections), `whole numbers, 0 to ${kMostDetections}`],
  classAgnostic: kFlag,
  multiLabel: kFlag,
  signal: kSignal,
};

/** Refuses anchors of Tiny-YOLOv2, from the option or the bundle, that do not go with its output. */
function check_anchors(anchors: readonly (readonly [number, number])[], { name, shape }: TensorInfo): void {
  const fields = shape[3]! / anchors.length;
  if (anchors.length > 0 && is_anchors(anchors) && Number.isInteger(fields) && fields >= 5) return;
  throw new KilnError(
    'INVALID_ARGUMENT',
    `tiny-yolov2 needs 1 to ${kMaxAnchors} anchors [width, height] of numbers above 0, got ${value_text(anchors)}; output '${name}' [${shape.join(', ')}] has 5 + classes values for each`,
  );
}

/**
 * Finds objects with a YOLO-style model (YOLOv5, v8, 11, YOLOX, end-to-end heads, Tiny-YOLOv2).
 * @example
 * using detector = await Detector.load('yolox_nano.kiln');
 * for (const { box, label, score } of await detector.detect(imageBitmap)) draw(box, `${label} ${score.toFixed(2)}`);
 */
export class Detector {
  readonly model: Model;
  readonly decoder: DecoderName;
  readonly labels: readonly string[];
  /** Milliseconds of the last call's parts. */
  times: StageTimes = { pre_ms: 0, run_ms: 0, post_ms: 0 };

  readonly #stage: VisionStage;
  readonly #output: number;
  readonly #anchors: readonly (readonly [number, number])[];
  readonly #buffer = new Scratch();

  /**
   * @param model a loaded bundle; the detector does not dispose it unless `dispose()` is called
   * @throws KilnError if decoder or preprocessing cannot be told
   */
  constructor(model: Model, options: DetectorOptions = {}) {
    check_model('Detector', model);
    check_options('Detector', options, kDetectorOptions);
    const io = image_io(model);
    const input = image_input(io.input);
    const task = model.metadata['task'] ?? '';
    const chosen = choose_decoder(io.outputs, input.height, input.width, task, options.decoder);
    this.model = model;
    this.decoder = chosen.decoder;
    this.#output = chosen.output;
    this.labels = options.labels ?? (model.metadata['labels'] ?? '').split('\n').filter(Boolean);
    const output = io.outputs[this.#output]!;
    this.#anchors = this.decoder === 'tiny-yolov2' ? (options.anchors ?? anchors_of(model.metadata)) : [];
    if (this.decoder === 'tiny-yolov2') check_anchors(this.#anchors, output);
    check_classes(this.decoder, output, this.labels, options.labels ? 'options' : 'bundle', this.#anchors.length);
    this.#stage = new VisionStage(model, recipe_of(model.metadata, options.preprocess));
  }

  /** Loads a bundle and makes a detector of it. */
  static async load(source: ModelSource, options: LoadOptions & DetectorOptions = {}): Promise<Detector> {
    const make = (model: Model, own: DetectorOptions): Detector => new Detector(model, own);
    return load_as('Detector.load', source, options, kDetectorOptions, make);
  }

  /**
   * Finds objects in one image.
   * @returns detections by falling score
   * @throws KilnError INVALID_ARGUMENT, ABORTED
   */
  async detect(image: ImageSource, options: DetectOptions = {}): Promise<readonly Detection[]> {
    check_options('detect', options, kDetectOptions);
    const { score = 0.25, iou = 0.45, maxDetections: most = 300 } = options;
    const pixels = image_pixels(image);
    const { value, times } = await this.#stage.run(pixels, options.signal, (result) => {
      const { native } = result;
      const request = this.#buffer.reserve(native, kRequestBytes + most * kDetectionBytes, `${most} detections`);
      const boxes = request + kRequestBytes;
      this.#write_request(request, result, score, iou, most, options);
      const count = native.exports.kiln_detect(request, kRequestBytes, boxes, most);
      if (count < 0) throw native.last_error();
      return this.#read(native.view(boxes, count * kDetectionBytes), count);
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

  #write_request(
    request: number,
    { native, handle, placement }: StageResult,
    score: number,
    iou: number,
    most: number,
    options: DetectOptions,
  ): void {
    const view = native.view(request, kRequestBytes);
    const info = this.#stage.io.outputs[this.#output]!;
    const input = image_input(this.#stage.io.input);
    const dims = [...info.shape.slice(0, 4)];
    const ints = [kDecoders.indexOf(this.decoder), native.io_data(handle, 1, this.#output), info.shape.length];
    [...ints, ...dims].forEach((value, i) => view.setInt32(4 * i, value, true));
    for (let i = dims.length; i < 4; ++i) view.setInt32(12 + 4 * i, 0, true);
    view.setInt32(28, input.width, true);
    view.setInt32(32, input.height, true);
    view.setFloat32(36, score, true);
    view.setFloat32(40, iou, true);
    view.setInt32(44, most, true);
    view.setInt32(48, options.classAgnostic ? 1 : 0, true);
    view.setInt32(52, options.multiLabel ? 1 : 0, true);
    view.setInt32(56, this.#anchors.length, true);
    this.#anchors.flat().forEach((value, i) => view.setFloat32(60 + 4 * i, value, true));
    native.bytes(request + 188, kPlacementBytes).set(native.bytes(placement, kPlacementBytes));
  }

  #check_score(score: number): void {
    if (score <= 1 + kRounding) return;
    const { name, shape } = this.#stage.io.outputs[this.#output]!;
    throw new KilnError(
      'INVALID_ARGUMENT',
      `decoder '${this.decoder}' reads a score of ${score} from output '${name}' [${shape.join(', ')}], scores are 0 to 1: another decoder is needed, or the model leaves out its sigmoid`,
    );
  }

  #read(view: DataView, count: number): Detection[] {
    if (count > 0) this.#check_score(view.getFloat32(16, true)); // the highest comes first
    return Array.from({ length: count }, (_, i) => {
      const at = (field: number): number => view.getFloat32(i * kDetectionBytes + 4 * field, true);
      const class_id = view.getInt32(i * kDetectionBytes + 20, true);
      return {
        box: [at(0), at(1), at(2), at(3)] as const,
        score: Math.min(at(4), 1),
        class: class_id,
        label: this.labels[class_id] ?? String(class_id),
      };
    });
  }
}
