// Entry point of Node: files are read by path, artefacts from beside the module.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { set_platform } from './core/platform.ts';

const read = async (path: string): Promise<Uint8Array<ArrayBuffer>> => {
  const bytes = await readFile(path.startsWith('file:') ? fileURLToPath(path) : path);
  return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
};

set_platform({
  name: 'node',
  read_file: read,
  open_artefact: (name) => read(new URL(name, import.meta.url).href),
  artefact_url: (name) => new URL(name, import.meta.url).href,
});

export * from './api.ts';
export { read_image as readImage } from './targets/node_image.ts';
export { write_annotated as writeAnnotated, type Mark } from './targets/annotate.ts';
