// A loaded bundle: its inputs, outputs and metadata, and run().
import { artefact_module, instantiate, pick_simd, type SimdLevel, type WasmSource } from './artefact.ts';
import { KilnError, throw_if_aborted } from './errors.ts';
import { Native, kCount } from './native.ts';
import { batch_of, profile_for, type IoShape } from './profiles.ts';
import { read_source, source_name, type LongCallOptions, type ModelSource } from './source.ts';
import { describe_non_bundle } from './sniff.ts';
import { array_type, dtype_name, num_elements, Tensor, type DType, type TypedArray } from './tensor.ts';

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
}

/** What `run` takes for an input: a Tensor, a typed array in the model's shape, or plain numbers. */
export type Feed = Tensor | TypedArray | readonly number[] | readonly bigint[];
export type Feeds = Readonly<Record<string, Feed>>;

/** Options of `load`. */
export interface LoadOptions extends LongCallOptions {
  /** Instructions to use; 'auto' (the default) takes the best that the engine has. */
  readonly simd?: SimdLevel | 'auto' | undefined;
  /** The runtime's wasm, if it does not lie beside the package. */
  readonly wasm?: WasmSource | undefined;
}

/** Options of `run`. */
export interface RunOptions {
  /** Arrays or Tensors to write outputs into; they are returned as the results. */
  readonly outputs?: Readonly<Record<string, Tensor | TypedArray>> | undefined;
  /** Checked between steps: a run that is aborted rejects with ABORTED. */
  readonly signal?: AbortSignal | undefined;
}

/** Bytes that a model holds. */
export interface ModelMemory {
  readonly weights_bytes: number;
  readonly arena_bytes: number;
  readonly peak_live_bytes: number;
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

  #native: Native | undefined;
  readonly #handle: number;
  readonly #shapes: readonly IoShape[]; // inputs and outputs of each profile
  #running: Promise<unknown> = Promise.resolve();

  /** Not public: use {@link load}. */
  constructor(native: Native, handle: number, simd: SimdLevel) {
    this.#native = native;
    this.#handle = handle;
    this.simd = simd;
    const num_profiles = this.#count('profiles');
    const shape_of = (profile: number, io: number, index: number): number[] =>
      Array.from({ length: native.exports.kiln_io_rank(handle, profile, io, index) }, (_, axis) =>
        native.exports.kiln_io_dim(handle, profile, io, index, axis),
      );
    const list = (io: number, count: number): TensorInfo[] =>
      Array.from({ length: count }, (_, index) => {
        const profiles = Array.from({ length: num_profiles }, (_p, profile) => shape_of(profile, io, index));
        return {
          name: native.text(native.exports.kiln_io_name(handle, io, index)),
          dtype: dtype_name(native.exports.kiln_io_dtype(handle, io, index)),
          shape: profiles[0]!,
          profiles,
          layout: native.text(native.exports.kiln_io_layout(handle, io, index)),
        };
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
   * outputs are trimmed to it. Calls on one model run one after the other.
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
    const turn = this.#running.then(() => {
      const native = this.#alive();
      native.check(native.exports.kiln_run(this.#handle, 0, -1));
    });
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

  /** Bytes that this model holds right now. */
  memory(): ModelMemory {
    return {
      weights_bytes: this.#count('weights_bytes'),
      arena_bytes: this.#count('arena_bytes'),
      peak_live_bytes: this.#count('peak_live_bytes'),
      wasm_bytes: this.#alive().exports.memory.buffer.byteLength,
    };
  }

  /** Gives the instance and all its memory back. A run in progress finishes first or fails; later calls throw. */
  dispose(): void {
    if (!this.#native) return;
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
  exclusive<T>(body: (native: Native, handle: number) => T | Promise<T>): Promise<T> {
    const turn = this.#running.then(() => body(this.#alive(), this.#handle));
    this.#running = turn.catch(() => {});
    return turn;
  }

  #alive(): Native {
    if (!this.#native) throw new KilnError('INVALID_ARGUMENT', 'the model has been disposed');
    return this.#native;
  }

  #count(what: keyof typeof kCount): number {
    return this.#alive().exports.kiln_count(this.#handle, kCount[what]);
  }

  async #run_once(feeds: Feeds, options: RunOptions): Promise<Record<string, Tensor>> {
    throw_if_aborted(options.signal);
    const native = this.#alive();
    const given = this.#check_feeds(feeds);
    const { profile, batch, full_batch } = profile_for(this.inputs, this.#shapes, given);
    if (profile !== this.#count('profile')) native.check(native.exports.kiln_select_profile(this.#handle, profile));
    this.inputs.forEach((info, index) => this.#write_input(info, index, feeds[info.name]!, profile));
    if (options.signal) await this.#run_stepwise(options.signal);
    else native.check(native.exports.kiln_run(this.#handle, 0, -1));
    return this.#read_outputs(profile, batch, full_batch, options.outputs ?? {});
  }

  #check_feeds(feeds: Feeds): (readonly number[] | number)[] {
    const names = this.inputs.map((info) => info.name);
    for (const name of Object.keys(feeds)) {
      if (!names.includes(name)) {
        throw new KilnError('INVALID_ARGUMENT', `the model has no input '${name}'; its inputs: ${names.join(', ')}`);
      }
    }
    return this.inputs.map((info) => {
      const feed = feeds[info.name];
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
        return feed.shape;
      }
      if (!ArrayBuffer.isView(feed) && !Array.isArray(feed)) {
        throw new KilnError(
          'INVALID_ARGUMENT',
          `input '${info.name}': a Tensor, typed array or array of numbers is needed, got ${typeof feed}`,
        );
      }
      return feed.length;
    });
  }

  #write_input(info: TensorInfo, index: number, feed: Feed, profile: number): void {
    const native = this.#alive();
    const length = num_elements(info.profiles[profile]!);
    const pointer = native.exports.kiln_io_data(this.#handle, 0, index);
    const type = array_type(info.dtype);
    const target = new type(native.exports.memory.buffer, pointer, length);
    const data = feed instanceof Tensor ? feed.data : feed;
    if (target instanceof BigInt64Array || target instanceof BigUint64Array) {
      if (data instanceof BigInt64Array || data instanceof BigUint64Array) target.set(data);
      else Array.from(data as ArrayLike<number | bigint>, (value, i) => (target[i] = this.#to_bigint(info, value)));
    } else if (data instanceof BigInt64Array || data instanceof BigUint64Array || typeof data[0] === 'bigint') {
      throw new KilnError('INVALID_ARGUMENT', `input '${info.name}': BigInts given, the dtype is ${info.dtype}`);
    } else if (info.dtype === 'f16' || info.dtype === 'bf16') {
      if (!(data instanceof Uint16Array)) {
        throw new KilnError(
          'INVALID_ARGUMENT',
          `input '${info.name}': ${info.dtype} is given as its bits in a Uint16Array`,
        );
      }
      (target as Uint16Array).set(data);
    } else if (
      ArrayBuffer.isView(data) &&
      info.dtype === 'f32' &&
      !(data instanceof Float32Array || data instanceof Float64Array)
    ) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `input '${info.name}': a ${data.constructor.name} is given, the dtype is f32: convert it yourself, so that no scaling is guessed`,
      );
    } else {
      (target as Float32Array).set(data as ArrayLike<number>);
    }
    (target as Float32Array).fill(0 as never, data.length);
  }

  #to_bigint(info: TensorInfo, value: number | bigint): bigint {
    if (typeof value === 'number' && !Number.isInteger(value)) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `input '${info.name}': ${value} is no integer, the dtype is ${info.dtype}`,
      );
    }
    return BigInt(value);
  }

  async #run_stepwise(signal: AbortSignal): Promise<void> {
    const num_steps = this.#count('steps');
    let last_yield = performance.now();
    for (let step = 0; step < num_steps; ++step) {
      const native = this.#alive();
      native.check(native.exports.kiln_run(this.#handle, step, step + 1));
      if (performance.now() - last_yield > kYieldMs) {
        await new Promise((resolve) => setTimeout(resolve, 0));
        last_yield = performance.now();
      }
      throw_if_aborted(signal);
    }
  }

  #read_outputs(
    profile: number,
    batch: number,
    full_batch: number,
    wanted: NonNullable<RunOptions['outputs']>,
  ): Record<string, Tensor> {
    const native = this.#alive();
    for (const name of Object.keys(wanted)) {
      if (!this.outputs.some((info) => info.name === name)) {
        throw new KilnError(
          'INVALID_ARGUMENT',
          `the model has no output '${name}'; its outputs: ${this.outputs.map((info) => info.name).join(', ')}`,
        );
      }
    }
    const entries = this.outputs.map((info, index): [string, Tensor] => {
      const shape = batch_of(info.profiles[profile]!, batch, full_batch);
      const length = num_elements(shape);
      const type = array_type(info.dtype);
      const source = new type(
        native.exports.memory.buffer,
        native.exports.kiln_io_data(this.#handle, 1, index),
        length,
      );
      const target = wanted[info.name];
      if (target === undefined) return [info.name, new Tensor(info.dtype, shape, source.slice() as TypedArray)];
      const data = target instanceof Tensor ? target.data : target;
      const result = new Tensor(info.dtype, shape, data); // refuses another length or array type
      if (target instanceof Tensor && target.shape.join() !== shape.join()) {
        throw new KilnError(
          'SHAPE',
          `output '${info.name}': the tensor given has shape [${target.shape.join(', ')}], the output [${shape.join(', ')}]`,
        );
      }
      (data as Float32Array).set(source as Float32Array);
      return [info.name, target instanceof Tensor ? target : result];
    });
    return Object.fromEntries(entries);
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
  const simd = pick_simd(options.simd ?? 'auto');
  const [bytes, module] = await Promise.all([
    read_source(source, options),
    artefact_module(simd === 'relaxed' ? 'kiln-relaxed.wasm' : 'kiln-simd.wasm', options.wasm),
  ]);
  const complaint = describe_non_bundle(bytes);
  if (complaint) throw new KilnError(complaint.code, `${source_name(source)}: ${complaint.message}`);
  const native = new Native(await instantiate(module));
  throw_if_aborted(options.signal);
  const pointer = native.alloc(bytes.length, 'the bundle');
  native.bytes(pointer, bytes.length).set(bytes);
  const handle = native.exports.kiln_load(pointer, bytes.length);
  if (handle === 0) {
    const error = native.last_error();
    throw new KilnError(error.code, `${source_name(source)}: ${error.message}`, { node: error.node });
  }
  options.onProgress?.({ stage: 'set-up', loaded: 1, total: 1 });
  return new Model(native, handle, simd);
}
