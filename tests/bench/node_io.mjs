// What engines.mjs needs of its host, in Node.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Skipped } from './engines.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(here));
const require_here = createRequire(import.meta.url);

const import_file = (file) => import(pathToFileURL(join(root, file)));

/** The file of an entry of our own package.json's exports, for Node. */
function own_export(entry) {
  const found = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).exports[entry];
  const file = typeof found === 'string' ? found : (found?.node ?? found?.default);
  if (!file || !existsSync(join(root, file))) throw new Skipped(`this package has no '${entry}'`);
  return file;
}

const kModules = {
  'tilekiln': () => import_file(own_export('.')),
  'tilekiln/node-fast': async () => {
    const fast = await import_file(own_export('./node-fast'));
    return fast.load ? fast : import_file(own_export('.'));
  },
  'onnxruntime-web': () => import('onnxruntime-web'),
  'onnxruntime-node': () => require_here('onnxruntime-node'),
  '@tensorflow/tfjs': () => ({
    ...require_here('@tensorflow/tfjs-core'),
    wasm: require_here('@tensorflow/tfjs-backend-wasm'),
  }),
};

export const node_io = {
  host: 'node',
  module: async (name) => kModules[name](),
  folder: (name) => join(here, 'node_modules', name, 'dist/'),
  bytes: async (file) => {
    const bytes = readFileSync(file);
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length).slice();
  },
};
