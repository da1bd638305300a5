// tilekiln run: tensors from files in, tensors to files out.
import { join } from 'node:path';
import { run_compiler } from '../compiler/run_compiler.ts';
import { KilnError } from '../core/errors.ts';
import { load } from '../core/model.ts';
import { read_npy, write_npy } from '../core/npy.ts';
import type { Tensor } from '../core/tensor.ts';
import {
  UsageError,
  check_given_once,
  check_overwrites,
  make_folder,
  parse_options,
  print,
  read_user_file,
  threads_option,
  write_user_file,
  type Command,
} from './command.ts';

/** A tensor from a .npy file or an ONNX TensorProto (.pb). */
async function read_tensor_file(path: string): Promise<Tensor> {
  const bytes = await read_user_file(path);
  if (!path.endsWith('.pb')) return read_npy(bytes, `'${path}'`);
  const job = await run_compiler(['tensor', path, '-o', 'tensor.npy'], { [path]: bytes });
  const npy = job.result('tensor.npy');
  if (job.exit_code !== 0 || !npy)
    throw new KilnError('NOT_A_MODEL', `'${path}': ${job.stderr.trim().replace(/^error: /, '')}`);
  return read_npy(npy, `'${path}'`);
}

/** An output's name as a file name. */
export function file_name_of(name: string): string {
  return name.replace(/[^A-Za-z0-9_.-]/g, '_');
}

function output_path(folder: string, name: string): string {
  return join(folder, `${file_name_of(name)}.npy`);
}

function check_file_names(outputs: readonly string[]): void {
  const taken = new Map<string, string>();
  for (const name of outputs) {
    const file = file_name_of(name);
    const other = taken.get(file);
    if (other !== undefined) {
      throw new KilnError('UNSUPPORTED', `outputs '${other}' and '${name}' would both be written to ${file}.npy`);
    }
    taken.set(file, name);
  }
}

export const run_command: Command = {
  name: 'run',
  usage: 'MODEL.kiln --input NAME=FILE.npy|FILE.pb … --output-dir DIR [--threads N|auto]',
  summary: 'run a bundle on tensors from files',
  run: async (args) => {
    const { values, positionals } = parse_options(args, {
      'input': { type: 'string', multiple: true },
      'output-dir': { type: 'string' },
      'threads': { type: 'string' },
    });
    if (positionals.length !== 1) throw new UsageError(`run needs one bundle, got ${positionals.length}`);
    const folder = values['output-dir'];
    if (folder === undefined) throw new UsageError('run needs --output-dir DIR');
    const threads = threads_option(values.threads);
    using model = await load(positionals[0]!, { threads });
    const files = (values.input ?? []).map((input): [name: string, path: string] => {
      const equals = input.indexOf('=');
      const only = model.inputs.length === 1 && equals < 0 ? model.inputs[0]!.name : undefined;
      if (equals <= 0 && only === undefined) throw new UsageError(`--input ${input}; needed: NAME=FILE`);
      return [only ?? input.slice(0, equals), input.slice(equals + 1)];
    });
    if (files.length === 0 && model.inputs.length > 0) {
      const needed = model.inputs.map(({ name, dtype, shape }) => `${name} (${dtype}, [${shape.join(', ')}])`);
      throw new UsageError(`run needs --input NAME=FILE for ${needed.join(', ')}`);
    }
    check_given_once(files.map(([name, path]) => [`input '${name}'`, path]));
    const feeds: Record<string, Tensor> = {};
    for (const [name, path] of files) feeds[name] = await read_tensor_file(path);
    check_file_names(model.outputs.map(({ name }) => name));
    const read = [positionals[0]!, ...files.map(([, path]) => path)];
    for (const { name } of model.outputs) await check_overwrites('output', output_path(folder, name), read);
    const outputs = await model.run(feeds);
    await make_folder(folder);
    for (const [name, tensor] of Object.entries(outputs)) {
      const file = output_path(folder, name);
      await write_user_file(file, write_npy(tensor));
      print(`${file}: ${tensor.dtype} [${tensor.shape.join(', ')}]`);
    }
    return 0;
  },
};
