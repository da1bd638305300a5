// readImage and writeAnnotated: every pixel format becomes 8-bit RGB or grey, turned as EXIF says; bad files say so.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import sharp from 'sharp';
import { api } from '../support/api.mjs';
import { temp_folder } from '../support/files.mjs';

/** 3 x 2 pixels: red, green, blue / black, grey, white. */
const kPixels = Uint8Array.of(255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 128, 128, 128, 255, 255, 255);
const base = () => sharp(kPixels, { raw: { width: 3, height: 2, channels: 3 } });

const kFormats = [
  ['png', () => base().png()],
  ['png of a palette', () => base().png({ palette: true, colours: 8, dither: 0 })],
  ['png with alpha', () => base().ensureAlpha(1).png()],
  ['png of 16 bits', () => base().toColourspace('rgb16').png()],
  ['webp, lossless', () => base().webp({ lossless: true })],
  ['gif', () => base().gif({ dither: 0 })],
];

test('every_format_gives_the_same_pixels', async (t) => {
  const folder = temp_folder(t);
  for (const [name, make] of kFormats) {
    const bytes = await make().toBuffer();
    const path = join(folder, 'picture');
    writeFileSync(path, bytes);
    for (const source of [path, bytes, new Uint8Array(bytes)]) {
      const { data, width, height, channels } = await api.readImage(source);
      assert.deepEqual([width, height, channels], [3, 2, 3], name);
      data.forEach((value, i) => assert.ok(Math.abs(value - kPixels[i]) <= 1, `${name}: byte ${i} is ${value}`));
    }
  }
});

test('grey_pictures_are_read_as_what_they_show', async () => {
  for (const [name, make] of [
    ['grey', () => base().greyscale().png()],
    ['grey with alpha', () => base().greyscale().ensureAlpha(0.5).png()],
    ['grey of 16 bits', () => base().greyscale().toColourspace('grey16').png()],
  ]) {
    const { data, width, height, channels } = await api.readImage(await make().toBuffer());
    assert.deepEqual([width, height], [3, 2], name);
    assert.equal(data.length, 6 * channels);
    const last_row = [3, 4, 5].map((pixel) => data[pixel * channels]);
    [0, 128, 255].forEach((value, i) => assert.ok(Math.abs(last_row[i] - value) <= 2, `${name}: ${last_row}`));
  }
});

test('EXIF_orientation_turns_the_picture', async () => {
  const lying = await base().withMetadata({ orientation: 6 }).png().toBuffer(); // to be turned by 90 degrees
  const { data, width, height } = await api.readImage(lying);
  assert.deepEqual([width, height], [2, 3]);
  assert.deepEqual([...data.subarray(0, 6)], [0, 0, 0, 255, 0, 0]); // the left column becomes the top row
});

test('CMYK_is_converted', async () => {
  const bytes = await sharp({ create: { width: 16, height: 16, channels: 3, background: '#ff0000' } })
    .toColourspace('cmyk')
    .jpeg()
    .toBuffer();
  const { data, channels } = await api.readImage(bytes);
  assert.equal(channels, 3);
  assert.ok(data[0] > 180 && data[1] < 90 && data[2] < 90, `${data.subarray(0, 3)}`);
});

test('bad_pictures_say_so', async (t) => {
  const folder = temp_folder(t);
  const write = (name, bytes) => {
    writeFileSync(join(folder, name), bytes);
    return join(folder, name);
  };
  const noise = {
    create: {
      width: 64,
      height: 64,
      channels: 3,
      background: '#888888',
      noise: { type: 'gaussian', mean: 128, sigma: 60 },
    },
  };
  const jpeg = await sharp(noise).jpeg().toBuffer();
  const png = await sharp(noise).png().toBuffer();
  const cases = [
    [join(folder, 'no.jpg'), 'NOT_FOUND', /no\.jpg' cannot be read as an image/],
    [write('text.jpg', 'hello'), 'INVALID_ARGUMENT', /text\.jpg' cannot be read as an image/],
    [write('empty.png', ''), 'INVALID_ARGUMENT', /empty\.png' cannot be read/],
    [write('cut.jpg', jpeg.subarray(0, jpeg.length / 2)), 'INVALID_ARGUMENT', /cut\.jpg' cannot be read/],
    [write('cut.png', png.subarray(0, png.length / 2)), 'INVALID_ARGUMENT', /cut\.png' cannot be read/],
    [Buffer.from('hello'), 'INVALID_ARGUMENT', /the image bytes cannot be read as an image/],
    [folder, 'INVALID_ARGUMENT', /cannot be read as an image/],
  ];
  for (const [source, code, message] of cases) {
    await assert.rejects(api.readImage(source), { name: 'KilnError', code, message });
  }
});

test('marks_are_drawn_in_the_format_of_the_name', async (t) => {
  const folder = temp_folder(t);
  for (const channels of [1, 3, 4]) {
    const data = new Uint8Array(100 * 80 * channels).fill(200);
    const picture = { data, width: 100, height: 80, channels };
    for (const ending of ['png', 'jpg', 'webp']) {
      const path = join(folder, `${channels}.${ending}`);
      await api.writeAnnotated(path, picture, [{ box: [20, 30, 60, 70], text: 'a <b>', points: [[40, 50]] }]);
      const { info, data: drawn } = await sharp(readFileSync(path))
        .removeAlpha()
        .raw()
        .toBuffer({ resolveWithObject: true });
      assert.deepEqual([info.width, info.height, info.channels], [100, 80, 3]);
      const at = (x, y) => [...drawn.subarray(3 * (100 * y + x), 3 * (100 * y + x) + 3)];
      const is_ink = ([r, g]) => r - g > 40; // JPEG blurs thin lines
      assert.ok(is_ink(at(20, 50)) && is_ink(at(60, 50)) && is_ink(at(40, 50)), `${path}: ${at(20, 50)}`);
      assert.ok(
        at(10, 50).every((value) => Math.abs(value - 200) < 12),
        `${path}: ${at(10, 50)}`,
      );
    }
  }
  const picture = { data: new Uint8Array(3), width: 1, height: 1, channels: 3 };
  await assert.rejects(api.writeAnnotated(join(folder, 'no/such.png'), picture, []), { message: /cannot be written/ });
});
