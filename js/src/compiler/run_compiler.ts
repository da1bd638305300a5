// Runs a command line of compiler.wasm: bytes of files in, bytes of files out.
import { artefact_module, instantiate, type WasmSource } from '../core/artefact.ts';
import { KilnError, type Problem } from '../core/errors.ts';

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
