// The package in a page without its wasm: what the engine can do, and what is said when the wasm is not served.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chromium_absent, open_page } from '../support/page.mjs';

const options = { skip: chromium_absent };

test('capabilities_without_isolation', options, async (t) => {
  const { page, complaints } = await open_page(t);
  const { isolated, can } = await page.evaluate(() => ({ isolated: crossOriginIsolated, can: api.capabilities() }));
  assert.equal(isolated, false);
  assert.equal(can.simd, true);
  assert.equal(can.relaxed, true);
  assert.equal(can.threads, 1);
  const [note, ...more] = can.notes;
  assert.match(
    note,
    /^one thread: .*'Cross-Origin-Opener-Policy: same-origin'.*'Cross-Origin-Embedder-Policy: require-/,
  );
  assert.deepEqual(more, []);
  assert.deepEqual(complaints, []);
});

/** What load() of some bundle bytes says in the page. */
const load_error = (page, load_options = {}) =>
  page.evaluate(
    (more) =>
      api
        .load(new TextEncoder().encode('KILN and more'), more)
        .catch(({ name, code, message }) => ({ name, code, message })),
    load_options,
  );

test('a_page_served_instead_of_the_wasm', options, async (t) => {
  const { page, url } = await open_page(t, {
    handler: (path, response) => {
      if (!path.endsWith('.wasm')) return false;
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>App</title>');
      return true;
    },
  });
  const error = await load_error(page);
  assert.equal(error.name, 'KilnError');
  assert.equal(error.code, 'NOT_A_MODEL');
  assert.ok(error.message.startsWith(`got HTML from '${url}/dist/kiln-relaxed.wasm'`), error.message);
  assert.match(error.message, /copy it from the package, or pass its URL as `wasm`/);
});

test('a_missing_wasm_and_an_unreachable_one', options, async (t) => {
  const { page, url } = await open_page(t, {
    handler: (path, response) => path.endsWith('.wasm') && Boolean(response.writeHead(404).end()),
  });
  const missing = await load_error(page, { simd: 'simd' });
  assert.deepEqual([missing.name, missing.code], ['KilnError', 'NOT_FOUND']);
  assert.ok(missing.message.startsWith(`'${url}/dist/kiln-simd.wasm': the server answered 404`), missing.message);
  const unreachable = await load_error(page, { wasm: 'http://127.0.0.1:9/kiln.wasm' });
  assert.deepEqual([unreachable.name, unreachable.code], ['KilnError', 'NOT_FOUND']);
  assert.match(unreachable.message, /127\.0\.0\.1:9\/kiln\.wasm' cannot be read/);
});

test('models_that_are_pages_or_missing', options, async (t) => {
  const { page } = await open_page(t, { files: { '/page.kiln': '<!doctype html><p>hello' } });
  const errors = await page.evaluate(async () => {
    const caught = ({ code, message }) => ({ code, message });
    return Promise.all(
      ['/page.kiln', '/no.kiln', 'http://127.0.0.1:9/m.kiln'].map((url) => api.load(url).catch(caught)),
    );
  });
  assert.deepEqual(
    errors.map(({ code }) => code),
    ['NOT_A_MODEL', 'NOT_FOUND', 'NOT_FOUND'],
  );
  assert.match(errors[0].message, /'\/page\.kiln': got HTML instead of a bundle/);
  assert.match(errors[1].message, /'\/no\.kiln': the server answered 404/);
  assert.match(errors[2].message, /could not be fetched/);
});
