// Options of quantisation: what they are, and which go together.
import { KilnError } from '../core/errors.ts';
import { kLoadOptions } from '../core/model.ts';
import {
  check_options,
  is_list,
  is_number,
  is_object,
  is_one_of,
  is_text,
  is_whole,
  kAny,
  kFlag,
  kFunction,
  type OptionTable,
} from '../core/options.ts';
import type { QuantizationReport } from './report.ts';
import type { RuntimeOptions } from './sampled_model.ts';
import { is_samples, type Samples } from './samples.ts';

/** How ranges are chosen; see docs/quantisation.md. */
export type CalibrationMethod = 'search' | 'minmax' | 'percentile' | 'entropy' | 'mse';

export const kMethods: readonly CalibrationMethod[] = ['search', 'minmax', 'percentile', 'entropy', 'mse'];
/** How many calibration samples are taken by default. */
export const kDefaultCount = 1024;
/** Most calibration samples. */
export const kMostSamples = 1_000_000;

/** How `compile` quantises, with `precision: 'int8'`. */
export interface QuantizationOptions {
  /** Most calibration samples: of an array or Tensor evenly spread, of others the first. Default 1024. */
  readonly count?: number | undefined;
  /** Default 'search'. */
  readonly method?: CalibrationMethod | undefined;
  /** Nodes of the ONNX graph that stay float. */
  readonly keepFloat?: readonly string[] | undefined;
  /** Quantise detection heads too, which stay float by default. */
  readonly quantizeHead?: boolean | undefined;
  /** What the int8 model is compared with float on: samples that it was not calibrated on. */
  readonly evaluate?: Samples | undefined;
  /** Of a classifier: the class of each sample of `evaluate`, an index or one of the bundle's labels. */
  readonly evaluateLabels?: readonly (number | string)[] | undefined;
  /** Largest loss on `evaluate`, in per cent or points: layers go back to float until it is met. */
  readonly accuracyBudget?: number | undefined;
  /** How samples are run: `simd`, `threads`, `tile`, `wasm` of `load`; plain SIMD by default, for the same bundle everywhere. */
  readonly runtime?: RuntimeOptions | undefined;
  /** Receives the report before `compile` settles. */
  readonly onReport?: ((report: QuantizationReport) => void) | undefined;
}

const is_label = (value: unknown): boolean => is_text(value) || is_whole(0, 1e9)(value);

const kQuantizationOptions: OptionTable<keyof QuantizationOptions> = {
  count: [is_whole(1, kMostSamples), `a whole number, 1 to ${kMostSamples}`],
  method: [is_one_of(...kMethods), kMethods.join(', ')],
  keepFloat: [is_list(is_text), 'an array of node names'],
  quantizeHead: kFlag,
  evaluate: [
    is_samples,
    'an array of images or tensors, another (async) iterable, a Tensor, or a function that gives one',
  ],
  evaluateLabels: [is_list(is_label), 'an array of class indices or labels'],
  accuracyBudget: [is_number(0, 100), 'a number, 0 to 100'],
  runtime: [is_object, 'an object with simd, threads, tile, wasm'],
  onReport: kFunction,
};
const { simd, threads, tile } = kLoadOptions;
export const kRuntimeOptions: OptionTable<keyof RuntimeOptions> = { simd, threads, tile, wasm: kAny };

/** Refuses quantisation options that do not go together. `prefix` is whose options they are. */
export function check_quantization(prefix: string, options: QuantizationOptions): void {
  check_options(prefix, options, kQuantizationOptions);
  if (options.runtime) check_options(`${prefix}: runtime`, options.runtime, kRuntimeOptions);
  const refuse = (why: string): never => {
    throw new KilnError('INVALID_ARGUMENT', `${prefix}: ${why}`);
  };
  const needs = (key: 'accuracyBudget' | 'evaluateLabels'): void => {
    if (options[key] !== undefined && options.evaluate === undefined)
      refuse(`${key} needs evaluate: samples that the int8 model is compared with float on`);
  };
  needs('accuracyBudget');
  needs('evaluateLabels');
  const broken = options.keepFloat?.find((name) => name === '' || name.includes(','));
  if (broken !== undefined)
    refuse(`keepFloat has the node name '${broken}'; allowed: names without a comma, not empty`);
}
