// compile(): ONNX bytes to bundle bytes through compiler.wasm.
import { artefact_module, instantiate, type WasmSource } from '../core/artefact.ts';
import { KilnError, throw_if_aborted, type Problem } from '../core/errors.ts';
import {
  check_options,
  is_list,
  is_number,
  is_object,
  is_text,
  is_whole,
  kAny,
  kFunction,
  kLabels,
  type Check,
  type OptionTable,
} from '../core/options.ts';
import { kLongCallOptions, read_source, source_name, type LongCallOptions, type ModelSource } from '../core/source.ts';
import { Tensor } from '../core/tensor.ts';
import { write_npy } from '../core/npy.ts';

interface CompilerExports {
  readonly memory: WebAssembly.Memory;
  kilnc_alloc(bytes: number): number;
  kilnc_free(pointer: number): void;
  kilnc_reset(): void;
  kilnc_add_file(name: number, name_bytes: number, data: number, bytes: number): void;
  kilnc_run(args: number, bytes: number): number;
  kilnc_stdout(): number;
  kilnc_stderr(): number;
  kilnc_result_data(name: number, name_bytes: number): number;
  kilnc_result_bytes(name: number, name_bytes: number): number;
  kilnc_problems_json(): number;
}

/** A file that the compiler may read by name: external data, labels, a preprocessing recipe, a tensor to bind. */
export type NamedFiles = Readonly<Record<string, Uint8Array>>;

/** What a compiler command leaves behind. */
export interface CompilerRun {
  readonly exit_code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly problems: readonly Problem[];
  /** The bytes of a file that the command wrote, or undefined. */
  readonly result: (name: string) => Uint8Array<ArrayBuffer> | undefined;
}

/**
 * Runs one command line of the compiler (the same as the native `tilekiln-compiler`) in an instance of its own.
 * @param args for instance ['compile', 'm.onnx', '-o', 'm.kiln']
 * @param files what the command may read
 */
export async function run_compiler(
  args: readonly string[],
  files: NamedFiles,
  wasm?: WasmSource,
): Promise<CompilerRun> {
  const instance = await instantiate(await artefact_module('compiler.wasm', wasm));
  const native = instance.exports as unknown as CompilerExports;
  if (typeof native.kilnc_reset !== 'function') {
    throw new KilnError('VERSION', 'the wasm given is not the compiler of this release: compiler.wasm is needed');
  }
  const broken = args.find((arg) => arg.includes('\0'));
  if (broken !== undefined) {
    throw new KilnError('INVALID_ARGUMENT', `${JSON.stringify(broken)} has a zero character, which no option may have`);
  }
  const encoder = new TextEncoder();
  const put = (bytes: Uint8Array): number => {
    const pointer = native.kilnc_alloc(bytes.length || 1) >>> 0;
    if (pointer === 0) throw new KilnError('OUT_OF_MEMORY', `no memory for ${bytes.length} bytes of compiler input`);
    new Uint8Array(native.memory.buffer).set(bytes, pointer);
    return pointer;
  };
  const text = (pointer: number): string => {
    const memory = new Uint8Array(native.memory.buffer);
    return new TextDecoder().decode(memory.subarray(pointer, memory.indexOf(0, pointer)));
  };
  native.kilnc_reset();
  for (const [name, bytes] of Object.entries(files)) {
    const label = encoder.encode(name);
    const [label_pointer, pointer] = [put(label), put(bytes)];
    native.kilnc_add_file(label_pointer, label.length, pointer, bytes.length);
    native.kilnc_free(label_pointer);
    native.kilnc_free(pointer);
  }
  const line = encoder.encode(args.join('\0'));
  let exit_code: number;
  try {
    exit_code = native.kilnc_run(put(line), line.length);
  } catch (error) {
    if (error instanceof KilnError) throw error;
    throw new KilnError('OUT_OF_MEMORY', `the compiler ran out of memory or failed: ${(error as Error).message}`, {
      cause: error,
    });
  }
  return {
    exit_code,
    stdout: text(native.kilnc_stdout()),
    stderr: text(native.kilnc_stderr()),
    problems: JSON.parse(text(native.kilnc_problems_json()) || '[]') as Problem[],
    result: (name) => {
      const label = encoder.encode(name);
      const pointer = put(label);
      const data = native.kilnc_result_data(pointer, label.length) >>> 0;
      if (data === 0) return undefined;
      return new Uint8Array(native.memory.buffer, data, native.kilnc_result_bytes(pointer, label.length)).slice();
    },
  };
}

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
  readonly precision?: 'fp32' | undefined;
  /** 'fp16' stores weights as halves, expanded at load: half the file, computed in f32. Default 'fp32'. */
  readonly weights?: 'fp32' | 'fp16' | undefined;
  /**
   * Channels whose largest |weight| is at most so many times their layer's largest are removed, with all that only serves
   * them. 0 to below 1; default 0: those whose weights are all zero, which changes no output.
   */
  readonly pruneThreshold?: number | undefined;
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
  weights: kText,
  pruneThreshold: [is_number(0, 1), 'a number, 0 to below 1'],
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

/**
 * Compiles an ONNX model to a bundle, in Node or in the page.
 * @param source the model: URL or path string, URL, Response, Blob, ArrayBuffer, Uint8Array
 * @returns the bundle's bytes, for `load` or to keep as a `.kiln` file; the same bytes as the native compiler makes
 * @throws KilnError with every problem in `problems`
 * @example
 * const bundle = await compile('yolox_nano.onnx', { task: 'detect:yolox', preprocess: 'yolox' });
 * const model = await load(bundle);
 */
export async function compile(source: ModelSource, options: CompileOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
  check_options('compile', options, kCompileOptions);
  const model = await read_source(source, options);
  options.onProgress?.({ stage: 'compile', loaded: 0, total: 1 });
  const files: Record<string, Uint8Array> = { ...options.files, [kModelFile]: model };
  const line = command_line(options, files);
  const job = await run_compiler(line, files, options.wasm);
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
  notices.forEach((notice) => options.onNotice?.(notice));
  const bundle = job.result(kBundleFile);
  if (!bundle) throw new KilnError('INTERNAL', 'the compiler gave no bundle');
  options.onProgress?.({ stage: 'compile', loaded: 1, total: 1 });
  return bundle;
}
