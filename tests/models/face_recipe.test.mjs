// The face recipes' ONNX files, run by onnxruntime-node, against what the npm package @vladmandic/face-api computes.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as ort from 'onnxruntime-node';
import { read_face_weights } from '../../models/face/face_weights.mjs';
import { build_recipe, list_recipes } from '../../models/index.mjs';
import { face_reference, list_sample_photos, read_picture, unpack_tensor } from './face_reference.mjs';
import { decode_tiny_yolov2 } from './tiny_yolov2_reference.mjs';

const kCacheDir = fileURLToPath(new URL('../../models/cache/', import.meta.url));
const kNets = ['tiny_face_detector', 'face_landmark_68', 'face_landmark_68_tiny', 'face_recognition'];
const kTolerance = 1e-4; // of the largest value of the reference's output
// The package needs some 15 s a photo (cached afterwards); TILEKILN_ALL_PHOTOS=1 takes all six.
const kPhotos = list_sample_photos().slice(0, process.env.TILEKILN_ALL_PHOTOS ? 6 : 2);
const kWidth = 640;

const sessions = {};
const references = [];

before(async () => {
  for (const name of kNets) {
    const { onnx } = await build_recipe(name, kCacheDir);
    sessions[name] = await ort.InferenceSession.create(onnx);
  }
  for (const path of kPhotos) references.push(await face_reference(await read_picture(path, kWidth)));
});

async function run_net(name, { input, output }) {
  const { dims, data } = unpack_tensor(input);
  const [input_name] = sessions[name].inputNames;
  const results = await sessions[name].run({ [input_name]: new ort.Tensor('float32', data, dims) });
  return { actual: results.output, expected: unpack_tensor(output) };
}

function relative_error(actual, expected) {
  const largest = expected.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  return actual.reduce((max, value, i) => Math.max(max, Math.abs(value - expected[i])), 0) / largest;
}

const distance = (a, b) => Math.hypot(...a.map((value, i) => value - b[i]));

/** Every { input, output } pair that the references hold for a net. */
const raw_pairs = (name) =>
  references.flatMap((reference) =>
    name === 'tiny_face_detector' ? [reference[name]] : reference.faces.map((face) => face[name]),
  );

for (const name of kNets) {
  test(`${name}_matches_package`, async (t) => {
    let worst = 0;
    for (const pair of raw_pairs(name)) {
      const { actual, expected } = await run_net(name, pair);
      assert.deepEqual([...actual.dims], expected.dims);
      worst = Math.max(worst, relative_error(actual.data, expected.data));
    }
    t.diagnostic(`${raw_pairs(name).length} inputs, relative error ${worst.toExponential(2)}`);
    assert.ok(worst <= kTolerance, `relative error ${worst} > ${kTolerance}`);
  });
}

test('detections_match_package', async (t) => {
  const { decode, input } = list_recipes().find((recipe) => recipe.name === 'tiny_face_detector');
  let worst = 0;
  for (const reference of references) {
    const { actual } = await run_net('tiny_face_detector', reference.tiny_face_detector);
    const fit = input.shape[3] / Math.max(reference.width, reference.height);
    // The package rounds the letterboxed size to whole pixels, and so the scale of each axis.
    const scale_x = Math.round(reference.width * fit) / reference.width;
    const scale_y = Math.round(reference.height * fit) / reference.height;
    const found = decode_tiny_yolov2(actual.data, actual.dims, decode);
    assert.equal(found.length, reference.faces.length);
    found.forEach((box, i) => {
      const { score, box: expected } = reference.faces[i];
      assert.ok(Math.abs(box.score - score) < 1e-4, `score ${box.score}, package ${score}`);
      for (const [side, scale] of Object.entries({ x: scale_x, y: scale_y, width: scale_x, height: scale_y })) {
        worst = Math.max(worst, Math.abs(box[side] / scale - expected[side]));
      }
    });
  }
  t.diagnostic(`boxes differ by at most ${worst.toExponential(2)} pixels`);
  assert.ok(worst < 0.01, `boxes differ by ${worst} pixels`);
});

test('landmarks_match_package', async (t) => {
  let worst = 0;
  for (const face of references.flatMap((reference) => reference.faces)) {
    const { actual } = await run_net('face_landmark_68', face.face_landmark_68);
    const { width, height } = face.landmark_crop;
    const scale = 112 / Math.max(width, height);
    const pads = [(112 - scale * width) / 2, (112 - scale * height) / 2];
    face.landmarks.flat().forEach((expected, i) => {
      const origin = i % 2 === 0 ? face.box.x : face.box.y;
      worst = Math.max(worst, Math.abs((actual.data[i] * 112 - pads[i % 2]) / scale + origin - expected));
    });
  }
  t.diagnostic(`points differ by at most ${worst.toExponential(2)} pixels`);
  assert.ok(worst < 0.01, `points differ by ${worst} pixels`);
});

test('descriptor_distances_match_package', async (t) => {
  const ours = [];
  const theirs = [];
  for (const face of references.flatMap((reference) => reference.faces)) {
    const { actual } = await run_net('face_recognition', face.face_recognition);
    ours.push([...actual.data]);
    theirs.push(face.descriptor);
  }
  let worst = 0;
  ours.forEach((a, i) => {
    assert.ok(distance(a, theirs[i]) < 1e-4, `descriptor ${i} is ${distance(a, theirs[i])} away from the package's`);
    ours.slice(0, i).forEach((b, j) => {
      worst = Math.max(worst, Math.abs(distance(a, b) - distance(theirs[i], theirs[j])));
    });
  });
  t.diagnostic(`${ours.length} faces, distances differ by at most ${worst.toExponential(2)}`);
  assert.ok(worst < 1e-4);
});

test('batch_of_faces_equals_single_faces', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'face_recipe_'));
  t.after(() => rmSync(dir, { recursive: true }));
  const { onnx } = await build_recipe('face_landmark_68_tiny', dir, { batch: 'N' });
  const session = await ort.InferenceSession.create(onnx);
  const pairs = raw_pairs('face_landmark_68_tiny').slice(0, 2);
  const data = Float32Array.from(pairs.flatMap((pair) => [...unpack_tensor(pair.input).data]));
  const { output } = await session.run({ input: new ort.Tensor('float32', data, [2, 3, 112, 112]) });
  const expected = pairs.flatMap((pair) => [...unpack_tensor(pair.output).data]);
  assert.ok(relative_error([...output.data], expected) <= kTolerance);
});

test('bad_source_hash_is_refused', () => {
  const recipe = { name: 'wrong', source: { sha256: { 'model/tiny_face_detector_model.bin': '00' } } };
  assert.throws(() => read_face_weights('tiny_face_detector_model', recipe), /sha256 is b7503c.*recipe 'wrong'/);
});
