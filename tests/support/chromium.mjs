// Real headless Chromium for browser tests, and a small static server on loopback.
import { createReadStream, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { toolchain_info } from '../../scripts/run_stage.mjs';

const kTypes = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
  '.jpg': 'image/jpeg',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
};

/**
 * Serves folders on a free loopback port.
 * @param {Record<string, string>} mounts URL prefix → folder; the longest prefix wins
 * @param {{headers?: Record<string, string>, handler?: (path: string, response: import('node:http').ServerResponse) => boolean}} options
 *   headers for every answer; `handler` may answer first
 * @returns {Promise<{url: string, close: () => Promise<void>}>}
 */
export async function serve(mounts, options = {}) {
  const prefixes = Object.keys(mounts).sort((a, b) => b.length - a.length);
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    for (const [name, value] of Object.entries(options.headers ?? {})) response.setHeader(name, value);
    if (options.handler?.(path, response, request)) return;
    const prefix = prefixes.find((candidate) => path.startsWith(candidate));
    const file = prefix === undefined ? '' : join(mounts[prefix], normalize('/' + path.slice(prefix.length)));
    if (!file || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404).end('not found');
      return;
    }
    response.writeHead(200, {
      'content-type': kTypes[extname(file)] ?? 'application/octet-stream',
      'content-length': statSync(file).size,
    });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

/** The Chromium that scripts/setup.sh found, or undefined. */
export function chromium_path() {
  const path = toolchain_info().chromium;
  return path && existsSync(path) ? path : undefined;
}

const kLaunchAttempts = 3; // a machine under load may stop a browser while it starts
const kLaunchTimeout = 60_000;

/**
 * Starts Chromium with a fresh profile.
 * @param {{args?: string[], viewport?: {width: number, height: number}}} options
 * @returns {Promise<{context: import('playwright-core').BrowserContext, close: () => Promise<void>}>}
 */
export async function launch_chromium(options = {}) {
  for (let attempt = 1; ; ++attempt) {
    try {
      return await launch_once(options);
    } catch (error) {
      if (error.name !== 'TimeoutError' || attempt === kLaunchAttempts) throw error;
    }
  }
}

async function launch_once(options) {
  const { chromium } = await import('playwright-core');
  const profile = mkdtempSync(join(tmpdir(), 'tilekiln-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: chromium_path(),
    headless: true,
    timeout: kLaunchTimeout,
    viewport: options.viewport ?? { width: 1280, height: 800 },
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      ...(options.args ?? []),
    ],
  });
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}
