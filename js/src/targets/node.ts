// Node's side of Platform: files are read by path, artefacts from beside the module.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Platform } from '../core/platform.ts';

const read = async (path: string): Promise<Uint8Array<ArrayBuffer>> => {
  const bytes = await readFile(path.startsWith('file:') ? fileURLToPath(path) : path);
  return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
};

/** @param module_url import.meta.url of the entry point, beside which the artefacts lie */
export function node_platform(module_url: string): Platform {
  return {
    name: 'node',
    read_file: read,
    open_artefact: (name) => read(new URL(name, module_url).href),
    artefact_url: (name) => new URL(name, module_url).href,
  };
}
