// Picks the runtime artefact that this engine can run, compiles it once, and makes instances of it.
import { full_message, KilnError } from './errors.ts';
import { value_text } from './options.ts';
import { platform } from './platform.ts';
import { chosen_tile } from './tile_choice.ts';
import { automatic_threads, single_thread_reason } from './threads.ts';

/** Which instructions the runtime uses. `relaxed` adds relaxed SIMD (fused multiply-add) to `simd`. */
export type SimdLevel = 'simd' | 'relaxed';

/** Where a wasm artefact comes from instead of beside the module. */
export type WasmSource = string | URL | Response | ArrayBuffer | Uint8Array | WebAssembly.Module;

// (module (func (result v128) i32.const 0 i8x16.splat))
const kSimdProbe = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11,
];
// (module (func (param v128) (result v128) local.get 0 ×3 f32x4.relaxed_madd))
const kRelaxedProbe = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 6, 1, 96, 1, 123, 1, 123, 3, 2, 1, 0, 10, 13, 1, 11, 0, 32, 0, 32, 0, 32, 0, 253, 133,
  2, 11,
];

function validates(bytes: readonly number[]): boolean {
  return typeof WebAssembly === 'object' && WebAssembly.validate(new Uint8Array(bytes));
}

/** What this engine can run, and why not more. */
export interface Capabilities {
  /** Needed: without it nothing runs. */
  readonly simd: boolean;
  /** Relaxed SIMD: fused multiply-add, about twice as fast. */
  readonly relaxed: boolean;
  /** Threads that a run uses if `load` is not told: cores, at most 8, or 1 where there can be no more. */
  readonly threads: number;
  /** Register tile that models get, timed when the first one was loaded; undefined before. */
  readonly tile: string | undefined;
  /** A sentence for each thing that is missing, with the remedy where there is one. */
  readonly notes: readonly string[];
}

const kNoSimd =
  'this JavaScript engine has no WebAssembly SIMD; needed: Chrome 91, Firefox 89, Safari 16.4, Node 16.4 or newer';
const kNoRelaxed = 'this engine has no relaxed SIMD (Node 20: --experimental-wasm-relaxed-simd)';

/**
 * What this engine can run.
 * @example
 * const { relaxed, notes } = capabilities();
 */
export function capabilities(): Capabilities {
  const simd = validates(kSimdProbe);
  const relaxed = validates(kRelaxedProbe);
  const reason = single_thread_reason();
  const notes = [
    ...(simd ? [] : [kNoSimd]),
    ...(relaxed ? [] : [kNoRelaxed]),
    ...(reason ? [`one thread: ${reason}`] : []),
  ];
  return { simd, relaxed, threads: automatic_threads(), tile: chosen_tile(), notes };
}

const compiled = new Map<string, Promise<WebAssembly.Module>>();

const kRemedy =
  'the server must serve the file itself (not index.html for an unknown path); copy it from the package, or pass its URL as `wasm`';

async function compile_bytes(bytes: Uint8Array<ArrayBuffer>, where: string): Promise<WebAssembly.Module> {
  const is_wasm = bytes.length >= 8 && bytes[0] === 0 && bytes[1] === 0x61 && bytes[2] === 0x73 && bytes[3] === 0x6d;
  if (!is_wasm) {
    const start = new TextDecoder().decode(bytes.subarray(0, 64)).trimStart().toLowerCase();
    const got = start.startsWith('<')
      ? 'got HTML'
      : bytes.length === 0
        ? 'got an empty file'
        : 'got something that is no wasm';
    throw new KilnError('NOT_A_MODEL', `${got} from ${where} instead of the runtime's wasm: ${kRemedy}`);
  }
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw new KilnError('INTERNAL', `the wasm from ${where} does not compile: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function compile_from(source: Response | Uint8Array<ArrayBuffer>, where: string): Promise<WebAssembly.Module> {
  if (source instanceof Uint8Array) return compile_bytes(source, where);
  if (!source.ok) throw new KilnError('NOT_FOUND', `${where}: the server answered ${source.status}: ${kRemedy}`);
  const type = source.headers.get('content-type') ?? '';
  if (type.startsWith('application/wasm') && typeof WebAssembly.compileStreaming === 'function') {
    try {
      return await WebAssembly.compileStreaming(source);
    } catch (error) {
      throw new KilnError('INTERNAL', `the wasm from ${where} does not compile: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }
  return compile_bytes(new Uint8Array(await source.arrayBuffer()), where);
}

/**
 * The compiled module of an artefact, from beside the package or from `override`; compiled once a process.
 * @param name file name, like "kiln-simd.wasm"
 */
export async function artefact_module(name: string, override?: WasmSource): Promise<WebAssembly.Module> {
  if (override instanceof WebAssembly.Module) return override;
  if (override instanceof ArrayBuffer) return compile_bytes(new Uint8Array(override), 'the bytes given as `wasm`');
  if (override instanceof Uint8Array) return compile_bytes(new Uint8Array(override), 'the bytes given as `wasm`');
  if (typeof Response !== 'undefined' && override instanceof Response)
    return compile_from(override, `'${override.url}'`);
  if (override !== undefined && typeof override !== 'string' && !(override instanceof URL)) {
    throw new KilnError(
      'INVALID_ARGUMENT',
      `wasm=${value_text(override)}; allowed: URL or path string, URL, Response, ArrayBuffer, Uint8Array, WebAssembly.Module`,
    );
  }
  const where = override === undefined ? platform().artefact_url(name) : String(override);
  let module = compiled.get(where);
  if (!module) {
    module = (async () => {
      const is_path = platform().read_file && override !== undefined && !/^(https?|data|blob):/.test(where);
      const open =
        override === undefined ? platform().open_artefact(name) : is_path ? platform().read_file!(where) : fetch(where);
      const opened = await open.catch((error: Error) => {
        throw new KilnError(
          'NOT_FOUND',
          `the runtime's wasm '${where}' cannot be read: ${full_message(error)}; ${kRemedy}`,
          {
            cause: error,
          },
        );
      });
      return compile_from(opened, `'${where}'`);
    })();
    compiled.set(where, module);
    module.catch(() => compiled.delete(where)); // a failed download may be tried again
  }
  return module;
}

/** Whether the artefact runs over shared memory, which is made outside. */
export function is_threaded(module: WebAssembly.Module): boolean {
  return WebAssembly.Module.imports(module).some(({ kind }) => kind === 'memory');
}

/** Imports that the artefacts may name: no file system, no clock, no environment. */
function stub_imports(module: WebAssembly.Module, memory: WebAssembly.Memory | undefined): WebAssembly.Imports {
  const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {};
  for (const { module: space, name, kind } of WebAssembly.Module.imports(module)) {
    if (kind === 'memory' && memory) {
      (imports[space] ??= {})[name] = memory;
      continue;
    }
    if (kind !== 'function') throw new KilnError('INTERNAL', `the artefact imports a ${kind} '${space}.${name}'`);
    const aborts = name === 'proc_exit';
    (imports[space] ??= {})[name] = aborts
      ? (code: number): never => {
          throw new KilnError('INTERNAL', `the artefact stopped with code ${code}`);
        }
      : (): number => (name === 'emscripten_notify_memory_growth' ? 0 : 52); // WASI ENOSYS
  }
  return imports;
}

/**
 * A fresh instance with memory of its own: dropping it gives the memory back.
 * @param memory of a threaded artefact, used by nobody else yet
 */
export async function instantiate(
  module: WebAssembly.Module,
  memory?: WebAssembly.Memory,
): Promise<WebAssembly.Instance> {
  try {
    const instance = await WebAssembly.instantiate(module, stub_imports(module, memory));
    const start = instance.exports['_initialize'] ?? instance.exports['__wasm_call_ctors'];
    (start as (() => void) | undefined)?.();
    return instance;
  } catch (error) {
    if (error instanceof KilnError) throw error;
    const code = error instanceof RangeError ? 'OUT_OF_MEMORY' : 'INTERNAL';
    throw new KilnError(code, `the runtime could not be set up: ${(error as Error).message}`, { cause: error });
  }
}

const kSimdChoices = ['auto', 'simd', 'relaxed'];

/** The artefact to use: what was asked for if the engine can, else the best it can. */
export function pick_simd(wanted: SimdLevel | 'auto'): SimdLevel {
  if (!kSimdChoices.includes(wanted)) {
    throw new KilnError('INVALID_ARGUMENT', `simd: '${wanted}'; allowed: ${kSimdChoices.join(', ')}`);
  }
  const features = capabilities();
  if (!features.simd) throw new KilnError('UNSUPPORTED', kNoSimd);
  if (wanted === 'relaxed' && !features.relaxed) {
    throw new KilnError('UNSUPPORTED', `simd: 'relaxed' is asked for, but ${kNoRelaxed}`);
  }
  return wanted === 'auto' ? (features.relaxed ? 'relaxed' : 'simd') : wanted;
}
