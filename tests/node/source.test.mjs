// read_source: every kind of source, with progress, abort and what goes wrong, against a real server on loopback.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { temp_folder } from '../support/files.mjs';
import { import_inner } from '../support/inner.mjs';
import { listen } from '../support/listen.mjs';

const { read_source, source_name, describe_non_bundle, set_platform, node_platform } = await import_inner([
  'core/source.ts',
  'core/sniff.ts',
  'core/platform.ts',
  'targets/node.ts',
]);
set_platform(node_platform(import.meta.url));

const kBytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7 + (i >> 8)) & 255);
const ascii = (text) => new TextEncoder().encode(text);

/** Sends the body in two halves with a pause between, so that a client sees progress. */
function send_slowly(response, bytes, headers) {
  response.writeHead(200, headers);
  response.write(bytes.subarray(0, bytes.length >> 1));
  setTimeout(() => response.end(bytes.subarray(bytes.length >> 1)), 30);
}

test('every_kind_of_source_gives_the_same_bytes', async (t) => {
  const folder = temp_folder(t);
  const path = join(folder, 'a model.kiln');
  writeFileSync(path, kBytes);
  const url = await listen(t, { '/m.kiln': (_, response) => send_slowly(response, kBytes, {}) });
  const cases = {
    path,
    'relative path': join('.', 'm.kiln'),
    'file URL text': pathToFileURL(path).href,
    'file URL': pathToFileURL(path),
    'http text': `${url}/m.kiln`,
    'http URL': new URL(`${url}/m.kiln`),
    'Response': await fetch(`${url}/m.kiln`),
    'Response made by hand': new Response(kBytes),
    'Blob': new Blob([kBytes.subarray(0, 1000), kBytes.subarray(1000)]),
    'File': new File([kBytes], 'm.kiln'),
    'data URL': `data:application/octet-stream;base64,${Buffer.from(kBytes).toString('base64')}`,
    'ArrayBuffer': kBytes.slice().buffer,
    'Uint8Array': kBytes,
    'part of a buffer': new Uint8Array([0, 0, 0, ...kBytes]).subarray(3),
    'Buffer': Buffer.from(kBytes),
    'another realm': runInNewContext('new Uint8Array(bytes)', { bytes: kBytes }),
  };
  const before = process.cwd();
  process.chdir(folder);
  t.after(() => process.chdir(before));
  writeFileSync('m.kiln', kBytes);
  for (const [name, source] of Object.entries(cases)) {
    const bytes = await read_source(source, {});
    assert.ok(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).equals(kBytes), name);
  }
});

test('paths_with_colons_are_paths_in_node', async (t) => {
  const folder = temp_folder(t);
  const before = process.cwd();
  process.chdir(folder);
  t.after(() => process.chdir(before));
  for (const name of ['C:\\models\\m.kiln', 'model:v2.kiln', 'file.kiln?x=1#y']) {
    writeFileSync(name, kBytes);
    assert.equal((await read_source(name, {})).length, kBytes.length, name);
  }
});

test('bytes_are_read_in_place', async () => {
  assert.equal(await read_source(kBytes, {}), kBytes);
  const buffer = kBytes.slice().buffer;
  assert.equal((await read_source(buffer, {})).buffer, buffer);
  assert.equal(buffer.byteLength, kBytes.length);
});

test('progress_rises_to_the_total', async (t) => {
  const url = await listen(t, {
    '/known': (_, response) => send_slowly(response, kBytes, { 'content-length': kBytes.length }),
    '/chunked': (_, response) => send_slowly(response, kBytes, {}),
    '/gzip': (_, response) => {
      const packed = gzipSync(kBytes);
      send_slowly(response, packed, { 'content-encoding': 'gzip', 'content-length': packed.length });
    },
  });
  for (const [path, total] of [
    ['/known', kBytes.length],
    ['/chunked', 0],
    ['/gzip', 0], // content-length counts the packed bytes
  ]) {
    const seen = [];
    const bytes = await read_source(url + path, { onProgress: (progress) => seen.push(progress) });
    assert.ok(Buffer.from(bytes).equals(kBytes), path);
    assert.ok(seen.length >= 2, `${path}: ${seen.length} reports`);
    assert.ok(seen.every((p, i) => p.stage === 'download' && (i === 0 || p.loaded > seen[i - 1].loaded)));
    assert.equal(seen.at(-1).loaded, kBytes.length);
    assert.ok(
      seen.every((p) => p.total === total),
      path,
    );
  }
});

test('a_wrong_content_length_neither_fails_nor_allocates', async () => {
  const huge = new Response(kBytes, { headers: { 'content-length': String(2 ** 52) } });
  await assert.rejects(read_source(huge, {}), { code: 'TRUNCATED', message: /ended after 300000 of 4503599627370496/ });
  const seen = [];
  const small = new Response(kBytes, { headers: { 'content-length': '5' } });
  assert.equal((await read_source(small, { onProgress: (p) => seen.push(p) })).length, kBytes.length);
  assert.ok(seen.every(({ loaded, total }) => total === 0 || loaded <= total));
});

test('abort_before_during_and_after_a_download', async (t) => {
  let sockets = 0;
  const url = await listen(t, {
    '/endless': (request, response) => {
      ++sockets;
      request.socket.once('close', () => --sockets);
      response.writeHead(200, { 'content-length': 1e9 });
      response.write(kBytes);
    },
  });
  const reason = new Error('enough');
  await assert.rejects(read_source(`${url}/endless`, { signal: AbortSignal.abort(reason) }), (error) => {
    assert.equal(error.code, 'ABORTED');
    assert.equal(error.cause, reason);
    return true;
  });
  await assert.rejects(read_source(kBytes, { signal: AbortSignal.abort() }), { code: 'ABORTED' });

  const controller = new AbortController();
  const onProgress = () => controller.abort(reason);
  await assert.rejects(read_source(`${url}/endless`, { signal: controller.signal, onProgress }), { code: 'ABORTED' });

  const later = new AbortController();
  const response = await fetch(`${url}/endless`); // without the signal: only read_source can stop it
  await assert.rejects(read_source(response, { signal: later.signal, onProgress: () => later.abort() }), {
    code: 'ABORTED',
  });
  while (sockets > 0) await new Promise((resolve) => setTimeout(resolve, 5)); // the connections were given back
});

test('an_error_of_the_progress_callback_reaches_the_caller', async (t) => {
  const url = await listen(t, { '/m': (_, response) => response.end(kBytes) });
  const mine = new Error('mine');
  const onProgress = () => {
    throw mine;
  };
  await assert.rejects(read_source(`${url}/m`, { onProgress }), (error) => error === mine);
});

test('broken_downloads_say_so', async (t) => {
  const url = await listen(t, {
    '/short': (_, response) => {
      response.writeHead(200, { 'content-length': 2 * kBytes.length });
      response.write(kBytes);
      setTimeout(() => response.destroy(), 20);
    },
    '/bad-gzip': (_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end('this is no gzip');
    },
  });
  await assert.rejects(read_source(`${url}/short`, {}), { code: 'TRUNCATED', message: /\/short': the download broke/ });
  await assert.rejects(read_source(`${url}/bad-gzip`, {}), { code: 'TRUNCATED', message: /bad-gzip/ });
});

test('refusals_of_servers_and_names', async (t) => {
  const folder = temp_folder(t);
  mkdirSync(join(folder, 'sub'));
  const url = await listen(t, {
    '/500': (_, response) => response.writeHead(500).end('oops'),
  });
  const cases = [
    [`${url}/missing.kiln`, 'NOT_FOUND', /missing\.kiln': the server answered 404 Not Found/],
    [`${url}/500`, 'NOT_FOUND', /the server answered 500/],
    ['http://127.0.0.1:9/m.kiln', 'NOT_FOUND', /could not be fetched: fetch failed \(.+\)/],
    ['ftp://host/m.kiln', 'NOT_FOUND', /could not be fetched/],
    [join(folder, 'no.kiln'), 'NOT_FOUND', /no\.kiln' cannot be read: no such file/],
    [join(folder, 'sub'), 'NOT_FOUND', /sub' cannot be read: it is a folder/],
    ['file://elsewhere/m.kiln', 'NOT_FOUND', /cannot be read/],
    ['', 'INVALID_ARGUMENT', /empty string/],
    [42, 'INVALID_ARGUMENT', /type \[object Number\] is not supported; allowed: URL or path string/],
    [null, 'INVALID_ARGUMENT', /type \[object Null\]/],
    [{}, 'INVALID_ARGUMENT', /type \[object Object\]/],
    [new Float32Array(4), 'INVALID_ARGUMENT', /type \[object Float32Array\]/],
  ];
  for (const [source, code, message] of cases) {
    await assert.rejects(read_source(source, {}), { name: 'KilnError', code, message }, String(source));
  }
});

test('a_response_is_read_once', async () => {
  const used = new Response(kBytes);
  await used.arrayBuffer();
  await assert.rejects(read_source(used, {}), { code: 'INVALID_ARGUMENT', message: /has been read already/ });
  const locked = new Response(kBytes);
  locked.body.getReader();
  await assert.rejects(read_source(locked, {}), { code: 'INVALID_ARGUMENT', message: /has been read already/ });
});

test('sources_are_named_in_messages', () => {
  assert.equal(source_name('a/b.kiln'), "'a/b.kiln'");
  assert.equal(source_name(new URL('http://h/x')), "'http://h/x'");
  assert.equal(source_name(new File([], 'm.kiln')), "file 'm.kiln'");
  assert.equal(source_name(new Uint8Array()), 'the bytes given');
});

const kPointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n';
const kNonBundles = [
  ['', 'TRUNCATED', /empty/],
  ['<!doctype html><html>', 'NOT_A_MODEL', /got HTML instead of a bundle/],
  ['\n  <HTML lang="en">', 'NOT_A_MODEL', /got HTML/],
  [kPointer, 'NOT_A_MODEL', /git-LFS pointer.*git lfs pull/],
  ['PK\x03\x04abcdef', 'NOT_A_MODEL', /zip archive/],
  ['\x1c\0\0\0TFL3', 'NOT_A_MODEL', /TensorFlow Lite/],
  ['{"error": "not found"}', 'NOT_A_MODEL', /JSON/],
  ['\x1f\x8b\x08\0\0', 'NOT_A_MODEL', /gzip/],
  ['\x08\x07\x12\x07pytorch:\x01\x00\x12\x00\x1a', 'NOT_A_MODEL', /ONNX model, not a bundle: compile it first/],
  ['hello', 'NOT_A_MODEL', /no \.kiln bundle/],
];

test('what_is_no_bundle_is_told_apart', () => {
  for (const [text, code, message] of kNonBundles) {
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const complaint = describe_non_bundle(bytes);
    assert.equal(complaint?.code, code, text);
    assert.match(complaint.message, message);
  }
  assert.equal(describe_non_bundle(ascii('KILN and more')), undefined);
});
