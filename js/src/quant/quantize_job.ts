// The stages of one quantisation: each runs the compiler, or a bundle on samples.
import { throw_if_aborted } from '../core/errors.ts';
import type { LongCallOptions, Progress } from '../core/source.ts';
import { compare_models, type Likeness } from './compare.ts';
import { make_evaluator, type Evaluation } from './evaluate.ts';
import { kDefaultCount, type CalibrationMethod, type QuantizationOptions } from './quantize_options.ts';
import { read_compiler_report, type CompilerReport, type RollBackStep } from './report.ts';
import { roll_back } from './roll_back.ts';
import { SampledModel, type RuntimeOptions } from './sampled_model.ts';
import { SampleSet, type Samples } from './samples.ts';
import { collect_statistics, statistics_json } from './statistics.ts';
import { outlier_notices, size_notices } from './warnings.ts';

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

type Attempted = Compiled & { readonly report: CompilerReport; readonly evaluation: Evaluation };

/** Where the roll-back ended: `gave_up` if only float meets the budget. */
interface Settled extends Compiled {
  readonly report: CompilerReport;
  readonly evaluation?: Evaluation;
  readonly nodes: readonly string[];
  readonly steps: readonly RollBackStep[];
  readonly gave_up: boolean;
}

/** The float side of a job: its calibration bundle, loaded, and its plain bundle. */
export interface FloatSide {
  readonly observed: SampledModel;
  readonly bundle: Uint8Array<ArrayBuffer>;
  /** The model's own outputs. */
  readonly outputs: readonly string[];
}

/** One job: its options, its calibration samples, and what it knows of them. */
export class QuantizeJob {
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
      const gave_up = settled === undefined || (nodes.length > 0 && settled.report.int8_macs === 0);
      return { ...(settled ?? first), nodes, steps, gave_up };
    } finally {
      evaluator.dispose();
    }
  }
}
