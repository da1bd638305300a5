// The same package from a plain module script in Chromium: same bits as in Node, every kind of image, workers, strict CSP.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { find_face_api } from '../../models/face/face_weights.mjs';
import { build_recipe, list_recipes, read_recipe_labels } from '../../models/index.mjs';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor, relative_error } from '../support/api.mjs';
import { differing_boxes } from '../support/boxes.mjs';
import { temp_folder } from '../support/files.mjs';
import { conv_net, deep_net } from '../support/graphs.mjs';
import { chromium_absent, floats_of, open_page } from '../support/page.mjs';

const options = { skip: chromium_absent };
const kPhoto = join(find_face_api(), 'demo/sample1.jpg');
const files = {};

before(async () => {
  if (chromium_absent) return;
  const recipe = list_recipes().find(({ name }) => name === 'tiny_face_detector');
  const { onnx } = await build_recipe(recipe.name, join(root, 'models/cache'));
  const { preprocess, task } = recipe;
  files['/faces.kiln'] = await api.compile(onnx, { preprocess, task, labels: read_recipe_labels(recipe) });
  files['/photo.jpg'] = readFileSync(kPhoto);
  files['/net.kiln'] = await api.compile(conv_net());
  files['/net.onnx'] = conv_net();
  files['/deep.kiln'] = await api.compile(deep_net());
  files['/yolo.kiln'] = await api.compile(write_onnx(make_layout('yolov8n', { size: 160 })));
});

/** Outputs of the model at `url` for seeded input, from the page. */
async function run_in_page(page, url, { data }, simd) {
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
  const outputs = await page.evaluate(
    async ([model_url, base64, level]) => {
      const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      const model = await api.load(model_url, { simd: level });
      const results = await model.run({ [model.inputs[0].name]: new Float32Array(bytes.buffer) });
      model.dispose();
      return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, to_base64(tensor.data)]));
    },
    [url, text, simd],
  );
  return Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, floats_of(value)]));
}

const kNets = [
  ['/net.kiln', [1, 3, 8, 8]],
  ['/yolo.kiln', [1, 3, 160, 160]],
];

test('same_bits_as_in_node_for_the_simd_runtime', options, async (t) => {
  const { page, complaints } = await open_page(t, { files });
  for (const [url, shape] of kNets) {
    const input = random_tensor(shape, 21);
    const model = await api.load(files[url], { simd: 'simd' });
    t.after(() => model.dispose());
    const expected = await model.run({ [model.inputs[0].name]: input });
    const actual = await run_in_page(page, url, input, 'simd');
    for (const [name, { data }] of Object.entries(expected)) assert.deepEqual(actual[name], data, `${url} ${name}`);
  }
  assert.deepEqual(complaints, []);
});

test('same_bits_as_in_node_for_the_relaxed_runtime', options, async (t) => {
  const { page } = await open_page(t, { files });
  const folder = temp_folder(t);
  const flags =
    process.allowedNodeEnvironmentFlags.has('--experimental-wasm-relaxed-simd') || process.versions.node < '22';
  for (const [i, [url, shape]] of kNets.entries()) {
    const input = random_tensor(shape, 22);
    const model_file = join(folder, `${i}.kiln`);
    const input_file = join(folder, `${i}.npy`);
    writeFileSync(model_file, files[url]);
    writeFileSync(input_file, api.writeNpy(input));
    const script = `
      import { readFileSync, writeFileSync } from 'node:fs';
      import { load, readNpy, writeNpy } from ${JSON.stringify(join(root, 'dist/index.node.js'))};
      const model = await load(${JSON.stringify(model_file)}, { simd: 'relaxed' });
      const outputs = await model.run({ [model.inputs[0].name]: readNpy(readFileSync(${JSON.stringify(input_file)}), 'input') });
      for (const [name, tensor] of Object.entries(outputs)) writeFileSync(${JSON.stringify(folder)} + '/' + name + '.npy', writeNpy(tensor));
    `;
    execFileSync(process.execPath, [
      ...(flags ? ['--experimental-wasm-relaxed-simd'] : []),
      '--input-type=module',
      '-e',
      script,
    ]);
    const actual = await run_in_page(page, url, input, 'relaxed');
    for (const [name, data] of Object.entries(actual)) {
      assert.deepEqual(data, api.readNpy(readFileSync(join(folder, `${name}.npy`)), name).data, `${url} ${name}`);
    }
  }
});

test('a_page_compiles_to_the_same_bundle', options, async (t) => {
  const { page } = await open_page(t, { files });
  const { base64, stages } = await page.evaluate(async () => {
    const seen = [];
    const bundle = await api.compile('/net.onnx', { onProgress: ({ stage }) => seen.push(stage) });
    return { base64: to_base64(bundle), stages: [...new Set(seen)] };
  });
  assert.ok(Buffer.from(base64, 'base64').equals(files['/net.kiln']));
  assert.deepEqual(stages, ['download', 'compile']);
});

test('faces_on_a_JPEG_that_the_browser_decodes', options, async (t) => {
  const { page } = await open_page(t, { files });
  const found = await page.evaluate(async () => {
    const bitmap = await createImageBitmap(await (await fetch('/photo.jpg')).blob());
    const detector = await api.Detector.load('/faces.kiln');
    const detections = await detector.detect(bitmap, { score: 0.5, iou: 0.4 });
    detector.dispose();
    return { detections, width: bitmap.width, height: bitmap.height };
  });
  const image = await api.readImage(kPhoto);
  const detector = await api.Detector.load(files['/faces.kiln']);
  t.after(() => detector.dispose());
  const expected = await detector.detect(image, { score: 0.5, iou: 0.4 });
  assert.deepEqual([found.width, found.height], [image.width, image.height]);
  assert.ok(expected.length > 0);
  const tolerance = { iou: 0.9, score_tolerance: 0.02 }; // another JPEG decoder
  assert.equal(differing_boxes(found.detections, expected, tolerance), undefined);
  assert.ok(found.detections.every(({ label }) => label === 'face'));
});

test('every_kind_of_image_gives_the_boxes_of_its_pixels', options, async (t) => {
  const { page } = await open_page(t, { files });
  const found = await page.evaluate(async () => {
    const blob = await (await fetch('/photo.jpg')).blob();
    const bitmap = await createImageBitmap(blob);
    const canvas = document.createElement('canvas');
    canvas.width = bitmap.width;
    canvas.height = bitmap.height;
    const context = canvas.getContext('2d');
    context.drawImage(bitmap, 0, 0);
    const image_data = context.getImageData(0, 0, canvas.width, canvas.height);
    const offscreen = new OffscreenCanvas(canvas.width, canvas.height);
    offscreen.getContext('2d').drawImage(bitmap, 0, 0);
    const element = new Image();
    element.src = canvas.toDataURL('image/png');
    await element.decode();
    element.width = 10; // shown small: its own pixels count
    const frame = new VideoFrame(canvas, { timestamp: 0 });
    const { data, width, height } = image_data;
    const rgb = new Uint8Array(width * height * 3).map((_, i) => data[4 * Math.floor(i / 3) + (i % 3)]);
    const sources = {
      image_data,
      bitmap,
      canvas,
      offscreen,
      element,
      frame,
      pixels: { data: rgb, width, height, channels: 3 },
    };
    const detector = await api.Detector.load('/faces.kiln');
    const results = {};
    for (const [name, source] of Object.entries(sources)) results[name] = await detector.detect(source, { score: 0.5 });
    frame.close();

    const video = document.createElement('video');
    video.muted = true;
    video.srcObject = canvas.captureStream(30);
    const redraw = setInterval(() => context.drawImage(bitmap, 0, 0), 30);
    await video.play();
    while (video.videoWidth !== width) await new Promise((resolve) => setTimeout(resolve, 20));
    results.video = await detector.detect(video, { score: 0.5 });
    clearInterval(redraw);
    return results;
  });
  const expected = found.image_data;
  assert.ok(expected.length > 0);
  for (const name of ['bitmap', 'canvas', 'offscreen', 'element', 'frame', 'pixels']) {
    assert.deepEqual(found[name], expected, name);
  }
  assert.equal(differing_boxes(found.video, expected, { iou: 0.9, score_tolerance: 0.03 }), undefined, 'video');
});

test('images_that_cannot_be_read_say_why', options, async (t) => {
  const other = await open_page(t, { files }); // another origin, without CORS headers
  const { page } = await open_page(t, { files });
  const errors = await page.evaluate(async (foreign_url) => {
    const detector = await api.Detector.load('/faces.kiln');
    const foreign = new Image();
    foreign.src = foreign_url;
    await foreign.decode();
    const closed = await createImageBitmap(new ImageData(4, 4));
    closed.close();
    const cases = {
      foreign,
      closed,
      empty: new Image(),
      video: document.createElement('video'),
      text: 'photo.jpg',
      none: null,
      div: document.createElement('div'),
    };
    const results = {};
    for (const [name, image] of Object.entries(cases)) {
      results[name] = await detector.detect(image).then(
        () => 'no error',
        ({ name: kind, code, message }) => `${kind} ${code} ${message}`,
      );
    }
    return results;
  }, `${other.url}/photo.jpg`);
  assert.match(errors.foreign, /^KilnError INVALID_ARGUMENT the image's pixels may not be read .*CORS/);
  for (const name of ['closed', 'empty', 'video'])
    assert.match(errors[name], /^KilnError INVALID_ARGUMENT .*no size yet/);
  assert.match(errors.text, /got string/);
  assert.match(errors.none, /got null/);
  assert.match(errors.div, /is no image; allowed: ImageData/);
});

test('all_of_it_under_a_strict_content_security_policy', options, async (t) => {
  const policy =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; img-src 'self' data:";
  const { page, complaints } = await open_page(t, { files, headers: { 'content-security-policy': policy } });
  const result = await page.evaluate(async () => {
    const violations = [];
    document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));
    const model = await api.load(await api.compile('/net.onnx'));
    const { logits } = await model.run({ images: new Float32Array(192) });
    const bitmap = await createImageBitmap(await (await fetch('/photo.jpg')).blob());
    const detector = await api.Detector.load('/faces.kiln');
    const faces = await detector.detect(bitmap);
    return { logits: logits.data.length, faces: faces.length, violations };
  });
  assert.equal(result.logits, 5);
  assert.ok(result.faces > 0);
  assert.deepEqual(result.violations, []);
  assert.deepEqual(complaints, []);
});

test('a_module_worker_runs_it_too', options, async (t) => {
  const { page } = await open_page(t, { files });
  const images = random_tensor([1, 3, 8, 8], 23);
  const answer = await page.evaluate(
    (numbers) =>
      new Promise((resolve, reject) => {
        const worker = new Worker('worker.mjs', { type: 'module' });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
        worker.postMessage({
          net: '/net.kiln',
          images: Float32Array.from(numbers),
          detector: '/faces.kiln',
          picture: '/photo.jpg',
        });
      }),
    [...images.data],
  );
  assert.equal(answer.error, undefined);
  assert.equal(answer.fed, 192); // the feed is not detached
  const model = await api.load(files['/net.kiln']);
  t.after(() => model.dispose());
  const { logits } = await model.run({ images });
  assert.ok(relative_error(answer.logits, logits.data) < 1e-5);
  assert.ok(answer.detections.length > 0);
});

test('progress_and_abort_in_the_page', options, async (t) => {
  const slow = (path, response) => {
    if (path !== '/slow.kiln') return false;
    response.writeHead(200, { 'content-length': files['/faces.kiln'].length });
    response.write(files['/faces.kiln'].subarray(0, 100_000));
    return true;
  };
  const { page } = await open_page(t, { files, handler: slow });
  const result = await page.evaluate(async () => {
    const seen = [];
    const controller = new AbortController();
    const onProgress = (progress) => {
      seen.push(progress);
      controller.abort();
    };
    const load_code = await api.load('/slow.kiln', { signal: controller.signal, onProgress }).catch(({ code }) => code);
    const model = await api.load('/deep.kiln');
    const stop = new AbortController();
    const running = model.run({ x: new Float32Array(32 * 64 * 64) }, { signal: stop.signal });
    setTimeout(() => stop.abort(), 1);
    const run_code = await running.then(
      () => 'ran to its end',
      ({ code }) => code,
    );
    return { first: seen[0], load_code, run_code };
  });
  assert.deepEqual([result.load_code, result.run_code], ['ABORTED', 'ABORTED']);
  assert.equal(result.first.stage, 'download');
  assert.equal(result.first.total, files['/faces.kiln'].length);
});

test('memory_stays_flat_in_a_camera_loop', options, async (t) => {
  const { page } = await open_page(t, { files });
  const { first, last, disposed } = await page.evaluate(async () => {
    const detector = await api.Detector.load('/faces.kiln');
    const sides = [320, 640, 480];
    const frames = sides.map((side) => new ImageData(side, 240));
    for (const frame of frames) await detector.detect(frame);
    const before = detector.model.memory().wasm_bytes;
    for (let i = 0; i < 60; ++i) {
      const canvas = new OffscreenCanvas(sides[i % 3], 240);
      canvas.getContext('2d').fillRect(i, i, 50, 50);
      await detector.detect(canvas);
    }
    const after = detector.model.memory().wasm_bytes;
    detector.dispose();
    const message = await detector.detect(frames[0]).catch((error) => error.message);
    return { first: before, last: after, disposed: message };
  });
  assert.equal(last, first);
  assert.match(disposed, /the model has been disposed/);
});
