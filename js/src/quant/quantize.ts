// The driver of post-training quantisation: calibrate, compile to int8, compare, evaluate, roll back, report.
import { artefact_module } from '../core/artefact.ts';
import { KilnError, throw_if_aborted } from '../core/errors.ts';
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
  pick_options,
  type OptionTable,
} from '../core/options.ts';
import type { LongCallOptions, Progress } from '../core/source.ts';
import { compare_models, type Likeness } from './compare.ts';
import { make_evaluator, type Evaluation } from './evaluate.ts';
import { read_compiler_report, type CompilerReport, type QuantizationReport, type RollBackStep } from './report.ts';
import { roll_back } from './roll_back.ts';
import { SampledModel, type RuntimeOptions } from './sampled_model.ts';
import { is_samples, SampleSet, type Samples } from './samples.ts';
import { collect_statistics, statistics_json } from './statistics.ts';
import { outlier_notices, size_notices } from './warnings.ts';

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

export const kQuantizationOptions: OptionTable<keyof QuantizationOptions> = {
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
const kRuntimeOptions: OptionTable<keyof RuntimeOptions> = { simd, threads, tile, wasm: kAny };

/** What one run of the compiler gave. */
export interface Compiled {
  readonly bundle: Uint8Array<ArrayBuffer>;
  readonly notices: readonly string[];
  /** Bytes of a file that it wrote. */
  readonly file: (name: string) => Uint8Array | undefined;
}

/** One run of the compiler on the caller's model. */
export interface CompileRequest {
  readonly precision: 'float' | 'int8';
  /** Flags beside those that the caller wants in every bundle. */
  readonly flags: readonly string[];
  readonly files: Readonly<Record<string, Uint8Array>>;
  /** Profiles of batch 1 only: samples come one by one. */
  readonly single: boolean;
}

/** Runs the compiler; throws if the model does not compile. */
export type CompileWith = (request: CompileRequest) => Promise<Compiled>;

const kStatsFile = 'option:calib-stats';
const kReportFile = 'option:quant-report';

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

/** The float side of a job: its calibration bundle, loaded, and its plain bundle. */
interface FloatSide {
  readonly observed: SampledModel;
  readonly bundle: Uint8Array<ArrayBuffer>;
  /** The model's own outputs. */
  readonly outputs: readonly string[];
}

/** One job's options and what it knows: each method is a stage. */
class Job {
  readonly #compile: CompileWith;
  readonly #options: QuantizationOptions;
  readonly #call: LongCallOptions;
  readonly #set: SampleSet;
  readonly #runtime: RuntimeOptions;
  #stats = new Uint8Array();

  constructor(
    compile: CompileWith,
    calibration: Samples,
    options: QuantizationOptions,
    call: LongCallOptions,
    runtime: RuntimeOptions,
  ) {
    this.#compile = compile;
    this.#options = options;
    this.#call = call;
    this.#runtime = runtime;
    this.#set = new SampleSet('calibration', calibration, options.count ?? kDefaultCount);
  }

  get method(): CalibrationMethod {
    return this.#options.method ?? 'search';
  }

  #progress(stage: Progress['stage']): (loaded: number, total: number) => void {
    return (loaded, total) => {
      throw_if_aborted(this.#call.signal);
      this.#call.onProgress?.({ stage, loaded, total });
    };
  }

  async float_side(): Promise<FloatSide> {
    const plain = { precision: 'float', flags: [], files: {}, single: false } as const;
    const { bundle } = await this.#compile(plain);
    throw_if_aborted(this.#call.signal);
    using model = await SampledModel.load(bundle, { ...this.#runtime, threads: 1 }, this.#call.signal);
    const outputs = model.model.outputs.map(({ name }) => name);
    const observe = await this.#compile({ ...plain, flags: ['--observe'], single: true });
    return { bundle, outputs, observed: await SampledModel.load(observe.bundle, this.#runtime, this.#call.signal) };
  }

  /** The statistics that all int8 compilations read, and what is wrong with the set. */
  async calibrate({ observed }: FloatSide): Promise<{ readonly samples: number; readonly notices: readonly string[] }> {
    const statistics = await collect_statistics(observed, this.#set, this.#call.signal, this.#progress('calibrate'));
    this.#stats = new TextEncoder().encode(statistics_json(statistics));
    const { samples } = statistics;
    return { samples, notices: [...size_notices(samples), ...outlier_notices(statistics, this.method)] };
  }

  async compile_int8(nodes: readonly string[], observe = false): Promise<Compiled & { report: CompilerReport }> {
    throw_if_aborted(this.#call.signal);
    const keep_float = [...(this.#options.keepFloat ?? []), ...nodes];
    const flags = ['--precision', 'int8', '--calib-stats', kStatsFile, '--calib-method', this.method];
    if (keep_float.length > 0) flags.push('--keep-float', keep_float.join(','));
    if (this.#options.quantizeHead) flags.push('--quantize-head');
    if (observe) flags.push('--observe');
    flags.push('--quant-report', kReportFile);
    const files = { [kStatsFile]: this.#stats };
    const compiled = await this.#compile({ precision: 'int8', flags, files, single: observe });
    return { ...compiled, report: read_compiler_report(compiled.file(kReportFile)) };
  }

  /** Likeness of each value and output of the int8 model to the float one's on the calibration set. */
  async compare({ observed }: FloatSide, nodes: readonly string[]): Promise<ReadonlyMap<string, Likeness>> {
    const { bundle } = await this.compile_int8(nodes, true);
    using own = await SampledModel.load(bundle, this.#runtime, this.#call.signal);
    return await compare_models(observed, own, this.#set, this.#call.signal, this.#progress('compare'));
  }

  /** The int8 bundle, evaluated if there is something to evaluate on, and rolled back until it meets the budget. */
  async settle(float: FloatSide): Promise<Settled> {
    const { evaluate, evaluateLabels, accuracyBudget } = this.#options;
    if (evaluate === undefined) return { ...(await this.compile_int8([])), nodes: [], steps: [], gave_up: false };
    const evaluator = await make_evaluator(float.bundle, {
      set: new SampleSet('evaluate', evaluate, Infinity),
      labels: evaluateLabels,
      runtime: this.#runtime,
      signal: this.#call.signal,
      on_sample: this.#progress('evaluate'),
    });
    try {
      const attempt = async (nodes: readonly string[]): Promise<Attempted> => {
        const compiled = await this.compile_int8(nodes);
        return { ...compiled, evaluation: await evaluator.evaluate(compiled.bundle) };
      };
      const first = await attempt([]);
      if (accuracyBudget === undefined) return { ...first, nodes: [], steps: [], gave_up: false };
      const compare = (nodes: readonly string[]): Promise<ReadonlyMap<string, Likeness>> => this.compare(float, nodes);
      const { attempt: settled, nodes, steps } = await roll_back(first, accuracyBudget, { attempt, compare });
      const gave_up = settled === undefined || settled.report.int8_macs === 0;
      return { ...(settled ?? first), nodes, steps, gave_up };
    } finally {
      evaluator.dispose();
    }
  }
}

type Attempted = Compiled & { readonly report: CompilerReport; readonly evaluation: Evaluation };

/** Where the roll-back ended: `gave_up` if only float meets the budget. */
interface Settled extends Compiled {
  readonly report: CompilerReport;
  readonly evaluation?: Evaluation;
  readonly nodes: readonly string[];
  readonly steps: readonly RollBackStep[];
  readonly gave_up: boolean;
}

/** What an evaluation says of float itself. */
function of_float(evaluation: Evaluation): Evaluation {
  const { float_accuracy } = evaluation;
  return { ...evaluation, loss: 0, ...(float_accuracy === undefined ? {} : { accuracy: float_accuracy }) };
}

/** Layers as they are where all is float. */
function all_float(layers: CompilerReport['layers']): CompilerReport['layers'] {
  return layers.map((layer) =>
    layer.precision === 'float' ? layer : { ...layer, precision: 'float', reason: 'budget' },
  );
}

/** Who hears of the job, and what is known of the samples beforehand. */
export interface QuantizeCall extends LongCallOptions {
  readonly onNotice?: ((notice: string) => void) | undefined;
  readonly sample_notices?: readonly string[];
}

/**
 * Quantises a model that `compile` compiles.
 * @param calibration samples that show what the model will see
 * @returns the int8 bundle, or the float bundle if the accuracy budget leaves nothing else
 */
export async function quantize(
  compile: CompileWith,
  calibration: Samples,
  options: QuantizationOptions,
  call: QuantizeCall,
): Promise<Uint8Array<ArrayBuffer>> {
  // A Response can be read once only, and bundles are loaded many times.
  const given = pick_options<RuntimeOptions>(options.runtime ?? {}, kRuntimeOptions);
  const runtime: RuntimeOptions = {
    simd: given.simd ?? 'simd',
    threads: given.threads,
    tile: given.tile,
    wasm: given.wasm === undefined ? undefined : await artefact_module('kiln-simd.wasm', given.wasm),
  };
  const job = new Job(compile, calibration, options, call, runtime);
  const float = await job.float_side();
  try {
    const calibrated = await job.calibrate(float);
    const settled = await job.settle(float);
    const likeness: ReadonlyMap<string, Likeness> = settled.gave_up
      ? new Map()
      : await job.compare(float, settled.nodes);
    const { report, gave_up, evaluation } = settled;
    const bundle = gave_up ? float.bundle : settled.bundle;
    const budget = options.accuracyBudget;
    const notices = [...calibrated.notices, ...(call.sample_notices ?? []), ...settled.notices, ...report.notices];
    if (gave_up) {
      notices.push(
        `int8 cannot meet the accuracy budget of ${budget}: the bundle is float; raise the budget, give more calibration samples, or train with quantisation (QAT)`,
      );
    }
    const outputs = float.outputs.filter((name) => likeness.has(name));
    const result: QuantizationReport = {
      version: 1,
      precision: gave_up ? 'float' : 'int8',
      method: job.method,
      samples: calibrated.samples,
      macs: report.macs,
      int8_macs: gave_up ? 0 : report.int8_macs,
      int8_share: gave_up || report.macs === 0 ? 0 : report.int8_macs / report.macs,
      head: report.head,
      head_macs: report.head_macs,
      layers: (gave_up ? all_float(report.layers) : report.layers).map((layer) => ({
        ...layer,
        ...likeness.get(layer.output),
      })),
      outputs: outputs.map((name) => ({ name, ...likeness.get(name)! })),
      bundle_bytes: bundle.length,
      float_bundle_bytes: float.bundle.length,
      ...(evaluation === undefined ? {} : { evaluation: gave_up ? of_float(evaluation) : evaluation }),
      ...(budget === undefined ? {} : { accuracy_budget: budget }),
      roll_back: settled.steps,
      notices: [...new Set(notices)],
    };
    result.notices.forEach((notice) => call.onNotice?.(notice));
    options.onReport?.(result);
    return bundle;
  } finally {
    float.observed.dispose();
  }
}
