// Every example runs as its head says, and is short.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { find_face_api } from '../../models/face/face_weights.mjs';
import { build_recipe, list_recipes, read_recipe_labels } from '../../models/index.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api } from '../support/api.mjs';
import { serve } from '../support/chromium.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net } from '../support/graphs.mjs';
import { browser, chromium_absent } from '../support/page.mjs';

const kExamples = join(root, 'examples');
const kPhotos = [1, 2].map((i) => join(find_face_api(), `demo/sample${i}.jpg`));
let faces;

before(async () => {
  const recipe = list_recipes().find(({ name }) => name === 'tiny_face_detector');
  const { onnx } = await build_recipe(recipe.name, join(root, 'models/cache'));
  const { preprocess, task } = recipe;
  faces = await api.compile(onnx, { preprocess, task, labels: read_recipe_labels(recipe) });
});

test('examples_are_at_most_100_lines', () => {
  const sources = readdirSync(kExamples, { recursive: true }).filter((file) => /\.(mjs|html|ts|cc|css)$/.test(file));
  assert.ok(sources.length >= 5);
  for (const file of sources) {
    const lines = readFileSync(join(kExamples, file), 'utf8').split('\n').length - 1;
    assert.ok(lines <= 100, `${file} has ${lines} lines`);
  }
});

async function open(t, url) {
  const { context } = await browser();
  const page = await context.newPage();
  t.after(() => page.close());
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(url);
  return { page, complaints };
}

test('browser-minimal', { skip: chromium_absent }, async (t) => {
  let bundle = faces;
  const server = await serve(
    { '/examples/': kExamples, '/dist/': join(root, 'dist') },
    {
      handler: (path, response) => {
        if (!path.endsWith('/model.kiln')) return false;
        if (bundle) response.writeHead(200, { 'content-length': bundle.length }).end(bundle);
        else response.writeHead(404).end();
        return true;
      },
    },
  );
  t.after(() => server.close());
  const { page, complaints } = await open(t, `${server.url}/examples/browser-minimal/index.html`);
  await page.getByText('Ready: choose a picture').waitFor();
  await page.locator('#file').setInputFiles(kPhotos[0]);
  await page.getByText(/^[1-9]\d* found in \d+ ms$/).waitFor();
  assert.ok((await page.locator('#canvas').boundingBox()).height > 50);
  await page.locator('#file').setInputFiles(join(root, 'package.json'));
  await page.getByText(/could not be decoded/).waitFor();
  assert.deepEqual(complaints, []);
  bundle = undefined;
  await page.reload();
  await page.getByText('the server answered 404').waitFor();
});

const run_batch = (...args) =>
  spawnSync(process.execPath, [join(kExamples, 'node-batch/score_folder.mjs'), ...args], {
    cwd: root,
    encoding: 'utf8',
  });

test('node-batch_with_a_detector', (t) => {
  const folder = temp_folder(t);
  writeFileSync(join(folder, 'faces.kiln'), faces);
  mkdirSync(join(folder, 'photos'));
  copyFileSync(kPhotos[0], join(folder, 'photos/a.jpg'));
  copyFileSync(kPhotos[1], join(folder, 'photos/b, "two".JPG'));
  writeFileSync(join(folder, 'photos/notes.txt'), 'no picture');
  const { status, stdout, stderr } = run_batch(join(folder, 'faces.kiln'), join(folder, 'photos'), '--score', '0.5');
  assert.equal(status, 0, stderr);
  const [head, ...rows] = stdout.trimEnd().split('\n');
  assert.equal(head, 'picture,label,score,x1,y1,x2,y2');
  assert.ok(rows.some((row) => /^a\.jpg,face,0\.\d{4},[\d.]+,[\d.]+,[\d.]+,[\d.]+$/.test(row)));
  assert.ok(rows.some((row) => row.startsWith('"b, ""two"".JPG",face,')));
  assert.match(stderr, /^2 of 2 pictures, [\d.]+ ms each\n$/);
});

test('node-batch_with_a_classifier_and_a_bad_picture', async (t) => {
  const folder = temp_folder(t);
  const options = { task: 'classify', preprocess: 'raw', labels: ['a', 'b', 'c', 'd', 'e'] };
  writeFileSync(join(folder, 'net.kiln'), await api.compile(conv_net(), options));
  copyFileSync(kPhotos[0], join(folder, 'good.jpg'));
  writeFileSync(join(folder, 'bad.jpg'), 'no picture');
  const { status, stdout, stderr } = run_batch(join(folder, 'net.kiln'), folder);
  assert.equal(status, 1);
  assert.match(stdout, /\ngood\.jpg,[a-e],\d\.\d{4},,,,\n$/);
  assert.match(stderr, /bad\.jpg' cannot be read as an image.*\n1 of 2 pictures/s);
});

test('node-batch_usage', (t) => {
  assert.equal(run_batch().status, 2);
  const { status, stderr } = run_batch(join(temp_folder(t), 'no.kiln'), '.');
  assert.equal(status, 1);
  assert.match(stderr, /no\.kiln' cannot be read: no such file/);
});

test('npm-import', { skip: chromium_absent }, async (t) => {
  const folder = temp_folder(t);
  // What `npm install` of the published package would unpack, with esbuild from this repository.
  const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], {
    cwd: root,
    encoding: 'utf8',
  });
  const installed = join(folder, 'node_modules/tilekiln');
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', join(folder, packed.trim()), '-C', installed, '--strip-components=1']);
  for (const name of ['esbuild', '@esbuild'])
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  cpSync(join(kExamples, 'npm-import'), folder, { recursive: true });
  const built = spawnSync(process.execPath, ['build.mjs'], { cwd: folder, encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
  assert.equal(built.stderr, '');

  const server = await serve({ '/': join(folder, 'public') });
  t.after(() => server.close());
  const { page, complaints } = await open(t, `${server.url}/index.html`);
  await page.getByText('Choose an ONNX model').waitFor();
  writeFileSync(join(folder, 'net.onnx'), conv_net());
  await page.locator('#file').setInputFiles(join(folder, 'net.onnx'));
  await page.getByText(/features \[1,6,4,4\] starts with .*; logits \[1,5\] starts with .* ms\)/).waitFor();
  await page.locator('#file').setInputFiles(join(folder, 'index.html'));
  await page.getByText(/HTML/).waitFor();
  assert.deepEqual(complaints, []);
});
