// What the commands of the CLI share: options, exit codes, printing, files.
import { mkdir, readFile, realpath, stat, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { KilnError } from '../core/errors.ts';
import { kMostThreads, type ThreadCount } from '../core/threads.ts';
import { write_atomically } from '../targets/atomic_file.ts';

/** Wrong arguments: the CLI prints the message and the command's usage and exits with 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** One command of `tilekiln`. `run` returns the exit code: 0 fine, 1 failed. */
export interface Command {
  readonly name: string;
  /** Lines after "tilekiln NAME". */
  readonly usage: string;
  readonly summary: string;
  readonly run: (args: readonly string[]) => Promise<number>;
}

type Options = NonNullable<ParseArgsConfig['options']>;

/**
 * Refuses a second value where only one counts.
 * @param values what is set, as the user wrote it, and its value
 * @throws UsageError
 */
export function check_given_once(values: Iterable<readonly [what: string, value: string]>): void {
  const given = new Map<string, string>();
  for (const [what, value] of values) {
    const first = given.get(what);
    if (first !== undefined) throw new UsageError(`${what} is given twice: ${first} and ${value}`);
    given.set(what, value);
  }
}

/** node:util parseArgs with its errors turned into UsageErrors; nothing is empty, an option without `multiple` given once. */
export function parse_options<T extends Options>(
  args: readonly string[],
  options: T,
): ReturnType<typeof parseArgs<{ options: T; allowPositionals: true; args: string[] }>> {
  const config = { args: [...args], options, allowPositionals: true, strict: true } as const;
  let parsed: ReturnType<typeof parseArgs<typeof config & { tokens: true }>>;
  try {
    parsed = parseArgs({ ...config, tokens: true });
  } catch (error) {
    throw new UsageError((error as Error).message.split('. ')[0]!);
  }
  for (const token of parsed.tokens) {
    if (token.kind === 'positional' && token.value === '') throw new UsageError('an argument is empty');
    if (token.kind === 'option' && token.value === '') throw new UsageError(`--${token.name} needs a value`);
  }
  check_given_once(
    parsed.tokens.flatMap((token): [string, string][] =>
      token.kind === 'option' && token.value !== undefined && !options[token.name]!.multiple
        ? [[`--${token.name}`, token.value]]
        : [],
    ),
  );
  return parsed;
}

/** A number option within its bounds, or the default. */
export function number_option(
  name: string,
  text: string | undefined,
  fallback: number,
  low: number,
  high: number,
  whole = false,
): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (text.trim() === '' || !(value >= low && value <= high) || (whole && !Number.isInteger(value))) {
    throw new UsageError(`--${name}=${text}; allowed: ${whole ? 'whole numbers' : 'numbers'} from ${low} to ${high}`);
  }
  return value;
}

/** --threads N or auto, the default. */
export function threads_option(text: string | undefined): ThreadCount {
  if (text === undefined || text === 'auto') return 'auto';
  if (!/^\d+$/.test(text) || Number(text) < 1 || Number(text) > kMostThreads)
    throw new UsageError(`--threads=${text}; allowed: auto, whole numbers from 1 to ${kMostThreads}`);
  return Number(text);
}

/** The bytes of a file that the user named. */
export async function read_user_file(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const bytes = await readFile(path);
    return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why = code === 'ENOENT' ? 'no such file' : code === 'EISDIR' ? 'it is a folder' : (error as Error).message;
    throw new KilnError('NOT_FOUND', `'${path}' cannot be read: ${why}`);
  }
}

/** The file that a path or file: URL leads to, through links; undefined where there is none. */
async function real_file(path: string): Promise<string | undefined> {
  try {
    const file = await realpath(path.startsWith('file:') ? fileURLToPath(path) : path);
    return (await stat(file)).isFile() ? file : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Refuses an output that is one of the inputs.
 * @param option what names the output, for the message
 * @throws UsageError
 */
export async function check_overwrites(option: string, output: string, inputs: Iterable<string>): Promise<void> {
  const file = await real_file(output);
  if (file === undefined) return;
  for (const input of inputs) {
    if ((await real_file(input)) === file)
      throw new UsageError(`${option} ${output} would overwrite the input ${input}`);
  }
}

/** Writes a file that the user asked for; one that is there stays as it is if that fails. */
export async function write_user_file(path: string, data: Uint8Array | string): Promise<void> {
  try {
    await write_atomically(path, (part) => writeFile(part, data));
  } catch (error) {
    throw new KilnError('NOT_FOUND', `'${path}' cannot be written: ${(error as Error).message}`);
  }
}

/** Makes a folder that the user named, unless it is there. */
export async function make_folder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true });
  } catch (error) {
    throw new KilnError('NOT_FOUND', `folder '${path}' cannot be made: ${(error as Error).message}`);
  }
}

/** Prints to standard output; results only, so that --json stays pure. */
export function print(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** Prints to standard error: notices, progress, errors. */
export function say(text: string): void {
  process.stderr.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** Columns padded to their widest cell; numbers to the right. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const is_number = rows[0]!.map((_, column) => rows.slice(1).every((row) => /^[-\d.,%\s]*$/.test(row[column]!)));
  return rows
    .map((row) =>
      row
        .map((cell, c) => (is_number[c] ? cell.padStart(widths[c]!) : cell.padEnd(widths[c]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
