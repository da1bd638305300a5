// Gives compiler.wasm the files that a command line names, and the external data that a model asks for.
import { existsSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, normalize } from 'node:path';
import { run_compiler, type CompilerRun } from '../compiler/run_compiler.ts';
import { KilnError } from '../core/errors.ts';
import { read_source } from '../core/source.ts';
import { UsageError, check_given_once, check_overwrites, read_user_file } from './command.ts';

const kFlagsWithoutValue = ['--json', '--check', '--observe', '--exact', '--quantize-head'];
const kFileOptions = ['--labels', '--preprocess', '--sidecar', '--bind', '--calib-stats'];
const kTextOptions = [
  '--task',
  '--precision',
  '--prepared-budget',
  '--weights',
  '--prune-threshold',
  '--dump',
  '--stage',
  '--input-layout',
  '--output-layout',
  '--calib-method',
  '--keep-float',
  '--quant-report',
];
// Read by the CLI, not by the compiler.
const kSampleOptions = ['--calibrate', '--calib-count', '--evaluate', '--accuracy-budget', '--report'];
const kShapeOptions = ['--input-shape', '--dynamic-batch', '--dynamic-size'];
const kValueOptions = [
  '-o',
  '--output',
  '--svg',
  ...kFileOptions,
  ...kTextOptions,
  ...kShapeOptions,
  ...kSampleOptions,
];
const kMostRounds = 100;

/** A compiler command line, as far as the CLI must understand it; the compiler checks it. */
export interface CompilerArgs {
  /** The first argument that is neither an option nor an option's value. */
  readonly model: string | undefined;
  /** Values of the options in order, given as "--name value" or "--name=value". */
  readonly options: readonly (readonly [name: string, value: string])[];
  /** What the compiler is given: the arguments without "--", which it does not know. */
  readonly line: readonly string[];
}

/** The value after an option. A forgotten one does not swallow the next option. */
function value_after(option: string, next: string | undefined): string {
  if (kValueOptions.includes(option) && (next === undefined || next === '-o' || next.startsWith('--'))) {
    throw new UsageError(`${option} needs a value${next === undefined ? '' : `, but ${next} follows`}`);
  }
  return next ?? '';
}

/**
 * Reads a compiler command line without its command.
 * @throws UsageError if an option has no value, or two where the last would win without a word
 */
export function read_compiler_args(args: readonly string[]): CompilerArgs {
  const parsed = split_args(args);
  const single = parsed.options.filter(([name]) => kValueOptions.includes(name) && !kShapeOptions.includes(name));
  check_given_once(
    single.map(([name, value]) => {
      if (name === '--bind') return [`--bind ${value.slice(0, value.lastIndexOf('='))}`, value];
      return [name === '--output' ? '-o' : name, value];
    }),
  );
  return parsed;
}

function split_args(args: readonly string[]): CompilerArgs {
  let model: string | undefined;
  const options: [string, string][] = [];
  for (let i = 0; i < args.length; ++i) {
    const arg = args[i]!;
    if (arg === '--') {
      const files = args.slice(i + 1).map((file) => (file.startsWith('-') ? `./${file}` : file));
      return { model: model ?? files[0], options, line: [...args.slice(0, i), ...files] };
    }
    const equals = arg.startsWith('--') ? arg.indexOf('=') : -1;
    if (!arg.startsWith('-') || arg === '-') model ??= arg;
    else if (equals > 0) options.push([arg.slice(0, equals), arg.slice(equals + 1)]);
    else if (!kFlagsWithoutValue.includes(arg)) options.push([arg, value_after(arg, args[++i])]);
  }
  return { model, options, line: args };
}

/** The value of an option under any of its names, or undefined. */
export function option_value({ options }: CompilerArgs, ...names: string[]): string | undefined {
  return options.find(([name]) => names.includes(name))?.[1];
}

/** The command line without some options and their values. */
export function without_options({ line }: CompilerArgs, names: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < line.length; ++i) {
    const arg = line[i]!;
    const equals = arg.startsWith('--') ? arg.indexOf('=') : -1;
    const name = equals > 0 ? arg.slice(0, equals) : arg;
    const takes_next = arg.length > 1 && arg.startsWith('-') && equals <= 0 && !kFlagsWithoutValue.includes(arg);
    const length = takes_next ? 2 : 1;
    if (!names.includes(name)) kept.push(...line.slice(i, i + length));
    i += length - 1;
  }
  return kept;
}

/** Files that options name; one that is not there is left out: the compiler says so, or knows it as a preset. */
async function option_files({ options }: CompilerArgs): Promise<Record<string, Uint8Array>> {
  const files: Record<string, Uint8Array> = {};
  for (const [name, value] of options) {
    if (!kFileOptions.includes(name)) continue;
    const path = name === '--bind' ? value.slice(value.lastIndexOf('=') + 1) : value;
    if (existsSync(path)) files[path] = await read_user_file(path);
  }
  return files;
}

const about_external = (model: string): string => `${basename(model)} keeps weights in an external file`;

/** Path of a model's external data, which must lie in the model's folder or below. */
function external_path(model: string, name: string): string {
  const path = normalize(name);
  if (isAbsolute(path) || path.split(/[\\/]/)[0] === '..') {
    throw new KilnError('INVALID_MODEL', `${about_external(model)} '${name}', which is outside its folder`);
  }
  return join(dirname(model), path);
}

async function read_external(model: string, path: string): Promise<Uint8Array> {
  try {
    return await read_user_file(path);
  } catch (error) {
    throw new KilnError('NOT_FOUND', `${about_external(model)}: ${(error as Error).message}`);
  }
}

/** Runs compiler commands on one model file, with more files than its own where a command names them. */
export type ModelCompiler = (
  command: readonly string[],
  more?: Readonly<Record<string, Uint8Array>>,
) => Promise<CompilerRun>;

/**
 * Reads a model file of the user's, and what the options name, for any number of compiler commands.
 * @param args what read_compiler_args made of the command line
 * @param model the model's path among it
 * @param output option and path of the file that will be written: none of the files read
 */
export async function open_model(
  args: CompilerArgs,
  model: string,
  output: readonly [option: string, path: string] | undefined,
): Promise<ModelCompiler> {
  const files = await option_files(args);
  if (output) await check_overwrites(...output, [model, ...Object.keys(files)]);
  files[model] = await read_source(model, {});
  return async (command, more = {}) => {
    for (let round = 0; round < kMostRounds; ++round) {
      const job = await run_compiler(command, { ...files, ...more });
      // The importer names the external data files it could not find: fetch them from the model's folder and try again.
      const missing = job.problems
        .filter((problem) => problem.code === 'NOT_FOUND' && problem.attribute === 'external_data')
        .map((problem) => problem.value)
        .filter((name) => !Object.hasOwn(files, name));
      if (job.exit_code === 0 || missing.length === 0) return job;
      for (const name of new Set(missing)) {
        const path = external_path(model, name);
        if (output) await check_overwrites(...output, [path]);
        files[name] = await read_external(model, path);
      }
    }
    throw new KilnError('UNSUPPORTED', `${basename(model)} asks for ever more external data files`);
  };
}

/** Runs one compiler command on a model file of the user's: see open_model. */
export async function compile_files(
  command: readonly string[],
  args: CompilerArgs,
  model: string,
  output: readonly [option: string, path: string] | undefined,
): Promise<CompilerRun> {
  return (await open_model(args, model, output))(command);
}
