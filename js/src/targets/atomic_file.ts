// Files written whole or not at all: beside the target first, then renamed over it.
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, chmod, lstat, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';

/**
 * Writes a file so that its path holds the old bytes until all new ones are there, also if writing fails.
 * A symbolic link is followed; what is no file (a device, a pipe, a link to nothing) is written to directly.
 * The folder must allow new files.
 * @param path what is written
 * @param write writes the path it is given, which has the same ending
 * @throws the error of `write` or of the file system
 */
export async function write_atomically(path: string, write: (path: string) => Promise<unknown>): Promise<void> {
  const old = await stat(path).catch(() => undefined);
  if (!old?.isFile() && (await lstat(path).catch(() => undefined))) {
    await write(path);
    return;
  }
  const target = old ? await realpath(path) : path;
  if (old) await access(target, constants.W_OK);
  const part = join(dirname(target), `.${randomBytes(6).toString('hex')}.part${extname(target)}`);
  try {
    await write(part);
    if (old) await chmod(part, old.mode);
    await rename(part, target);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
