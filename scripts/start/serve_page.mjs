// Serves the demo page, the package, the bundles and the sample photos on loopback.
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname, join, normalize } from 'node:path';
import { root } from '../run_stage.mjs';
import { sample_photos } from './faces.mjs';

const kTypes = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.wasm': 'application/wasm',
  '.jpg': 'image/jpeg',
  '.json': 'application/json',
};

/** The path on disk for a URL path, or undefined. Nothing outside the folders named here is served. */
function file_for(path, bundles) {
  const bundle = bundles.find(({ name }) => path === `/bundles/${name}.kiln`);
  if (bundle) return bundle.bundle;
  const photo = sample_photos().find((file) => path === `/samples/${basename(file)}`);
  if (photo) return photo;
  const inside = normalize(path);
  if (inside.startsWith('/dist/')) return join(root, inside);
  return join(root, 'web', inside === '/' ? 'index.html' : inside);
}

/**
 * @param bundles from make_bundles
 * @param {number} port 0 takes a free one
 * @returns {Promise<import('node:http').Server>} listening on 127.0.0.1
 */
export function serve_page(bundles, port) {
  const list = bundles
    .filter(({ task }) => task?.startsWith('detect:') || task === 'classify')
    .map(({ name, title, task }) => ({ name, title, task, url: `bundles/${name}.kiln` }));
  const samples = sample_photos().map((file) => `samples/${basename(file)}`);
  const server = createServer((request, response) => {
    let path;
    try {
      path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    } catch {
      response.writeHead(400).end('bad request');
      return;
    }
    response.setHeader('cross-origin-opener-policy', 'same-origin');
    response.setHeader('cross-origin-embedder-policy', 'require-corp');
    response.setHeader('cache-control', 'no-cache');
    if (path === '/models.json') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ models: list, samples }));
      return;
    }
    const file = file_for(path, bundles);
    if (!existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404, { 'content-type': 'text/plain' }).end(`no such file: ${path}`);
      return;
    }
    const type = kTypes[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type, 'content-length': statSync(file).size });
    createReadStream(file).pipe(response);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
