// Gives compiler.wasm the files that a command line names, and the external data that a model asks for.
import { basename, dirname, isAbsolute, join, normalize } from 'node:path';
import { run_compiler, type CompilerRun } from '../compiler/compile.ts';
import { KilnError } from '../core/errors.ts';
import { read_source } from '../core/source.ts';
import { read_user_file } from './command.ts';

const kFileOptions = ['--labels', '--preprocess', '--sidecar'];
const kPresets = ['ultralytics', 'yolox', 'torchvision', 'keras', 'raw'];
const kMostRounds = 100;

/** Files that options of a compiler command line name, read from disk. `--preprocess` may be a preset instead. */
async function option_files(args: readonly string[]): Promise<Record<string, Uint8Array>> {
  const files: Record<string, Uint8Array> = {};
  for (let i = 0; i + 1 < args.length; ++i) {
    const value = args[i + 1]!;
    if (args[i] === '--bind') {
      const path = value.slice(value.indexOf('=') + 1);
      files[path] = await read_user_file(path);
    } else if (kFileOptions.includes(args[i]!) && !(args[i] === '--preprocess' && kPresets.includes(value))) {
      files[value] = await read_user_file(value);
    }
  }
  return files;
}

/** External data of a model, which must lie in the model's folder or below. */
async function read_external(model: string, name: string): Promise<Uint8Array> {
  const about = `${basename(model)} keeps weights in an external file`;
  const path = normalize(name);
  if (isAbsolute(path) || path.split(/[\\/]/)[0] === '..') {
    throw new KilnError('INVALID_MODEL', `${about} '${name}', which is outside its folder`);
  }
  try {
    return await read_user_file(join(dirname(model), path));
  } catch (error) {
    throw new KilnError('NOT_FOUND', `${about}: ${(error as Error).message}`);
  }
}

/**
 * Runs a compiler command on a model file of the user's.
 * @param args command line after "tilekiln", the model's path among it
 * @param model that path
 */
export async function compile_files(args: readonly string[], model: string): Promise<CompilerRun> {
  const files = await option_files(args);
  files[model] = await read_source(model, {});
  for (let round = 0; round < kMostRounds; ++round) {
    const job = await run_compiler(args, files);
    // The importer names the external data files it could not find: fetch them from the model's folder and try again.
    const missing = job.problems
      .filter((problem) => problem.code === 'NOT_FOUND' && problem.attribute === 'external_data')
      .map((problem) => problem.value)
      .filter((name) => !Object.hasOwn(files, name));
    if (job.exit_code === 0 || missing.length === 0) return job;
    for (const name of new Set(missing)) files[name] = await read_external(model, name);
  }
  throw new KilnError('UNSUPPORTED', `${basename(model)} asks for ever more external data files`);
}
