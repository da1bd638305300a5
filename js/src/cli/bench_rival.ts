// tilekiln bench --vs PACKAGE: the same model on another engine of the user's node_modules, in turn with ours.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { full_message, KilnError } from '../core/errors.ts';
import type { Model } from '../core/model.ts';
import type { DType, Tensor, TypedArray } from '../core/tensor.ts';

/** Packages that can run an ONNX file beside us. */
export const kRivals = ['onnxruntime-web', 'onnxruntime-node'] as const;

/** One of {@link kRivals}. */
export type Rival = (typeof kRivals)[number];

/** As much of onnxruntime-common's API as is needed here. */
interface OnnxRuntime {
  readonly env: { logLevel?: string; readonly wasm: { numThreads?: number } };
  readonly Tensor: new (type: string, data: TypedArray, dims: readonly number[]) => unknown;
  readonly InferenceSession: { create(bytes: Uint8Array, options: object): Promise<Session> };
}

interface Session {
  run(feeds: Record<string, unknown>): Promise<Record<string, { readonly data: TypedArray }>>;
  release?(): Promise<void>;
}

const kTypes: Partial<Record<DType, string>> = {
  f32: 'float32',
  f64: 'float64',
  i8: 'int8',
  u8: 'uint8',
  i16: 'int16',
  u16: 'uint16',
  i32: 'int32',
  u32: 'uint32',
  i64: 'int64',
  u64: 'uint64',
  bool: 'bool',
};

/** An engine with a model loaded: its outputs by name, and how long it took to get there. */
export interface Engine {
  readonly load_ms: number;
  readonly run: () => Promise<Record<string, ArrayLike<number | bigint>>>;
  readonly dispose: () => Promise<void>;
}

/** The package as the folder `from` would import it. */
async function import_rival(name: Rival, from: string): Promise<OnnxRuntime> {
  let path: string;
  try {
    path = createRequire(join(from, 'package.json')).resolve(name);
  } catch (error) {
    throw new KilnError('NOT_FOUND', `--vs ${name}: that package is not installed here (npm install ${name})`, {
      cause: error,
    });
  }
  try {
    const module = (await import(pathToFileURL(path).href)) as OnnxRuntime & { readonly default?: OnnxRuntime };
    return module.InferenceSession ? module : module.default!;
  } catch (error) {
    throw new KilnError('UNSUPPORTED', `--vs ${name}: the package does not load: ${full_message(error as Error)}`, {
      cause: error,
    });
  }
}

/**
 * Loads the model into a rival.
 * @param from folder whose node_modules has the package
 * @param feeds inputs by name, given at every run
 * @throws KilnError NOT_FOUND without the package, UNSUPPORTED if it does not take the model
 */
export async function load_rival(
  name: Rival,
  from: string,
  onnx: Uint8Array,
  feeds: Readonly<Record<string, Tensor>>,
  threads: number,
): Promise<Engine> {
  const ort = await import_rival(name, from);
  const inputs = Object.entries(feeds).map(([input, { dtype, shape, data }]): [string, unknown] => {
    const type = kTypes[dtype];
    if (!type) throw new KilnError('UNSUPPORTED', `input '${input}' is ${dtype}, which ${name} takes no numbers of`);
    return [input, new ort.Tensor(type, data, shape)];
  });
  const start = performance.now();
  try {
    if (name === 'onnxruntime-web') Object.assign(ort.env.wasm, { numThreads: threads });
    const session = await ort.InferenceSession.create(onnx, {
      executionProviders: [name === 'onnxruntime-web' ? 'wasm' : 'cpu'],
      intraOpNumThreads: threads,
      interOpNumThreads: 1,
      logSeverityLevel: 3,
    });
    return {
      load_ms: performance.now() - start,
      run: async () => {
        const outputs = await session.run(Object.fromEntries(inputs)).catch((error: Error) => {
          throw new KilnError('UNSUPPORTED', `${name} fails on the model: ${error.message}`, { cause: error });
        });
        return Object.fromEntries(Object.entries(outputs).map(([output, { data }]) => [output, data]));
      },
      dispose: async () => session.release?.(),
    };
  } catch (error) {
    throw new KilnError('UNSUPPORTED', `${name} does not take the model: ${full_message(error as Error)}`, {
      cause: error,
    });
  }
}

/**
 * Our side of the race.
 * @throws KilnError UNSUPPORTED for a model with outputs that cannot be compared
 */
export function own_engine(model: Model, load_ms: number, feeds: Readonly<Record<string, Tensor>>): Engine {
  const half = model.outputs.find(({ dtype }) => !kTypes[dtype]);
  if (half) throw new KilnError('UNSUPPORTED', `output '${half.name}' is ${half.dtype}, which cannot be compared`);
  return {
    load_ms,
    run: async () => {
      const outputs = await model.run(feeds);
      return Object.fromEntries(Object.entries(outputs).map(([output, { data }]) => [output, data]));
    },
    dispose: async () => model.dispose(),
  };
}

/** Largest |a - b| over the largest |b|; Infinity where lengths or NaNs differ. */
export function relative_difference(a: ArrayLike<number | bigint>, b: ArrayLike<number | bigint>): number {
  if (a.length !== b.length) return Infinity;
  let worst = 0;
  let largest = 0;
  for (let i = 0; i < a.length; ++i) {
    const [x, y] = [Number(a[i]), Number(b[i])];
    if (Number.isNaN(x) !== Number.isNaN(y)) return Infinity;
    if (Number.isNaN(x) || x === y) {
      largest = Math.max(largest, Number.isFinite(y) ? Math.abs(y) : 0);
      continue;
    }
    worst = Math.max(worst, Math.abs(x - y));
    largest = Math.max(largest, Math.abs(y));
  }
  return largest > 0 ? worst / largest : worst;
}

/** Milliseconds of one side: its first run, then one sample a round. */
export interface Timings {
  readonly first_ms: number;
  readonly samples: readonly number[];
}

/** What {@link race_engines} found. */
export interface RaceResult {
  /** Largest difference of an output, as a share of its largest value. */
  readonly difference: number;
  readonly ours: Timings;
  readonly rival: Timings;
}

/**
 * Compares the outputs, then runs both in turn.
 * @param options `warmup` runs of each first, `pause_ms` before each run, `tolerance` as a share of an output's largest value
 * @throws KilnError INTERNAL if an output differs by more
 */
export async function race_engines(
  ours: Engine,
  rival: Engine,
  name: Rival,
  options: { readonly runs: number; readonly warmup: number; readonly pause_ms: number; readonly tolerance: number },
): Promise<RaceResult> {
  const timed = async (engine: Engine): Promise<[number, Awaited<ReturnType<Engine['run']>>]> => {
    if (options.pause_ms > 0) await new Promise((resolve) => setTimeout(resolve, options.pause_ms));
    const start = performance.now();
    const outputs = await engine.run();
    return [performance.now() - start, outputs];
  };
  const [our_first, our_outputs] = await timed(ours);
  const [rival_first, rival_outputs] = await timed(rival);
  let difference = 0;
  for (const [output, data] of Object.entries(our_outputs)) {
    const other = relative_difference(data, rival_outputs[output] ?? []);
    if (!(other <= options.tolerance)) {
      throw new KilnError(
        'INTERNAL',
        `output '${output}' differs from ${name}'s by ${other.toExponential(1)} of its largest value; allowed: ${options.tolerance} (--tolerance)`,
      );
    }
    difference = Math.max(difference, other);
  }
  for (let run = 0; run < options.warmup; ++run) {
    await ours.run();
    await rival.run();
  }
  const samples: [number[], number[]] = [[], []];
  for (let run = 0; run < options.runs; ++run) {
    samples[0].push((await timed(ours))[0]);
    samples[1].push((await timed(rival))[0]);
  }
  return {
    difference,
    ours: { first_ms: our_first, samples: samples[0] },
    rival: { first_ms: rival_first, samples: samples[1] },
  };
}
