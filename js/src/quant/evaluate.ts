// How far the int8 model as a whole is from the float model, as one number: the loss that an accuracy budget bounds.
import { KilnError } from '../core/errors.ts';
import { num_elements } from '../core/tensor.ts';
import { Detector, type Detection } from '../vision/detector.ts';
import { SampledModel, type RuntimeOptions } from './sampled_model.ts';
import { picture_of, type SampleSet } from './samples.ts';
import { LikenessSums } from './compare.ts';

/** What a loss counts. */
export type LossMetric = 'top-1 accuracy' | 'top-1 agreement' | 'detections' | 'cosine';

/** The int8 model against the float model on the evaluation samples. */
export interface Evaluation {
  /**
   * 'top-1 accuracy': points of accuracy lost, where labels are known. 'top-1 agreement': per cent of samples with another
   * likeliest class. 'detections': 100 (1 - F1) of the int8 boxes against the float ones, of the same class, IoU >= 0.5,
   * score >= 0.25. 'cosine': 100 (1 - cosine similarity) of the output that is worst.
   */
  readonly metric: LossMetric;
  readonly samples: number;
  readonly loss: number;
  /** Top-1 accuracy in per cent, where labels are known. */
  readonly float_accuracy?: number;
  readonly accuracy?: number;
}

/** What an evaluation goes through and how. */
export interface EvaluationSetup {
  readonly set: SampleSet;
  /** Class index, or name as in the bundle's labels, of each sample. */
  readonly labels: readonly (number | string)[] | undefined;
  readonly runtime: RuntimeOptions;
  readonly signal: AbortSignal | undefined;
  readonly on_sample: (done: number, total: number) => void;
}

/** Evaluates int8 bundles against one float bundle. Dispose it. */
export interface Evaluator {
  readonly evaluate: (bundle: Uint8Array) => Promise<Evaluation>;
  readonly dispose: () => void;
}

const kScore = 0.25;
const kIou = 0.5;

type Box = Detection['box'];

function box_iou(a: Box, b: Box): number {
  const width = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  const height = Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const area = ([x1, y1, x2, y2]: Box): number => (x2 - x1) * (y2 - y1);
  const union = area(a) + area(b) - width * height;
  return union > 0 ? (width * height) / union : 0;
}

type Found = Pick<Detection, 'box' | 'class'>;

/** Pairs of detections of the same class with an IoU of at least 0.5, each in one pair; `found` by falling score. */
export function count_matches(found: readonly Found[], wanted: readonly Found[]): number {
  const left = [...wanted];
  let matches = 0;
  for (const one of found) {
    let best = -1;
    let best_iou = kIou;
    left.forEach((other, i) => {
      const iou = other.class === one.class ? box_iou(one.box, other.box) : 0;
      if (iou >= best_iou) [best, best_iou] = [i, iou];
    });
    if (best < 0) continue;
    left.splice(best, 1);
    ++matches;
  }
  return matches;
}

async function detections_of(bundle: Uint8Array, setup: EvaluationSetup): Promise<readonly (readonly Detection[])[]> {
  const { set, runtime, signal, on_sample } = setup;
  using detector = await Detector.load(bundle, { simd: 'simd', ...runtime, signal });
  const all: (readonly Detection[])[] = [];
  for await (const sample of set.pass()) {
    const picture = picture_of(sample);
    if (!picture) {
      const text = `evaluate: sample ${all.length + 1} is no picture, others are; a detector's samples must all be pictures, or none`;
      throw new KilnError('INVALID_ARGUMENT', text);
    }
    all.push(await detector.detect(picture, { score: kScore, signal }));
    on_sample(all.length, set.length ?? 0);
  }
  return all;
}

async function detection_evaluator(float: Uint8Array, setup: EvaluationSetup): Promise<Evaluator> {
  const wanted = await detections_of(float, setup);
  const evaluate = async (bundle: Uint8Array): Promise<Evaluation> => {
    const found = await detections_of(bundle, setup);
    let boxes = 0;
    let matches = 0;
    found.forEach((own, i) => {
      boxes += own.length + (wanted[i]?.length ?? 0);
      matches += count_matches(own, wanted[i] ?? []);
    });
    const f1 = boxes === 0 ? 1 : (2 * matches) / boxes;
    return { metric: 'detections', samples: found.length, loss: 100 * (1 - f1) };
  };
  return { evaluate, dispose: () => {} };
}

/** Index of the largest; the first of equals. */
function arg_max(values: Float32Array): number {
  let best = 0;
  for (let i = 1; i < values.length; ++i) if (values[i]! > values[best]!) best = i;
  return best;
}

const is_score_row = (shape: readonly number[]): boolean =>
  num_elements(shape) > 1 && shape.filter((dim) => dim !== 1).length === 1;

/** Name of the output with class scores of a classifier, by its task or an output of rank 2; undefined for other models. */
function score_output({ model }: SampledModel): string | undefined {
  const is_classifier = model.metadata['task'] === 'classify';
  const fits = model.outputs.find(
    ({ dtype, shape }) => dtype === 'f32' && is_score_row(shape) && (is_classifier || shape.length === 2),
  );
  return fits?.name;
}

async function top_1(
  bundle: Uint8Array,
  output: string,
  { set, runtime, signal, on_sample }: EvaluationSetup,
): Promise<readonly number[]> {
  using model = await SampledModel.load(bundle, runtime, signal);
  const classes: number[] = [];
  for await (const sample of set.pass()) {
    await model.run(sample, signal);
    classes.push(arg_max(model.values().find(({ name }) => name === output)!.data));
    on_sample(classes.length, set.length ?? 0);
  }
  return classes;
}

/** Labels as class indices. */
function label_indices(labels: readonly (number | string)[], samples: number, names: readonly string[]): number[] {
  if (labels.length !== samples) {
    const text = `evaluateLabels has ${labels.length} entries, the evaluation set ${samples} samples; needed: one a sample`;
    throw new KilnError('INVALID_ARGUMENT', text);
  }
  return labels.map((label) => {
    const index = typeof label === 'number' ? label : names.indexOf(label);
    if (index >= 0) return index;
    throw new KilnError(
      'INVALID_ARGUMENT',
      `evaluateLabels: '${label}' is none of the bundle's ${names.length} labels`,
    );
  });
}

async function class_evaluator(
  float: Uint8Array,
  output: string,
  names: readonly string[],
  setup: EvaluationSetup,
): Promise<Evaluator> {
  const wanted = await top_1(float, output, setup);
  const labels = setup.labels && label_indices(setup.labels, wanted.length, names);
  const share = (classes: readonly number[], of: readonly number[]): number =>
    (100 * classes.filter((own, i) => own === of[i]).length) / classes.length;
  const evaluate = async (bundle: Uint8Array): Promise<Evaluation> => {
    const classes = await top_1(bundle, output, setup);
    const samples = classes.length;
    if (!labels) return { metric: 'top-1 agreement', samples, loss: 100 - share(classes, wanted) };
    const [float_accuracy, accuracy] = [share(wanted, labels), share(classes, labels)];
    return { metric: 'top-1 accuracy', samples, loss: float_accuracy - accuracy, float_accuracy, accuracy };
  };
  return { evaluate, dispose: () => {} };
}

function cosine_evaluator(float: SampledModel, { set, runtime, signal, on_sample }: EvaluationSetup): Evaluator {
  const evaluate = async (bundle: Uint8Array): Promise<Evaluation> => {
    using own = await SampledModel.load(bundle, runtime, signal);
    const sums = new Map(float.model.outputs.map(({ name }) => [name, new LikenessSums()]));
    let samples = 0;
    for await (const sample of set.pass()) {
      await float.run(sample, signal);
      await own.run(sample, signal);
      const wanted = new Map(float.values().map(({ name, data }) => [name, data]));
      for (const { name, data } of own.values()) sums.get(name)!.add(wanted.get(name)!, data);
      on_sample(++samples, set.length ?? 0);
    }
    const worst = Math.min(...[...sums.values()].map(({ likeness }) => likeness.cosine));
    return { metric: 'cosine', samples, loss: 100 * (1 - worst) };
  };
  return { evaluate, dispose: () => float.dispose() };
}

/** The evaluator that fits the float bundle's task and the samples; it has gone through them once where it can. */
export async function make_evaluator(float: Uint8Array, setup: EvaluationSetup): Promise<Evaluator> {
  const model = await SampledModel.load(float, setup.runtime, setup.signal);
  try {
    const { metadata } = model.model;
    if (metadata['task']?.startsWith('detect') && (await has_pictures(setup.set))) {
      model.dispose();
      return await detection_evaluator(float, setup);
    }
    const output = score_output(model);
    if (output === undefined) return cosine_evaluator(model, setup);
    model.dispose();
    return await class_evaluator(float, output, (metadata['labels'] ?? '').split('\n'), setup);
  } catch (error) {
    model.dispose();
    throw error;
  }
}

async function has_pictures(set: SampleSet): Promise<boolean> {
  for await (const sample of set.pass()) return picture_of(sample) !== undefined;
  return false;
}
