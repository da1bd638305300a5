// One headless Chromium for a test file, and pages that have the package (tests/browser/pages/blank.html).
import { join } from 'node:path';
import { after } from 'node:test';
import { root } from '../../scripts/run_stage.mjs';
import { chromium_path, launch_chromium, serve } from './chromium.mjs';

/** For node:test's `skip`: false, or why. */
export const chromium_absent = chromium_path() ? false : 'no Chromium on this machine (scripts/setup.sh browser)';

let launching;
after(async () => (await launching?.catch(() => undefined))?.close()); // of the test file that imports this

/** The browser of this test file, closed after its last test. */
export const browser = () => (launching ??= launch_chromium());

/**
 * Serves dist/, the test pages and what `files` names, and opens the blank page with the package loaded.
 * @param t node:test context
 * @param {{headers?: object, files?: Record<string, Uint8Array | string>, mounts?: Record<string, string>, handler?: Function}} options
 * @returns {Promise<{page: import('playwright-core').Page, url: string, complaints: string[]}>} `complaints` collects
 *   uncaught errors and console errors
 */
export async function open_page(t, { headers, files = {}, mounts = {}, handler } = {}) {
  const server = await serve(
    { '/': join(root, 'tests/browser/pages'), '/dist/': join(root, 'dist'), ...mounts },
    {
      headers,
      handler: (path, response, request) => {
        if (handler?.(path, response, request)) return true;
        if (!Object.hasOwn(files, path)) return false;
        response.writeHead(200, { 'content-length': files[path].length }).end(files[path]);
        return true;
      },
    },
  );
  t.after(() => server.close());
  const { context } = await browser();
  const page = await context.newPage();
  t.after(() => page.close());
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(`${server.url}/blank.html`);
  await page.waitForFunction('window.api_ready');
  return { page, url: server.url, complaints };
}

/** The Float32Array behind window.to_base64's text. */
export function floats_of(base64) {
  const bytes = new Uint8Array(Buffer.from(base64, 'base64'));
  return new Float32Array(bytes.buffer, 0, bytes.length / 4);
}
