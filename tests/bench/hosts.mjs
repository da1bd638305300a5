// Where engines run: each in a Node process or in a Chromium page of its own, so that none shares heap, code or threads with
// another. A host opens sessions; a session is {call(method, ...args), close()}, see session.mjs for the methods.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { root } from '../../scripts/run_stage.mjs';
import { chromium_path, launch_chromium, serve } from '../support/chromium.mjs';
import { Skipped } from './engines.mjs';

const kHere = join(root, 'tests/bench');
const kPatience = 90_000; // ms without an answer: the engine hangs
const kLayersPatience = 900_000;
const kExitMs = 5_000; // a process that hangs does not see that it should end

/** No answer for a long time. */
export class Silent extends Error {}

/** An answer of a session's other side: its result, or its error thrown. */
function unwrap({ result, error }) {
  if (!error) return result;
  const is_refusal = error.name === 'Skipped' || error.code === 'UNSUPPORTED';
  throw is_refusal ? new Skipped(error.message) : Object.assign(new Error(error.message), { code: error.code });
}

/** `answer` of a method, or Silent. */
async function with_patience(answer, method, label) {
  const patience = method === 'layers' ? kLayersPatience : kPatience;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Silent(`${label}: no answer for ${patience / 1000} s`)), patience);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Node processes. `flags` are for the `node` executable; models' files are paths. */
export function node_host({ node, version, flags }) {
  return {
    name: 'node',
    version: `Node ${version}`,
    path_of: (file) => file,
    open: async (label) => {
      const options = {
        execPath: node,
        execArgv: flags,
        serialization: 'advanced',
        stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      };
      const child = fork(join(kHere, 'node_child.mjs'), [], options);
      let complaints = '';
      child.stderr.setEncoding('utf8').on('data', (text) => (complaints = (complaints + text).slice(-2000)));
      return {
        call: async (method, ...args) => {
          child.send({ method, args });
          const died = once(child, 'exit').then(([code, signal]) => {
            throw new Error(`${label}: its process ended (${signal ?? code}): ${complaints.trim()}`);
          });
          died.catch(() => {});
          const [message] = await with_patience(Promise.race([once(child, 'message'), died]), method, label);
          return unwrap(message);
        },
        close: async () => {
          if (child.exitCode !== null || child.signalCode !== null) return;
          const ended = once(child, 'exit');
          const timer = setTimeout(() => child.kill('SIGKILL'), kExitMs);
          child.disconnect();
          await ended;
          clearTimeout(timer);
        },
      };
    },
    close: async () => {},
  };
}

const kGzipped = new Map();

/** Bytes of files as they are and gzipped. */
function size_of(files) {
  let [raw, gzip] = [0, 0];
  for (const file of files) {
    const bytes = readFileSync(file);
    if (!kGzipped.has(file)) kGzipped.set(file, gzipSync(bytes, { level: 9 }).length);
    raw += bytes.length;
    gzip += kGzipped.get(file);
  }
  return { raw, gzip };
}

const kPackages = { 'onnxruntime-web': root, '@litertjs': kHere, '@tensorflow': kHere };

/**
 * Pages of one headless Chromium, served with COOP and COEP.
 * @throws Skipped without Chromium
 */
export async function chromium_host({ folder, flags }) {
  if (!chromium_path()) throw new Skipped('no Chromium on this machine (scripts/setup.sh browser)');
  const mounts = { '/': kHere, '/dist/': join(root, 'dist'), '/models/': folder };
  for (const [name, at] of Object.entries(kPackages)) mounts[`/packages/${name}/`] = join(at, 'node_modules', name);
  const served = new Set(); // files of engines since the last open()
  let output;
  const handler = (path, response, request) => {
    const mount = Object.keys(mounts).find((prefix) => prefix !== '/' && path.startsWith(prefix));
    if (mount === '/dist/' || mount?.startsWith('/packages/'))
      served.add(join(mounts[mount], path.slice(mount.length)));
    if (path !== '/output') return false;
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      output = new Float32Array(new Uint8Array(Buffer.concat(chunks)).buffer);
      response.end();
    });
    return true;
  };
  const headers = {
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-embedder-policy': 'require-corp',
    'cache-control': 'no-store', // each engine's download is its own, and nobody's compiled code is cached
  };
  const server = await serve(mounts, { headers, handler });
  const browser = await launch_chromium({ args: flags });
  const version = browser.context.browser()?.version();
  return {
    name: 'chromium',
    version: `Chromium ${version ?? 'of this machine'}`,
    path_of: (file) => basename(file),
    open: async (label) => {
      served.clear();
      const page = await browser.context.newPage();
      page.setDefaultTimeout(0);
      page.on('pageerror', (error) => console.error(`${label}: ${error.message}`));
      await page.goto(`${server.url}/page.html`);
      await page.waitForFunction('window.bench_call');
      return {
        call: async (method, ...args) => {
          await page.bringToFront();
          const answer = page.evaluate(([name, list]) => window.bench_call(name, list), [method, args]);
          const result = unwrap(await with_patience(answer, method, label));
          if (method !== 'open') return result;
          return { ...result, output, download: size_of([...served].filter(existsSync)) };
        },
        close: () => page.close(),
      };
    },
    close: async () => {
      await browser.close();
      await server.close();
    },
  };
}
