// The demo page of `npm start`, started as a user starts it: faces on a sample photo, a dropped picture, a wrong file, a phone.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import sharp from 'sharp';
import { find_face_api } from '../../models/face/face_weights.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { temp_folder } from '../support/files.mjs';
import { browser, chromium_absent } from '../support/page.mjs';

const options = { skip: chromium_absent };
const kScreenshots = join(root, 'build/screenshots');
const kPhoto = join(find_face_api(), 'demo/sample2.jpg');

let child;
let printed = '';
let url;

/** Starts `npm start -- --port 0`; resolves when it prints the page's address. */
const start = () =>
  new Promise((resolve, reject) => {
    child = spawn(process.execPath, ['scripts/start.mjs', '--port', '0'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        printed += chunk;
        const address = /open (http:\/\/127\.0\.0\.1:\d+\/) and drop a picture/.exec(printed)?.[1];
        if (address) resolve(address);
      });
    }
    child.on('error', reject);
    child.on('close', (code) => reject(new Error(`npm start ended with ${code}:\n${printed}`)));
  });

before(async () => {
  mkdirSync(kScreenshots, { recursive: true });
  if (!chromium_absent) url = await start();
});
after(() => child?.kill());

async function open_demo(t, viewport) {
  const { context } = await browser();
  const page = await context.newPage();
  t.after(() => page.close());
  await page.setViewportSize(viewport);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(url);
  await page.getByText(/ is ready after \d+ ms/).waitFor();
  return { page, complaints };
}

const kDesktop = { width: 1280, height: 900 };
const kPhone = { width: 375, height: 740 };
const screenshot = (page, name) => page.screenshot({ path: join(kScreenshots, `${name}.png`), fullPage: true });
const sideways = (page) => page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth);

/** Rows of the result table, once the page has answered. */
async function results(page) {
  await page.getByText(/objects?; [\d.]+ ms in all: prepare [\d.]+ ms, run [\d.]+ ms, decode [\d.]+ ms/).waitFor();
  return page.locator('#results tbody tr').allInnerTexts();
}

/** Drops a file onto the page as a file manager does. */
async function drop(page, name, type, bytes) {
  const transfer = await page.evaluateHandle(
    ([file_name, mime, base64]) => {
      const data = new DataTransfer();
      const content = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      if (file_name) data.items.add(new File([content], file_name, { type: mime }));
      else data.items.add('some text', 'text/plain');
      return data;
    },
    [name, type, Buffer.from(bytes).toString('base64')],
  );
  for (const event of ['dragover', 'drop']) await page.dispatchEvent('#drop', event, { dataTransfer: transfer });
}

test('the_terminal_tells_faces_distances_and_times', options, () => {
  assert.match(printed, /4\/4 finding faces/);
  assert.match(printed, /sample1\.jpg: \d+ x \d+, \d+ faces/);
  assert.match(printed, / face +score +x1 +y1 +x2 +y2\n +1 +0\.\d{3} +[\d.]+/);
  assert.match(printed, /descriptor distances/);
  assert.match(printed, /detector [\d.]+ ms, landmarks [\d.]+ ms, descriptors [\d.]+ ms for \d+ faces/);
  assert.match(printed, /wrote build\/start\/faces\.png/);
});

test('faces_on_a_sample_photo', options, async (t) => {
  const { page, complaints } = await open_demo(t, kDesktop);
  await screenshot(page, 'desktop-start');
  await page.getByRole('button', { name: 'Sample photo 1' }).click();
  const rows = await results(page);
  assert.ok(rows.length >= 1);
  assert.match(rows[0], /^face\t0\.\d{3}\t\d+\t\d+\t\d+\t\d+$/);
  const drawn = await page.evaluate(() => {
    const canvas = document.getElementById('canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let ink = 0;
    for (let i = 0; i < data.length; i += 4) ink += data[i] === 230 && data[i + 1] === 25 && data[i + 2] === 75 ? 1 : 0;
    return { hidden: canvas.hidden, label: canvas.getAttribute('aria-label'), ink };
  });
  assert.equal(drawn.hidden, false);
  assert.match(drawn.label, /Picture with \d+ objects?/);
  assert.ok(drawn.ink > 500, `${drawn.ink} pixels of the boxes' colour`);
  await screenshot(page, 'desktop-faces');
  assert.equal(await sideways(page), 0);
  assert.deepEqual(complaints, []);
});

test('the_lowest_score_is_heeded', options, async (t) => {
  const { page } = await open_demo(t, kDesktop);
  await page.getByRole('button', { name: 'Sample photo 1' }).click();
  const before_slide = await results(page);
  await page.locator('#score').fill('0.95');
  await page.getByText('0.95').waitFor();
  await page.waitForFunction(
    (count) => document.querySelectorAll('#results tbody tr').length < count,
    before_slide.length,
  );
});

test('a_dropped_and_a_chosen_picture', options, async (t) => {
  const { page, complaints } = await open_demo(t, kDesktop);
  const photo = readFileSync(kPhoto);
  await drop(page, 'mine.jpg', 'image/jpeg', photo);
  const dropped = await results(page);
  assert.ok(dropped.length >= 1);
  const turned = join(temp_folder(t), 'turned.jpg'); // stored lying, EXIF says how to turn it
  const { data, info } = await sharp(photo).rotate(-90).jpeg().toBuffer({ resolveWithObject: true });
  writeFileSync(turned, await sharp(data).withMetadata({ orientation: 6 }).toBuffer());
  await page.locator('#status').evaluate((status) => (status.textContent = ''));
  await page.locator('#file').setInputFiles(turned);
  assert.equal((await results(page)).length, dropped.length);
  const size = await page.evaluate(() => [
    document.getElementById('canvas').width,
    document.getElementById('canvas').height,
  ]);
  assert.deepEqual(size, [info.height, info.width]);
  assert.deepEqual(complaints, []);
});

test('a_wrong_file_says_what_is_wrong_and_the_next_one_works', options, async (t) => {
  const { page, complaints } = await open_demo(t, kDesktop);
  const alert = page.getByRole('alert');
  await drop(page, 'notes.txt', 'text/plain', Buffer.from('hello'));
  await alert.getByText('notes.txt is no picture that this browser can read (text/plain)').waitFor();
  await screenshot(page, 'desktop-wrong-file');
  await drop(page, '', '', Buffer.alloc(0));
  await alert.getByText('What was dropped is no file').waitFor();
  await drop(page, 'cut.jpg', 'image/jpeg', readFileSync(kPhoto).subarray(0, 50));
  await alert.getByText('cut.jpg is no picture').waitFor();
  await drop(page, 'mine.jpg', 'image/jpeg', readFileSync(kPhoto));
  assert.ok((await results(page)).length >= 1);
  assert.equal(await alert.isVisible(), false);
  assert.deepEqual(complaints, []);
});

test('a_phone_needs_no_scrolling_sideways', options, async (t) => {
  const { page } = await open_demo(t, kPhone);
  assert.equal(await sideways(page), 0);
  await screenshot(page, 'phone-start');
  await page.getByRole('button', { name: 'Sample photo 1' }).click();
  await results(page);
  assert.equal(await sideways(page), 0);
  const canvas = await page.locator('#canvas').boundingBox();
  assert.ok(canvas.x >= 0 && canvas.x + canvas.width <= kPhone.width);
  await screenshot(page, 'phone-faces');
});

test('every_model_of_the_list_runs', options, async (t) => {
  const { page, complaints } = await open_demo(t, kDesktop);
  await page.getByRole('button', { name: 'Sample photo 1' }).click();
  await results(page);
  const names = await page.locator('#model option').evaluateAll((list) => list.map(({ value }) => value));
  for (const name of names) {
    await page.locator('#status').evaluate((status) => (status.textContent = ''));
    await page.locator('#model').selectOption(name);
    await page.getByText(/; [\d.]+ ms in all/).waitFor();
  }
  t.diagnostic(names.join(', '));
  assert.equal(await page.getByRole('alert').isVisible(), false);
  await screenshot(page, 'desktop-last-model');
  assert.deepEqual(complaints, []);
});

test('the_keyboard_opens_the_file_chooser', options, async (t) => {
  const { page } = await open_demo(t, kDesktop);
  const chooser = page.waitForEvent('filechooser');
  await page.locator('#drop').focus();
  await page.keyboard.press('Enter');
  await (await chooser).setFiles(kPhoto);
  assert.ok((await results(page)).length >= 1);
});
