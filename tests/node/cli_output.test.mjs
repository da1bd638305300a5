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
import { graph, write_onnx_external } from '../../models/onnx_writer.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor } from '../support/api.mjs';
import { run_cli } from '../support/cli.mjs';
import { temp_folder } from '../support/files.mjs';
import { add_net, conv_net } from '../support/graphs.mjs';
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

test('an_output_never_overwrites_an_input', async (t) => {
  const cwd = temp_folder(t);
  const path = (name) => join(cwd, name);
  writeFileSync(path('net.onnx'), conv_net());
  writeFileSync(path('add.onnx'), add_net());
  writeFileSync(path('labels'), 'a\nb\nc\nd\ne\n');
  writeFileSync(path('sum.npy'), api.writeNpy(random_tensor([2, 3], 1)));
  writeFileSync(path('add.kiln'), await api.compile(add_net()));
  writeFileSync(
    path('b.png'),
    await sharp({ create: { width: 8, height: 8, channels: 3, background: 'red' } })
      .png()
      .toBuffer(),
  );
  writeFileSync(path('b-2.png'), readFileSync(path('b.png')));
  const g = graph('external', { opset: 13 });
  const w = g.initializer('w', 'float32', [500], random_tensor([500], 3).data);
  g.output(g.node('Add', [g.input('x', [500]), w], {}, { outputs: ['y'] }), [500]);
  const { model, data } = write_onnx_external(g, { location: 'w.bin', min_bytes: 100 });
  writeFileSync(path('ext.onnx'), model);
  writeFileSync(path('w.bin'), data);
  symlinkSync('net.onnx', path('link'));
  symlinkSync('labels', path('linked.kiln'));
  writeFileSync(path('linked.onnx'), conv_net());
  const before = new Map(readdirSync(cwd).map((name) => [name, readFileSync(path(name))]));
  for (const [args, message] of [
    [['compile', 'net.onnx', '-o', 'net.onnx'], /-o net\.onnx would overwrite the input net\.onnx\nusage: /],
    [['compile', 'net.onnx', '-o', './link'], /-o \.\/link would overwrite the input net\.onnx/],
    [['compile', 'link', '-o', 'net.onnx'], /-o net\.onnx would overwrite the input link/],
    [['compile', 'net.onnx', '--labels', 'labels', '-o', path('labels')], /labels would overwrite the input labels/],
    [['compile', 'linked.onnx', '--labels', 'labels'], /-o linked\.kiln would overwrite the input labels/],
    [['compile', 'add.onnx', '--bind', 'b=sum.npy', '-o', 'sum.npy'], /-o sum\.npy would overwrite the input sum\.npy/],
    [['compile', 'ext.onnx', '-o', 'w.bin'], /-o w\.bin would overwrite the input w\.bin/],
    [['inspect', 'net.onnx', '--svg', 'net.onnx'], /--svg net\.onnx would overwrite the input net\.onnx/],
    [['detect', 'no.kiln', 'b.png', '--annotate', 'b.png'], /--annotate b\.png would overwrite the input b\.png/],
    [
      ['detect', 'no.kiln', 'b-2.png', 'b.png', '--annotate', 'b.png'],
      /--annotate b-2\.png would overwrite the input b-2/,
    ],
    [['run', 'add.kiln', '--input', 'a=sum.npy', '--input', 'b=sum.npy', '--output-dir', '.'], /output sum\.npy would/],
  ]) {
    const { code, stdout, stderr } = await run_cli(args, { cwd });
    assert.deepEqual([code, stdout], [2, ''], `${args.join(' ')}\n${stderr}`);
    assert.match(stderr, message);
  }
  for (const [name, bytes] of before) assert.ok(bytes.equals(readFileSync(path(name))), name);
  assert.equal(readdirSync(cwd).length, before.size);
});
