// Samples of the command line: a folder of pictures, class folders allowed, or a .npy file.
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { KilnError } from '../core/errors.ts';
import { read_npy } from '../core/npy.ts';
import { spread, type Sample, type Samples } from '../quant/samples.ts';
import { read_image } from '../targets/node_image.ts';
import { read_user_file } from './command.ts';

/** What an option's DIR or FILE.npy gives. */
export interface SampleFiles {
  readonly samples: Samples;
  readonly count: number;
  /** Class folder of each sample; undefined if the pictures lie in no such folders. */
  readonly folders: readonly string[] | undefined;
}

const kEndings = ['.jpg', '.jpeg', '.png', '.webp', '.gif', '.avif', '.tif', '.tiff'];

const is_picture = (file: string): boolean => kEndings.some((ending) => file.toLowerCase().endsWith(ending));
const by_code_units = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0); // the same order everywhere

async function list_pictures(option: string, folder: string): Promise<string[]> {
  const files = await readdir(folder, { recursive: true });
  const pictures = files.filter(is_picture).sort(by_code_units);
  if (pictures.length > 0) return pictures.map((file) => join(folder, file));
  throw new KilnError(
    'NOT_FOUND',
    `${option}: no picture in folder '${folder}'; allowed endings: ${kEndings.join(', ')}`,
  );
}

/** First folder of each path below `root`; undefined unless all have one, and there are two or more. */
function class_folders(root: string, files: readonly string[]): string[] | undefined {
  const parts = files.map((file) => relative(root, file).split(sep));
  if (parts.some(({ length }) => length < 2)) return undefined;
  const folders = parts.map(([first]) => first!);
  return new Set(folders).size > 1 ? folders : undefined;
}

async function* read_pictures(files: readonly string[]): AsyncGenerator<Sample> {
  for (const file of files) yield await read_image(file);
}

/**
 * The samples that an option names. Pictures are decoded when they are needed, in each pass anew.
 * @param option its name, for messages
 * @param count how many are taken at most, spread evenly over the sorted paths
 */
export async function read_sample_files(option: string, path: string, count: number): Promise<SampleFiles> {
  const found = await stat(path).catch(() => undefined);
  if (!found) throw new KilnError('NOT_FOUND', `${option}: '${path}' cannot be read: no such file or folder`);
  if (found.isDirectory()) {
    const all = await list_pictures(option, path);
    const files = spread(all.length, count).map((index) => all[index]!);
    return { samples: () => read_pictures(files), count: files.length, folders: class_folders(path, files) };
  }
  if (!path.toLowerCase().endsWith('.npy')) {
    throw new KilnError('INVALID_ARGUMENT', `${option}: '${path}'; allowed: a folder of pictures, or a .npy file`);
  }
  const tensor = read_npy(await read_user_file(path), `'${path}'`);
  return { samples: tensor, count: Math.min(count, tensor.shape[0] ?? 0), folders: undefined };
}
