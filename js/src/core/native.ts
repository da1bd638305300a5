// The C ABI of a runtime artefact (src/wasm/runtime_abi.h) with its types, and the text and byte moves across it.
import { error_code, KilnError } from './errors.ts';

/** Exports of kiln-*.wasm; those of the threaded ones may be absent. Pointers are byte offsets into `memory`. */
export interface RuntimeExports {
  readonly memory: WebAssembly.Memory;
  kiln_abi_version(): number;
  kiln_alloc(bytes: number): number;
  kiln_free(pointer: number): void;
  kiln_error_code(): number;
  kiln_error_message(): number;
  kiln_error_node(): number;
  kiln_load(bundle: number, bytes: number): number;
  kiln_unload(handle: number): void;
  kiln_count(handle: number, what: number): number;
  kiln_select_profile(handle: number, profile: number): number;
  kiln_io_name(handle: number, io: number, index: number): number;
  kiln_io_layout(handle: number, io: number, index: number): number;
  kiln_io_batched(handle: number, io: number, index: number): number;
  kiln_io_dtype(handle: number, io: number, index: number): number;
  kiln_io_rank(handle: number, profile: number, io: number, index: number): number;
  kiln_io_dim(handle: number, profile: number, io: number, index: number, axis: number): number;
  kiln_io_data(handle: number, io: number, index: number): number;
  kiln_metadata_key(handle: number, index: number): number;
  kiln_metadata_value(handle: number, index: number): number;
  kiln_run(handle: number, begin: number, end: number): number;
  kiln_step_text(handle: number, step: number, what: number): number;
  kiln_step_macs(handle: number, step: number): number;
  kiln_num_tiles(): number;
  kiln_tile_name(tile: number): number;
  kiln_try_tile(tile: number, num_calls: number): number;
  kiln_select_tile(tile: number): void;
  kiln_selected_tile(): number;
  kiln_self_check(): number;
  kiln_preprocess(
    image: number,
    width: number,
    height: number,
    channels: number,
    row_bytes: number,
    recipe: number,
    recipe_bytes: number,
    out: number,
    out_bytes: number,
    placement: number,
    placement_bytes: number,
  ): number;
  kiln_detect(request: number, request_bytes: number, detections: number, max_detections: number): number;
  kiln_top_k(scores: number, n: number, k: number, apply_softmax: number, indices: number, out_scores: number): number;
  kiln_threads_start?(num_threads: number, num_cores: number, may_sleep: number): number;
  kiln_thread_stack?(thread: number): number;
  kiln_thread_tls?(thread: number): number;
  kiln_thread_died?(thread: number): void;
  kiln_threads_running?(): number;
  kiln_threads_stop?(): void;
}

/** `what` of kiln_count. */
export const kCount = {
  profiles: 0,
  inputs: 1,
  outputs: 2,
  steps: 3,
  metadata: 4,
  profile: 5,
  weights_bytes: 6,
  arena_bytes: 7,
  peak_live_bytes: 8,
  prepared_bytes: 9,
} as const;

const kAbiVersion = 1;
const decoder = new TextDecoder();

/** A runtime instance. Views into its memory are made anew on each use, since growth detaches them. */
export class Native {
  readonly exports: RuntimeExports;

  constructor(instance: WebAssembly.Instance) {
    this.exports = instance.exports as unknown as RuntimeExports;
    const version = this.exports.kiln_abi_version?.();
    if (version !== kAbiVersion) {
      throw new KilnError(
        'VERSION',
        `the runtime's wasm has ABI version ${version}, this package needs ${kAbiVersion}: both must come from one release`,
      );
    }
  }

  bytes(pointer: number, length: number): Uint8Array {
    return new Uint8Array(this.exports.memory.buffer, pointer, length);
  }

  view(pointer: number, length: number): DataView {
    return new DataView(this.exports.memory.buffer, pointer, length);
  }

  /** A NUL-terminated UTF-8 text. */
  text(pointer: number): string {
    if (pointer === 0) return '';
    const begin = pointer >>> 0; // wasm's i32 is signed in JS
    const memory = new Uint8Array(this.exports.memory.buffer);
    return decoder.decode(memory.slice(begin, memory.indexOf(0, begin))); // a copy: it takes no shared memory
  }

  /** Where the current profile's input (io 0) or output (io 1) lies. */
  io_data(handle: number, io: 0 | 1, index: number): number {
    return this.exports.kiln_io_data(handle, io, index) >>> 0;
  }

  /** Room in wasm memory; throws OUT_OF_MEMORY, naming what it was for. */
  alloc(bytes: number, what: string): number {
    const pointer = this.exports.kiln_alloc(bytes) >>> 0;
    if (pointer === 0) throw new KilnError('OUT_OF_MEMORY', `no memory for ${what}: ${bytes} bytes`);
    return pointer;
  }

  free(pointer: number): void {
    this.exports.kiln_free(pointer);
  }

  /** The error of the call before, as a KilnError. */
  last_error(): KilnError {
    const code = error_code(this.exports.kiln_error_code());
    const node = this.text(this.exports.kiln_error_node());
    return new KilnError(code, this.text(this.exports.kiln_error_message()), { node });
  }

  /** Throws the last error if `code` is not 0. */
  check(code: number): void {
    if (code !== 0) throw this.last_error();
  }
}
