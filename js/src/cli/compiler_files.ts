// Gives compiler.wasm the files that a command line names, and the external data that a model asks for.
import { basename, dirname, join } from 'node:path';
import { run_compiler, type CompilerRun } from '../compiler/compile.ts';
import { KilnError } from '../core/errors.ts';
import { read_source } from '../core/source.ts';
import { read_user_file } from './command.ts';

const kFileOptions = ['--labels', '--preprocess', '--sidecar'];
const kPresets = ['ultralytics', 'yolox', 'torchvision', 'keras', 'raw'];
const kMostExternalFiles = 10_000;

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

/**
 * Runs a compiler command on a model file of the user's.
 * @param args command line after "tilekiln", the model's path among it
 * @param model that path
 */
export async function compile_files(args: readonly string[], model: string): Promise<CompilerRun> {
  const files = await option_files(args);
  files[model] = await read_source(model, {});
  for (let round = 0; round < kMostExternalFiles; ++round) {
    const job = await run_compiler(args, files);
    // The importer names each external data file it could not find: fetch it from the model's folder and try again.
    const missing = job.problems.find(
      (problem) => problem.code === 'NOT_FOUND' && problem.attribute === 'external_data',
    )?.value;
    if (job.exit_code === 0 || missing === undefined || missing in files) return job;
    try {
      files[missing] = await read_user_file(join(dirname(model), missing));
    } catch (error) {
      throw new KilnError(
        'NOT_FOUND',
        `${basename(model)} keeps weights in an external file: ${(error as Error).message}`,
      );
    }
  }
  throw new KilnError('UNSUPPORTED', `${basename(model)} has more than ${kMostExternalFiles} external data files`);
}
