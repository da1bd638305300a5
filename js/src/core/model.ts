// A loaded bundle: its inputs, outputs and metadata, and run().
import { artefact_module, instantiate, is_threaded, pick_simd, type SimdLevel, type WasmSource } from './artefact.ts';
import { KilnError, throw_if_aborted } from './errors.ts';
import { Native, kCount } from './native.ts';
import { write_feed, type Feed } from './feed.ts';
import { check_options, describe_value, is_object, is_text, kAny, kSignal, type OptionTable } from './options.ts';
import { batch_of, profile_for, type IoShape, type ProfileChoice } from './profiles.ts';
import { kLongCallOptions, read_source, source_name, type LongCallOptions, type ModelSource } from './source.ts';
import { describe_non_bundle } from './sniff.ts';
import { choose_tile } from './tile_choice.ts';
import { kThreads, shared_memory, ThreadTeam, wanted_threads, type ThreadCount } from './threads.ts';
import { array_type, check_whole, dtype_name, num_elements, Tensor, type DType, type TypedArray } from './tensor.ts';

/** An input or output of a model. */
export interface TensorInfo {
  readonly name: string;
  readonly dtype: DType;
  /** Dims of the first profile. */
  readonly shape: readonly number[];
  /** Dims of every profile in the bundle. */
  readonly profiles: readonly (readonly number[])[];
  /** 'NCHW', 'NHWC', or '' where it has no meaning. */
  readonly layout: string;
  /** Axis 0 is a batch that may be given in part: {@link Model.run} pads it, because no operator looks across it. */
  readonly batched: boolean;
}

/** Inputs by name. */
export type Feeds = Readonly<Record<string, Feed>>;

/** Options of `load`. */
export interface LoadOptions extends LongCallOptions {
  /** Instructions to use; 'auto' (the default) takes the best that the engine has. */
  readonly simd?: SimdLevel | 'auto' | undefined;
  /**
   * Threads of a run, 1 to 64, the calling one among them; 'auto' (the default) takes the machine's cores, at most 8. Where
   * there can be no more than one (in pages without COOP and COEP headers) it is one: see {@link Model.threads}. Results do
   * not depend on it.
   */
  readonly threads?: ThreadCount | undefined;
  /**
   * Register tile of convolutions and products, "4x8", "6x8" or "6x16"; 'auto' (the default) times them once, for some
   * milliseconds, and takes the fastest. Results do not depend on it.
   */
  readonly tile?: string | undefined;
  /** The runtime's wasm, if it does not lie beside the package. */
  readonly wasm?: WasmSource | undefined;
}

export const kLoadOptions: OptionTable<keyof LoadOptions> = {
  simd: kAny,
  threads: kThreads,
  tile: [is_text, "a text: 'auto', '4x8', '6x8' or '6x16'"],
  wasm: kAny,
  ...kLongCallOptions,
};

/** Options of `run`. */
export interface RunOptions {
  /** Arrays or Tensors to write outputs into; they are returned as the results. */
  readonly outputs?: Readonly<Record<string, Tensor | TypedArray>> | undefined;
  /** Checked between steps: a run that is aborted rejects with ABORTED. */
  readonly signal?: AbortSignal | undefined;
}

const kRunOptions: OptionTable<keyof RunOptions> = {
  outputs: [is_object, 'an object with arrays or Tensors by name'],
  signal: kSignal,
};

/** Bytes that a model holds. */
export interface ModelMemory {
  /** As the bundle holds them. */
  readonly weights_bytes: number;
  readonly arena_bytes: number;
  readonly peak_live_bytes: number;
  /** Weights in the form that a kernel wants, made at load; those stored as halves, expanded. */
  readonly prepared_bytes: number;
  /** All of the instance's wasm memory. */
  readonly wasm_bytes: number;
}

/** A step as `steps()` lists it. */
export interface StepInfo {
  readonly op: string;
  readonly name: string;
  readonly kernel: string;
  readonly macs: number;
}

type WantedOutputs = NonNullable<RunOptions['outputs']>;

/** What code of this package may do with a model while no run is under way. */
export interface ExclusiveAccess {
  readonly native: Native;
  readonly handle: number;
  readonly select_profile: (profile: number) => void;
  /** Checks the feeds, selects the smallest profile that takes them and writes them into its inputs. */
  readonly write_feeds: (feeds: Feeds) => ProfileChoice;
  /** Runs all steps of the current profile. */
  readonly run: (signal: AbortSignal | undefined) => Promise<void>;
}

const kYieldMs = 8; // an aborted run answers within about this time

/**
 * A model ready to run. Made by {@link load}; give its memory back with `dispose()` or `using`.
 */
export class Model {
  readonly inputs: readonly TensorInfo[];
  readonly outputs: readonly TensorInfo[];
  /** "task", "labels" (one a line), "preprocess" (JSON), "producer", "source_sha256", "onnx.<key>". */
  readonly metadata: Readonly<Record<string, string>>;
  /** Which artefact runs it. */
  readonly simd: SimdLevel;
  /** Register tile of its convolutions and products. */
  readonly tile: string;

  #native: Native | undefined;
  readonly #handle: number;
  readonly #team: ThreadTeam | undefined;
  readonly #notes: readonly string[];
  readonly #shapes: readonly IoShape[]; // inputs and outputs of each profile
  #running: Promise<unknown> = Promise.resolve();
  #broken: string | undefined; // why nothing runs any more

  /** Not public: use {@link load}. */
  constructor(
    native: Native,
    handle: number,
    kernels: { readonly simd: SimdLevel; readonly tile: string },
    team: ThreadTeam | undefined,
    notes: readonly string[],
  ) {
    this.#native = native;
    this.#handle = handle;
    this.#team = team;
    this.#notes = notes;
    this.simd = kernels.simd;
    this.tile = kernels.tile;
    if (team) undisposed.register(this, team, this);
    const num_profiles = this.#count('profiles');
    const shape_of = (profile: number, io: number, index: number): number[] =>
      Array.from({ length: native.exports.kiln_io_rank(handle, profile, io, index) }, (_, axis) =>
        native.exports.kiln_io_dim(handle, profile, io, index, axis),
      );
    const list = (io: number, count: number): TensorInfo[] =>
      Array.from({ length: count }, (_, index) => {
        const shapes = Array.from({ length: num_profiles }, (_p, profile) =>
          Object.freeze(shape_of(profile, io, index)),
        );
        const profiles = Object.freeze(shapes); // run() checks feeds against them
        return Object.freeze({
          name: native.text(native.exports.kiln_io_name(handle, io, index)),
          dtype: dtype_name(native.exports.kiln_io_dtype(handle, io, index)),
          shape: profiles[0]!,
          profiles,
          layout: native.text(native.exports.kiln_io_layout(handle, io, index)),
          batched: native.exports.kiln_io_batched(handle, io, index) === 1,
        });
      });
    this.inputs = list(0, this.#count('inputs'));
    this.outputs = list(1, this.#count('outputs'));
    this.#shapes = Array.from({ length: num_profiles }, (_, profile) => ({
      inputs: this.inputs.map((info) => info.profiles[profile]!),
      outputs: this.outputs.map((info) => info.profiles[profile]!),
    }));
    this.metadata = Object.fromEntries(
      Array.from({ length: this.#count('metadata') }, (_, index) => [
        native.text(native.exports.kiln_metadata_key(handle, index)),
        native.text(native.exports.kiln_metadata_value(handle, index)),
      ]),
    );
  }

  /**
   * Runs the model once. Inputs are copied in and outputs copied out: nothing that you pass is detached or kept.
   * An input of another shape than the bundle's selects the smallest profile that fits; a smaller batch is padded and the
   * outputs are trimmed to it, where the inputs are `batched`. Calls on one model run one after the other: leave feeds
   * unchanged until the promise settles.
   * @param feeds one entry an input, by name
   * @returns one Tensor an output, by name
   * @throws KilnError SHAPE, INVALID_ARGUMENT, ABORTED
   * @example
   * const { logits } = await model.run({ input: new Float32Array(3 * 32 * 32) });
   */
  run(feeds: Feeds, options: RunOptions = {}): Promise<Record<string, Tensor>> {
    const result = this.#running.then(() => this.#run_once(feeds, options));
    this.#running = result.catch(() => {});
    return result;
  }

  /** Runs on whatever the inputs hold, so that the first real run is as fast as the rest. */
  async warmup(): Promise<void> {
    const turn = this.#running.then(() => this.#run_range(0, -1));
    this.#running = turn.catch(() => {});
    return turn;
  }

  /** The steps of the current profile, in the order they run. */
  steps(): readonly StepInfo[] {
    const native = this.#alive();
    const text = (step: number, what: number): string =>
      native.text(native.exports.kiln_step_text(this.#handle, step, what));
    return Array.from({ length: this.#count('steps') }, (_, step) => ({
      op: text(step, 0),
      name: text(step, 1),
      kernel: text(step, 2),
      macs: native.exports.kiln_step_macs(this.#handle, step),
    }));
  }

  /** Threads that a run has right now: workers may come late, and are fewer if some could not be started. */
  get threads(): number {
    return this.#alive().exports.kiln_threads_running?.() ?? 1;
  }

  /** A sentence for each thread that is missing, and why. */
  get notes(): readonly string[] {
    return [...this.#notes, ...(this.#team?.notes ?? [])];
  }

  /** Bytes that this model holds right now. */
  memory(): ModelMemory {
    return {
      weights_bytes: this.#count('weights_bytes'),
      arena_bytes: this.#count('arena_bytes'),
      peak_live_bytes: this.#count('peak_live_bytes'),
      prepared_bytes: this.#count('prepared_bytes'),
      wasm_bytes: this.#alive().exports.memory.buffer.byteLength,
    };
  }

  /** Ends the workers, gives the instance and all its memory back. A run in progress fails; later calls throw. */
  dispose(): void {
    if (!this.#native) return;
    this.#team?.stop();
    undisposed.unregister(this);
    this.#native.exports.kiln_unload(this.#handle);
    this.#native = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /**
   * Exclusive access to the wasm side for code of this package (Detector, Classifier): pre- and post-processing without
   * copies through JS. Not a public API.
   * @internal
   */
  exclusive<T>(body: (access: ExclusiveAccess) => T | Promise<T>): Promise<T> {
    const turn = this.#running.then(() => {
      const native = this.#alive();
      const select_profile = (profile: number): void => this.#select_profile(profile);
      const write_feeds = (feeds: Feeds): ProfileChoice => {
        const choice = this.#choose_profile(feeds);
        this.#write_feeds(feeds, choice.profile);
        return choice;
      };
      const run = (signal: AbortSignal | undefined): Promise<void> => this.#run_steps(signal);
      return body({ native, handle: this.#handle, select_profile, write_feeds, run });
    });
    this.#running = turn.catch(() => {});
    return turn;
  }

  #alive(): Native {
    if (!this.#native) {
      throw this.#broken === undefined
        ? new KilnError('INVALID_ARGUMENT', 'the model has been disposed')
        : new KilnError('INTERNAL', this.#broken);
    }
    return this.#native;
  }

  #count(what: keyof typeof kCount): number {
    return this.#alive().exports.kiln_count(this.#handle, kCount[what]);
  }

  #select_profile(profile: number): void {
    const native = this.#alive();
    if (profile !== this.#count('profile')) native.check(native.exports.kiln_select_profile(this.#handle, profile));
  }

  async #run_once(feeds: Feeds, options: RunOptions): Promise<Record<string, Tensor>> {
    check_options('run', options, kRunOptions);
    throw_if_aborted(options.signal);
    this.#alive();
    const { profile, batch, full_batch } = this.#choose_profile(feeds);
    this.#check_wanted(options.outputs ?? {}, profile, batch, full_batch);
    this.#write_feeds(feeds, profile);
    await this.#run_steps(options.signal);
    this.#check_wanted(options.outputs ?? {}, profile, batch, full_batch); // one may have been transferred meanwhile
    return this.#read_outputs(profile, batch, full_batch, options.outputs ?? {});
  }

  #choose_profile(feeds: Feeds): ProfileChoice {
    return profile_for(this.inputs, this.#shapes, this.#check_feeds(feeds));
  }

  #write_feeds(feeds: Feeds, profile: number): void {
    const native = this.#alive();
    this.#select_profile(profile);
    this.inputs.forEach((info, index) => {
      const length = num_elements(info.profiles[profile]!);
      const pointer = native.io_data(this.#handle, 0, index);
      write_feed(info, feeds[info.name]!, new (array_type(info.dtype))(native.exports.memory.buffer, pointer, length));
    });
  }

  #check_feeds(feeds: Feeds): (readonly number[] | number)[] {
    const names = this.inputs.map((info) => info.name);
    if (!is_object(feeds) || feeds instanceof Tensor || ArrayBuffer.isView(feeds)) {
      const got = feeds instanceof Tensor ? 'a Tensor' : describe_value(feeds);
      throw new KilnError(
        'INVALID_ARGUMENT',
        `run needs an object with inputs by name (${names.join(', ')}), got ${got}`,
      );
    }
    for (const name of Object.keys(feeds)) {
      if (!names.includes(name)) {
        throw new KilnError('INVALID_ARGUMENT', `the model has no input '${name}'; its inputs: ${names.join(', ')}`);
      }
    }
    return this.inputs.map((info) => {
      const feed = Object.hasOwn(feeds, info.name) ? feeds[info.name] : undefined;
      if (feed === undefined) {
        throw new KilnError(
          'INVALID_ARGUMENT',
          `input '${info.name}' (${info.dtype}, [${info.shape.join(', ')}]) is missing`,
        );
      }
      if (feed instanceof Tensor) {
        if (feed.dtype !== info.dtype) {
          throw new KilnError('SHAPE', `input '${info.name}': dtype ${feed.dtype} given, ${info.dtype} needed`);
        }
        check_whole(`input '${info.name}'`, feed);
        return feed.shape;
      }
      if ((!ArrayBuffer.isView(feed) || feed instanceof DataView) && !Array.isArray(feed)) {
        throw new KilnError(
          'INVALID_ARGUMENT',
          `input '${info.name}': a Tensor, typed array or array of numbers is needed, got ${describe_value(feed)}`,
        );
      }
      return feed.length;
    });
  }

  /** Steps [begin, end), -1 for all. A trap leaves workers in the middle of a fork: nothing runs after one. */
  #run_range(begin: number, end: number): void {
    const native = this.#alive();
    let code: number;
    try {
      code = native.exports.kiln_run(this.#handle, begin, end);
    } catch (error) {
      this.#team?.stop();
      this.#native = undefined;
      undisposed.unregister(this);
      this.#broken = `the model stopped in the middle of a run (${(error as Error).message}); load it again`;
      throw new KilnError('INTERNAL', this.#broken, { cause: error });
    }
    native.check(code);
  }

  /** All steps: at once, or with a signal one by one, so that an abort is heeded. */
  async #run_steps(signal: AbortSignal | undefined): Promise<void> {
    if (!signal) return this.#run_range(0, -1);
    const num_steps = this.#count('steps');
    let last_yield = performance.now();
    for (let step = 0; step < num_steps; ++step) {
      this.#run_range(step, step + 1);
      if (performance.now() - last_yield > kYieldMs) {
        await new Promise((resolve) => setTimeout(resolve, 0));
        last_yield = performance.now();
      }
      throw_if_aborted(signal);
    }
  }

  #output_shape(index: number, profile: number, batch: number, full_batch: number): readonly number[] {
    return batch_of(this.outputs[index]!.profiles[profile]!, batch, full_batch);
  }

  /** Refuses pre-allocated outputs of a wrong name, dtype or shape before anything runs. */
  #check_wanted(wanted: WantedOutputs, profile: number, batch: number, full_batch: number): void {
    for (const [name, target] of Object.entries(wanted)) {
      const index = this.outputs.findIndex((info) => info.name === name);
      if (index < 0) {
        const names = this.outputs.map((info) => info.name).join(', ');
        throw new KilnError('INVALID_ARGUMENT', `the model has no output '${name}'; its outputs: ${names}`);
      }
      if (target instanceof Tensor) check_whole(`output '${name}'`, target);
      const { dtype } = this.outputs[index]!;
      const shape = this.#output_shape(index, profile, batch, full_batch);
      const given = target instanceof Tensor ? `${target.dtype} [${target.shape.join(', ')}]` : describe_value(target);
      const fits =
        target instanceof Tensor
          ? target.dtype === dtype && target.shape.join() === shape.join()
          : target instanceof array_type(dtype) && target.length === num_elements(shape);
      if (!fits) {
        throw new KilnError('SHAPE', `output '${name}': ${given} given, ${dtype} [${shape.join(', ')}] needed`);
      }
    }
  }

  #read_outputs(profile: number, batch: number, full_batch: number, wanted: WantedOutputs): Record<string, Tensor> {
    const native = this.#alive();
    const entries = this.outputs.map((info, index): [string, Tensor] => {
      const shape = this.#output_shape(index, profile, batch, full_batch);
      const pointer = native.io_data(this.#handle, 1, index);
      const source = new (array_type(info.dtype))(native.exports.memory.buffer, pointer, num_elements(shape));
      const target = Object.hasOwn(wanted, info.name) ? wanted[info.name] : undefined;
      if (target === undefined) return [info.name, new Tensor(info.dtype, shape, source.slice() as TypedArray)];
      const result = target instanceof Tensor ? target : new Tensor(info.dtype, shape, target);
      (result.data as Float32Array).set(source as Float32Array);
      return [info.name, result];
    });
    return Object.fromEntries(entries);
  }
}

// Workers hold their model's memory: a model that is dropped without dispose() would stay for ever.
const undisposed = new FinalizationRegistry((team: ThreadTeam) => team.stop());

const kReadyMs = 250; // workers start while the bundle is read; those that take longer join a run later

interface SetUp {
  readonly source: ModelSource;
  readonly bytes: Uint8Array;
  readonly simd: SimdLevel;
  readonly team: ThreadTeam | undefined;
  readonly notes: readonly string[];
}

/** The model in an instance of its own, of a module for its threads. */
async function set_up(module: WebAssembly.Module, options: LoadOptions, what: SetUp): Promise<Model> {
  const { source, bytes, simd, team, notes } = what;
  const memory = is_threaded(module) ? shared_memory() : undefined;
  const native = new Native(await instantiate(module, memory));
  throw_if_aborted(options.signal);
  const tile = await choose_tile(native, simd, options.tile ?? 'auto'); // before workers take tiles
  if (memory) team?.attach(native, module, memory);
  const pointer = native.alloc(bytes.length, 'the bundle');
  native.bytes(pointer, bytes.length).set(bytes);
  const handle = native.exports.kiln_load(pointer, bytes.length);
  if (handle === 0) {
    const error = native.last_error();
    throw new KilnError(error.code, `${source_name(source)}: ${error.message}`, { node: error.node });
  }
  await team?.ready(kReadyMs);
  throw_if_aborted(options.signal);
  options.onProgress?.({ stage: 'set-up', loaded: 1, total: 1 });
  return new Model(native, handle, { simd, tile }, team, notes);
}

const artefact_name = (simd: SimdLevel, threads: number): string => `kiln-${simd}${threads > 1 ? '-mt' : ''}.wasm`;

async function load_with(
  team: ThreadTeam | undefined,
  notes: readonly string[],
  source: ModelSource,
  options: LoadOptions,
): Promise<Model> {
  const simd = pick_simd(options.simd ?? 'auto');
  const opening = artefact_module(artefact_name(simd, team?.threads ?? 1), options.wasm);
  opening.catch(() => {}); // reported below; what is wrong with the model itself comes first
  const bytes = await read_source(source, options);
  const complaint = describe_non_bundle(bytes);
  if (complaint) throw new KilnError(complaint.code, `${source_name(source)}: ${complaint.message}`);
  const alone = (why: string): SetUp => {
    team?.stop();
    return { source, bytes, simd, team: undefined, notes: [...notes, `one thread: ${why}`] };
  };
  try {
    const module = await opening;
    const is_alone = team && !is_threaded(module);
    const what = is_alone ? alone('the runtime given as `wasm` has no more') : { source, bytes, simd, team, notes };
    return await set_up(module, options, what);
  } catch (error) {
    // Shared memory is reserved up to its maximum, which may be small: memory of one thread may grow further. And a server may
    // have no other artefacts than those of one thread.
    const may_go_on = error instanceof KilnError && ['OUT_OF_MEMORY', 'NOT_FOUND'].includes(error.code);
    if (!team || options.wasm !== undefined || !may_go_on) throw error;
    return set_up(await artefact_module(artefact_name(simd, 1)), options, alone(error.message));
  }
}

/**
 * Loads a `.kiln` bundle.
 * @param source URL or path string, URL, Response, Blob or File, ArrayBuffer, Uint8Array (neither detached nor kept)
 * @throws KilnError NOT_FOUND, NOT_A_MODEL (HTML, LFS pointer, an ONNX file), TRUNCATED, CORRUPT, VERSION, OUT_OF_MEMORY, ABORTED
 * @example
 * const model = await load('/models/resnet50.kiln', { onProgress: ({ loaded, total }) => bar.set(loaded / total) });
 */
export async function load(source: ModelSource, options: LoadOptions = {}): Promise<Model> {
  check_options('load', options, kLoadOptions);
  pick_simd(options.simd ?? 'auto'); // refused before workers start
  const { threads, note } = wanted_threads(options.threads ?? 'auto');
  const team = threads > 1 ? new ThreadTeam(threads) : undefined; // now: they start while the bundle is read
  try {
    return await load_with(team, note ? [note] : [], source, options);
  } catch (error) {
    team?.stop();
    throw error;
  }
}
