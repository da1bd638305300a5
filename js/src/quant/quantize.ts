// The driver of post-training quantisation: calibrate, compile to int8, evaluate, roll back, compare, report.
import { artefact_module } from '../core/artefact.ts';
import { pick_options } from '../core/options.ts';
import type { LongCallOptions } from '../core/source.ts';
import type { Likeness } from './compare.ts';
import type { Evaluation } from './evaluate.ts';
import { QuantizeJob, type CompileWith } from './quantize_job.ts';
import { kRuntimeOptions, type QuantizationOptions } from './quantize_options.ts';
import type { CompilerReport, QuantizationReport } from './report.ts';
import type { RuntimeOptions } from './sampled_model.ts';
import type { Samples } from './samples.ts';

/** What an evaluation says of float itself. */
function of_float(evaluation: Evaluation): Evaluation {
  const { float_accuracy } = evaluation;
  return { ...evaluation, loss: 0, ...(float_accuracy === undefined ? {} : { accuracy: float_accuracy }) };
}

/** Layers as they are where all is float. */
function all_float(layers: CompilerReport['layers']): CompilerReport['layers'] {
  return layers.map((layer) =>
    layer.precision === 'float' ? layer : { ...layer, precision: 'float', reason: 'roll-back' },
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
  const job = new QuantizeJob(compile, calibration, options, call, runtime);
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
    const rolled_back = new Set(gave_up ? [] : settled.nodes);
    const notices = [...calibrated.notices, ...(call.sample_notices ?? []), ...settled.notices, ...report.notices];
    if (!gave_up && report.int8_macs === 0) {
      notices.push('no convolution or product runs in int8: the report says why of each');
    }
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
        ...(rolled_back.has(layer.name) ? { reason: 'roll-back' } : {}),
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
