// tilekiln fetch against a local server: a good file is verified and kept, anything else leaves no file behind.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../scripts/run_stage.mjs';
import { temp_folder } from '../support/files.mjs';
import { listen } from '../support/listen.mjs';

const kModel = Buffer.from(Array.from({ length: 50_000 }, (_, i) => (i * i) & 255));
const sha256 = createHash('sha256').update(kModel).digest('hex');

/** An installed package whose recipes point at the server. */
async function make_package(t) {
  const folder = temp_folder(t);
  cpSync(join(root, 'dist/cli.js'), join(folder, 'dist/cli.js'));
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  const url = await listen(t, {
    '/good.onnx': (_, response) => response.writeHead(200, { 'content-length': kModel.length }).end(kModel),
    '/other.onnx': (_, response) => response.end(kModel.subarray(1)),
    '/page.onnx': (_, response) => response.end('<!doctype html>'),
    '/broken.onnx': (_, response) => {
      response.writeHead(200, { 'content-length': kModel.length });
      response.write(kModel.subarray(0, 20_000));
      setTimeout(() => response.destroy(), 20);
    },
  });
  const recipes = {
    good: { url: `${url}/good.onnx`, sha256, compile: 'tilekiln compile good.onnx -o good.kiln' },
    other: { url: `${url}/other.onnx`, sha256 },
    page: { url: `${url}/page.onnx`, sha256 },
    broken: { url: `${url}/broken.onnx`, sha256 },
    missing: { url: `${url}/missing.onnx`, sha256 },
    unhashed: { url: `${url}/good.onnx`, sha256: null },
  };
  for (const [name, recipe] of Object.entries(recipes)) {
    mkdirSync(join(folder, 'models/family', name), { recursive: true });
    const file = join(folder, 'models/family', name, 'model.json');
    writeFileSync(file, JSON.stringify({ name, licence: 'Apache-2.0', ...recipe }));
  }
  const cwd = join(folder, 'work');
  mkdirSync(cwd);
  const fetch_model = (...args) =>
    new Promise((resolve) => {
      const child = spawn(process.execPath, [join(folder, 'dist/cli.js'), 'fetch', ...args], { cwd });
      const texts = { stdout: '', stderr: '' };
      for (const name of ['stdout', 'stderr']) child[name].on('data', (chunk) => (texts[name] += chunk));
      child.on('close', (code) => resolve({ code, ...texts }));
    });
  return { cwd, url, fetch_model };
}

test('a_good_file_is_verified_and_kept', async (t) => {
  const { cwd, fetch_model } = await make_package(t);
  const { code, stdout, stderr } = await fetch_model('good');
  assert.deepEqual([code, stdout], [0, 'good.onnx: 50000 bytes, verified\n']);
  assert.match(stderr, /licence: Apache-2\.0/);
  assert.match(stderr, /100 % of 0\.1 MB/);
  assert.match(stderr, /next: tilekiln compile good\.onnx/);
  assert.ok(readFileSync(join(cwd, 'good.onnx')).equals(kModel));
  assert.equal((await fetch_model('good', '-o', 'named.onnx')).code, 0);
  assert.deepEqual(readdirSync(cwd).sort(), ['good.onnx', 'named.onnx']);
});

test('wrong_and_broken_downloads_leave_no_file', async (t) => {
  const { cwd, fetch_model } = await make_package(t);
  for (const [name, message] of [
    ['other', /sha256 is [0-9a-f]{64}, the recipe says [0-9a-f]{64}; nothing was written/],
    ['page', /sha256 is/],
    ['broken', /the download broke off/],
    ['missing', /the server answered 404/],
  ]) {
    const { code, stdout, stderr } = await fetch_model(name);
    assert.deepEqual([code, stdout], [1, ''], name);
    assert.match(stderr, message);
    assert.deepEqual(readdirSync(cwd), [], name);
  }
});

test('an_older_file_survives_a_failed_fetch', async (t) => {
  const { cwd, fetch_model } = await make_package(t);
  writeFileSync(join(cwd, 'other.onnx'), 'mine');
  assert.equal((await fetch_model('other')).code, 1);
  assert.equal(readFileSync(join(cwd, 'other.onnx'), 'utf8'), 'mine');
});

test('another_address_is_verified_too', async (t) => {
  const { cwd, url, fetch_model } = await make_package(t);
  assert.equal((await fetch_model('missing', '--url', `${url}/good.onnx`)).code, 0);
  assert.equal((await fetch_model('good', '-o', 'x.onnx', '--url', `${url}/other.onnx`)).code, 1);
  assert.deepEqual(readdirSync(cwd), ['missing.onnx']);
});

test('a_recipe_without_a_hash_never_says_verified', async (t) => {
  const { fetch_model } = await make_package(t);
  const { code, stdout, stderr } = await fetch_model('unhashed');
  assert.deepEqual([code, stdout], [0, 'unhashed.onnx: 50000 bytes\n']);
  assert.match(stderr, new RegExp(`sha256 ${sha256} \\(the recipe has none to compare with\\)`));
});

test('a_file_that_cannot_be_written_is_an_error', async (t) => {
  const { fetch_model } = await make_package(t);
  const { code, stderr } = await fetch_model('good', '-o', join('no', 'folder', 'x.onnx'));
  assert.equal(code, 1);
  assert.match(stderr, /cannot be written/);
});
