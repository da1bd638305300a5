// What the command line writes: files whole or not at all and never over an input, standard output with its errors.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import sharp from 'sharp';
import { root } from '../../scripts/run_stage.mjs';
import { run_cli } from '../support/cli.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net } from '../support/graphs.mjs';
import { import_inner } from '../support/inner.mjs';

const { write_atomically, write_annotated } = await import_inner(['targets/atomic_file.ts', 'targets/annotate.ts']);

test('who_reads_a_file_while_it_is_written_anew_sees_the_old_one', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const gray = { data: new Uint8Array(64).fill(128), width: 8, height: 8, channels: 1 };
  for (const [file, write] of [
    ['net.kiln', () => run_cli(['compile', 'net.onnx', '-o', 'net.kiln'], { cwd })],
    ['net.svg', () => run_cli(['inspect', 'net.onnx', '--svg', 'net.svg'], { cwd })],
    ['net.png', () => write_annotated(join(cwd, 'net.png'), gray, [])],
  ]) {
    const path = join(cwd, file);
    writeFileSync(path, 'old');
    const reader = openSync(path, 'r');
    t.after(() => closeSync(reader));
    await write();
    assert.equal(readFileSync(reader, 'utf8'), 'old', file);
    assert.ok(statSync(path).size > 3, file);
  }
  assert.equal((await sharp(join(cwd, 'net.png')).metadata()).format, 'png');
  assert.deepEqual(readdirSync(cwd).sort(), ['net.kiln', 'net.onnx', 'net.png', 'net.svg']);
});

test('a_write_that_fails_leaves_the_old_file_and_nothing_else', async (t) => {
  const folder = temp_folder(t);
  const path = join(folder, 'a.kiln');
  const fail = async (part) => {
    writeFileSync(part, 'half');
    throw new Error('disk full');
  };
  await assert.rejects(write_atomically(path, fail), /disk full/);
  assert.deepEqual(readdirSync(folder), []);
  writeFileSync(path, 'old');
  await assert.rejects(write_atomically(path, fail), /disk full/);
  assert.deepEqual(readdirSync(folder), ['a.kiln']);
  assert.equal(readFileSync(path, 'utf8'), 'old');
});

test('links_modes_and_pipes_stay_what_they_are', async (t) => {
  const folder = temp_folder(t);
  const [file, link] = [join(folder, 'file'), join(folder, 'link')];
  writeFileSync(file, 'old');
  chmodSync(file, 0o640);
  symlinkSync('file', link);
  const write = async (path) => writeFileSync(path, 'new');
  await write_atomically(link, write);
  assert.ok(lstatSync(link).isSymbolicLink());
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(statSync(file).mode & 0o777, 0o640);
  const [pipe, loose] = [join(folder, 'pipe'), join(folder, 'loose')];
  execFileSync('mkfifo', [pipe]);
  const reader = openSync(pipe, 'r+');
  t.after(() => closeSync(reader));
  await write_atomically(pipe, write);
  assert.equal(readSync(reader, Buffer.alloc(8)), 3);
  assert.ok(lstatSync(pipe).isFIFO());
  symlinkSync('later', loose);
  await write_atomically(loose, write);
  assert.ok(lstatSync(loose).isSymbolicLink());
  assert.equal(readFileSync(join(folder, 'later'), 'utf8'), 'new');
});

/** Runs with standard output on a file descriptor, or on a pipe that nobody reads. */
function run_on(stdout, args, cwd) {
  const child = spawn(process.execPath, [join(root, 'dist/cli.js'), ...args], {
    cwd,
    stdio: ['ignore', stdout, 'pipe'],
  });
  child.stdout?.destroy();
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })));
}

test('work_is_finished_when_the_reader_of_the_output_goes_away', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const flags = ['--task', 'classify', '--preprocess', 'raw'];
  const { code, stderr } = await run_on('pipe', ['compile', 'net.onnx', ...flags], cwd);
  assert.deepEqual([code, stderr], [0, 'wrote net.kiln\n']);
  await sharp({ create: { width: 8, height: 8, channels: 3, background: '#808080' } }).toFile(join(cwd, 'a.png'));
  const images = ['a.png', 'no.png', 'a.png'];
  const failed = await run_on('pipe', ['classify', 'net.kiln', ...images], cwd);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /^error: 'no\.png' cannot be read as an image.*\n$/);
  assert.equal((await run_on('pipe', ['classify', 'net.kiln', 'a.png', 'a.png'], cwd)).code, 0);
});

test('output_that_cannot_be_written_is_an_error', { skip: !existsSync('/dev/full') && 'no /dev/full' }, async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), conv_net());
  const full = openSync('/dev/full', 'w');
  t.after(() => closeSync(full));
  for (const [args, expected] of [
    [['--version'], 1],
    [['compile', 'net.onnx'], 1],
    [['bench', 'net.kiln', '--runs', '1', '--json'], 1],
    [[], 2],
  ]) {
    const { code, stderr } = await run_on(full, args, cwd);
    assert.equal(code, expected, args.join(' '));
    assert.equal(stderr.match(/error: standard output cannot be written: ENOSPC/g)?.length, 1, stderr);
  }
});
