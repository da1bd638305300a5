// Samples of the command line: pictures below a folder in a fixed order, class folders, .npy files.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import sharp from 'sharp';
import { api } from '../support/api.mjs';
import { temp_folder } from '../support/files.mjs';
import { import_inner } from '../support/inner.mjs';

const { read_sample_files, KilnError } = await import_inner(['cli/sample_files.ts', 'core/errors.ts']);

/** A PNG of one grey level: it tells which file was read. */
async function write_picture(path, level) {
  const pixels = Buffer.alloc(12, level);
  writeFileSync(
    path,
    await sharp(pixels, { raw: { width: 2, height: 2, channels: 3 } })
      .png()
      .toBuffer(),
  );
}

async function levels(samples) {
  const found = [];
  for await (const { data } of await samples()) found.push(data[0]);
  return found;
}

test('pictures_of_a_folder_come_sorted_and_evenly_spread', async (t) => {
  const folder = temp_folder(t);
  const names = ['b.png', 'a.PNG', 'c/z.png', 'c/y.png', 'B.png'];
  mkdirSync(join(folder, 'c'));
  for (const [i, name] of names.entries()) await write_picture(join(folder, name), 10 * i + 10);
  writeFileSync(join(folder, 'notes.txt'), 'no picture');
  const all = await read_sample_files('--calibrate', folder, 100);
  assert.deepEqual([all.count, all.folders], [5, undefined]);
  assert.deepEqual(await levels(all.samples), [50, 20, 10, 40, 30]); // B.png, a.PNG, b.png, c/y.png, c/z.png
  assert.deepEqual(await levels(all.samples), [50, 20, 10, 40, 30], 'a second pass');
  const some = await read_sample_files('--calibrate', folder, 2);
  assert.deepEqual(await levels(some.samples), [50, 10]);
});

test('class_folders_are_the_first_folders_below', async (t) => {
  const folder = temp_folder(t);
  for (const [name, count] of [
    ['cat', 3],
    ['dog/puppy', 1],
  ]) {
    mkdirSync(join(folder, name), { recursive: true });
    for (let i = 0; i < count; ++i) await write_picture(join(folder, name, `${i}.png`), i);
  }
  const { folders } = await read_sample_files('--calibrate', folder, 100);
  assert.deepEqual(folders, ['cat', 'cat', 'cat', 'dog']);
  const inside = await read_sample_files('--calibrate', join(folder, 'dog'), 100);
  assert.equal(inside.folders, undefined, 'one folder makes no classes');
});

test('a_npy_file_is_a_tensor_with_its_number_of_rows', async (t) => {
  const path = join(temp_folder(t), 'x.npy');
  writeFileSync(path, api.writeNpy(new api.Tensor('u8', [5, 2, 2, 3], new Uint8Array(60))));
  const { samples, count, folders } = await read_sample_files('--calibrate', path, 4);
  assert.deepEqual([samples.shape, count, folders], [[5, 2, 2, 3], 4, undefined]);
});

test('a_damaged_picture_is_named', async (t) => {
  const folder = temp_folder(t);
  writeFileSync(join(folder, 'broken.png'), 'no picture');
  const { samples } = await read_sample_files('--calibrate', folder, 4);
  await assert.rejects(levels(samples), (error) => {
    return error instanceof KilnError && /broken\.png' cannot be read as an image/.test(error.message);
  });
});
