// compile(): ONNX bytes to bundle bytes through compiler.wasm.
import { artefact_module, type WasmSource } from '../core/artefact.ts';
import { KilnError, throw_if_aborted } from '../core/errors.ts';
import {
  check_options,
  is_list,
  is_number,
  is_object,
  is_text,
  is_whole,
  kAny,
  kFlag,
  kFunction,
  kLabels,
  type Check,
  type OptionTable,
} from '../core/options.ts';
import { kLongCallOptions, read_source, source_name, type LongCallOptions, type ModelSource } from '../core/source.ts';
import { Tensor } from '../core/tensor.ts';
import { write_npy } from '../core/npy.ts';
import { quantize } from '../quant/quantize.ts';
import type { Compiled, CompileWith } from '../quant/quantize_job.ts';
import { check_quantization, type QuantizationOptions } from '../quant/quantize_options.ts';
import { is_samples, type Samples } from '../quant/samples.ts';
import { run_compiler, type NamedFiles } from './run_compiler.ts';

/** Options of `compile`, each the flag of the same name of `tilekiln compile`. */
export interface CompileOptions extends LongCallOptions {
  /** One string a profile: 'images:1,3,640,640'. */
  readonly inputShape?: string | readonly string[] | undefined;
  /** Batch sizes that replace a -1 batch: [1, 4, 8]. */
  readonly dynamicBatch?: readonly number[] | undefined;
  /** [height, width] pairs that replace -1 image sizes. */
  readonly dynamicSize?: readonly (readonly [number, number])[] | undefined;
  readonly inputLayout?: 'NCHW' | 'NHWC' | undefined;
  readonly outputLayout?: 'NCHW' | 'NHWC' | undefined;
  /** Class names, by index. */
  readonly labels?: readonly string[] | undefined;
  /** 'detect:yolox', 'detect:yolov8', 'classify', … */
  readonly task?: string | undefined;
  /** A preset ('ultralytics', 'yolox', 'torchvision', 'keras', 'raw') or a recipe. */
  readonly preprocess?: string | Readonly<Record<string, unknown>> | undefined;
  /** Default 'fp32'. 'int8' needs `calibration`. */
  readonly precision?: 'fp32' | 'int8' | undefined;
  /** int8: images or tensors that show what the model will see, some hundred. */
  readonly calibration?: Samples | undefined;
  /** int8: how to quantise. */
  readonly quantization?: QuantizationOptions | undefined;
  /** 'fp16' stores weights as halves, expanded at load: half the file, computed in f32. Default 'fp32'. */
  readonly weights?: 'fp32' | 'fp16' | undefined;
  /**
   * Channels whose largest |weight| is at most so many times their layer's largest are removed, with all that only serves
   * them. 0 to below 1; default 0: those whose weights are all zero, which changes no output.
   */
  readonly pruneThreshold?: number | undefined;
  /** Quantised models: bit-equal to the float definition of their QuantizeLinear and DequantizeLinear nodes, and slower. */
  readonly exact?: boolean | undefined;
  /**
   * Weights that are transformed at load, for faster convolutions, may take so many times the weights' bytes of memory.
   * 0 to 100; default 1.
   */
  readonly preparedBudget?: number | undefined;
  /** Graph inputs that become constants. */
  readonly bind?: Readonly<Record<string, Tensor>> | undefined;
  /** External data files of the model, by the name that the model gives them. */
  readonly files?: NamedFiles | undefined;
  /** compiler.wasm, if it does not lie beside the package. */
  readonly wasm?: WasmSource | undefined;
  /** Receives each notice ("batch was not set: 1 is used"); default: none are shown. */
  readonly onNotice?: ((notice: string) => void) | undefined;
}

const is_each =
  (check: Check): Check =>
  (v) =>
    is_object(v) && Object.values(v as object).every(check);
const is_size = is_whole(1, 65536);
const is_bytes: Check = (v) => Object.prototype.toString.call(v) === '[object Uint8Array]'; // of any realm
const kText = [is_text, 'a text'] as const;

const kCompileOptions: OptionTable<keyof CompileOptions> = {
  inputShape: [(v) => is_text(v) || is_list(is_text)(v), "a text like 'images:1,3,640,640', or an array of them"],
  dynamicBatch: [is_list(is_size), 'an array of whole numbers, 1 to 65536'],
  dynamicSize: [
    is_list((v) => is_list(is_size)(v) && (v as unknown[]).length === 2),
    'an array of pairs [height, width], each 1 to 65536',
  ],
  inputLayout: kText,
  outputLayout: kText,
  labels: kLabels,
  task: kText,
  preprocess: [(v) => is_text(v) || is_object(v), 'the name of a preset, or a recipe'],
  precision: kText,
  calibration: [
    is_samples,
    'an array of images or tensors, another (async) iterable, a Tensor, or a function that gives one',
  ],
  quantization: [is_object, 'an object'],
  weights: kText,
  pruneThreshold: [is_number(0, 1), 'a number, 0 to below 1'],
  exact: kFlag,
  preparedBudget: [is_number(0, 100), 'a number, 0 to 100'],
  bind: [is_each((v) => v instanceof Tensor), 'an object with Tensors by name'],
  files: [is_each(is_bytes), 'an object with Uint8Arrays by name'],
  wasm: kAny,
  onNotice: kFunction,
  ...kLongCallOptions,
};

const kModelFile = 'model.onnx';
const kBundleFile = 'model.kiln';
const kNotice = 'notice: ';
// Names that no external data file of a model has.
const kLabelsFile = 'option:labels';
const kPreprocessFile = 'option:preprocess';
const kBindFile = 'option:bind';

function recipe_json(recipe: object): string {
  try {
    return JSON.stringify(recipe);
  } catch (error) {
    throw new KilnError('INVALID_ARGUMENT', `preprocess is no JSON: ${(error as Error).message}`, { cause: error });
  }
}

function command_line(options: CompileOptions, files: Record<string, Uint8Array>): string[] {
  const args = ['compile', kModelFile, '-o', kBundleFile];
  const shapes =
    options.inputShape === undefined
      ? []
      : typeof options.inputShape === 'string'
        ? [options.inputShape]
        : options.inputShape;
  for (const shape of shapes) args.push('--input-shape', shape);
  if (options.dynamicBatch) args.push('--dynamic-batch', options.dynamicBatch.join(','));
  if (options.dynamicSize) args.push('--dynamic-size', options.dynamicSize.map(([h, w]) => `${h},${w}`).join(';'));
  if (options.inputLayout !== undefined) args.push('--input-layout', options.inputLayout);
  if (options.outputLayout !== undefined) args.push('--output-layout', options.outputLayout);
  if (options.precision !== undefined) args.push('--precision', options.precision);
  if (options.weights !== undefined) args.push('--weights', options.weights);
  if (options.pruneThreshold !== undefined) args.push('--prune-threshold', String(options.pruneThreshold));
  if (options.exact) args.push('--exact');
  if (options.preparedBudget !== undefined) args.push('--prepared-budget', String(options.preparedBudget));
  if (options.task !== undefined) args.push('--task', options.task);
  const encoder = new TextEncoder();
  if (options.labels) {
    const broken = options.labels.find((label) => /[\r\n\0]/.test(label));
    if (broken !== undefined) {
      const what = broken.includes('\0') ? 'zero character' : 'line break';
      throw new KilnError('INVALID_ARGUMENT', `label ${JSON.stringify(broken)} has a ${what}`);
    }
    files[kLabelsFile] = encoder.encode(options.labels.join('\n') + '\n');
    args.push('--labels', kLabelsFile);
  }
  if (typeof options.preprocess === 'string') args.push('--preprocess', options.preprocess);
  else if (options.preprocess) {
    files[kPreprocessFile] = encoder.encode(recipe_json(options.preprocess));
    args.push('--preprocess', kPreprocessFile);
  }
  Object.entries(options.bind ?? {}).forEach(([name, tensor], index) => {
    files[`${kBindFile}${index}`] = write_npy(tensor);
    args.push('--bind', `${name}=${kBindFile}${index}`);
  });
  return args;
}

/** An error of the command line in the words of the options. */
function plain_error(line: string): string {
  return line
    .replace(/^error: (model\.onnx: )?/, '')
    .replace(/^--(labels|preprocess) option:\1/, '$1')
    .replace(/^--bind (.*)=option:bind\d+/, "bind '$1'");
}

// What one compilation of a model needs besides its command line.
interface CompilerInput {
  readonly source: ModelSource;
  readonly model: Uint8Array;
  readonly options: CompileOptions;
  readonly wasm: WasmSource | undefined;
}

/** Runs a `compile` command; throws what the compiler complains of. */
async function run_compile(
  { source, model, options, wasm }: CompilerInput,
  line: readonly string[],
  files: NamedFiles,
): Promise<Compiled> {
  const job = await run_compiler(line, { ...options.files, ...files, [kModelFile]: model }, wasm);
  throw_if_aborted(options.signal);
  const lines = job.stderr.split('\n').filter(Boolean);
  const notices = lines.filter((line) => line.startsWith(kNotice)).map((line) => line.slice(kNotice.length));
  if (job.exit_code !== 0) {
    const first = job.problems[0];
    const errors = lines.filter((line) => !line.startsWith(kNotice));
    const summary = errors.map(plain_error).join('\n') || 'compiling failed';
    throw new KilnError(first?.code ?? 'INVALID_ARGUMENT', `${source_name(source)}: ${summary}`, {
      node: first?.node ?? '',
      problems: job.problems,
    });
  }
  const bundle = job.result(kBundleFile);
  if (!bundle) throw new KilnError('INTERNAL', 'the compiler gave no bundle');
  return { bundle, notices, file: job.result };
}

/** Refuses calibration without int8, and the other way round. */
function check_precision({ precision, calibration, quantization }: CompileOptions): void {
  const refuse = (why: string): never => {
    throw new KilnError('INVALID_ARGUMENT', `compile: ${why}`);
  };
  if (precision === 'int8') {
    if (calibration === undefined)
      refuse("precision 'int8' needs calibration: some hundred images or tensors that show what the model will see");
    if (quantization) check_quantization('compile: quantization', quantization);
  } else if (calibration !== undefined || quantization !== undefined) {
    refuse(`${calibration === undefined ? 'quantization' : 'calibration'} goes with precision: 'int8' only`);
  }
}

/** Post-training quantisation around the compilations that it needs. */
async function compile_int8(input: CompilerInput): Promise<Uint8Array<ArrayBuffer>> {
  const { options } = input;
  const compile_with: CompileWith = ({ precision, flags, files, single }) => {
    const own: Record<string, Uint8Array> = { ...files };
    const dynamicBatch = options.dynamicBatch && single ? [1] : options.dynamicBatch;
    const is_int8 = precision === 'int8';
    const weights = is_int8 ? options.weights : undefined;
    const exact = is_int8 ? options.exact : undefined;
    const line = command_line({ ...options, dynamicBatch, weights, exact, precision: undefined }, own);
    return run_compile(input, [...line, ...flags], own);
  };
  return quantize(compile_with, options.calibration!, options.quantization ?? {}, options);
}

/**
 * Compiles an ONNX model to a bundle, in Node or in the page. With `precision: 'int8'` it is quantised: see
 * docs/quantisation.md.
 * @param source the model: URL or path string, URL, Response, Blob, ArrayBuffer, Uint8Array
 * @returns the bundle's bytes, for `load` or to keep as a `.kiln` file; the same bytes as the native compiler makes
 * @throws KilnError with every problem in `problems`
 * @example
 * const bundle = await compile('yolox_nano.onnx', { task: 'detect:yolox', preprocess: 'yolox' });
 * const model = await load(bundle);
 */
export async function compile(source: ModelSource, options: CompileOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
  check_options('compile', options, kCompileOptions);
  check_precision(options);
  const model = await read_source(source, options);
  options.onProgress?.({ stage: 'compile', loaded: 0, total: 1 });
  const wasm =
    typeof Response !== 'undefined' && options.wasm instanceof Response
      ? await artefact_module('compiler.wasm', options.wasm)
      : options.wasm;
  const input = { source, model, options, wasm };
  let bundle: Uint8Array<ArrayBuffer>;
  if (options.precision === 'int8') {
    bundle = await compile_int8(input);
  } else {
    const files: Record<string, Uint8Array> = {};
    const compiled = await run_compile(input, command_line(options, files), files);
    compiled.notices.forEach((notice) => options.onNotice?.(notice));
    bundle = compiled.bundle;
  }
  options.onProgress?.({ stage: 'compile', loaded: 1, total: 1 });
  return bundle;
}
