// What the npm package @vladmandic/face-api itself computes for a picture, on its own bundled TensorFlow.js.
//
// The reference for the face recipes: raw network inputs and outputs, detections, landmarks and descriptors. Slow
// (TensorFlow.js in plain JavaScript), so results are cached under models/cache/, which git ignores.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compileFunction } from 'node:vm';
import sharp from 'sharp';
import { find_face_api } from '../../models/face/face_weights.mjs';

const kCacheDir = fileURLToPath(new URL('../../models/cache/face_reference/', import.meta.url));
const kCacheFormat = 2;

/** The package's sample photos, as paths in its folder. */
export const list_sample_photos = () => [1, 2, 3, 4, 5, 6].map((i) => join(find_face_api(), 'demo', `sample${i}.jpg`));

/** A picture as { data: RGB bytes, width, height }; `width` scales it down (the reference needs no large one). */
export async function read_picture(path, width) {
  const pipeline = sharp(path).rotate().removeAlpha();
  if (width) pipeline.resize({ width });
  const { data, info } = await pipeline.raw().toBuffer({ resolveWithObject: true });
  return { data: new Uint8Array(data.buffer, data.byteOffset, data.length), width: info.width, height: info.height };
}

let loading;

// The package's self-contained build is for browsers and fails where it finds Node's `process`; it gets a window instead.
function evaluate_package() {
  const path = join(find_face_api(), 'dist/face-api.js');
  const body = compileFunction(`${readFileSync(path, 'utf8')}\nreturn faceapi;`, ['process', 'window', 'document']);
  const document = {};
  const faceapi = body(undefined, { document }, document);
  faceapi.env.setEnv(faceapi.env.createNodejsEnv());
  return faceapi;
}

async function start_face_api() {
  const faceapi = evaluate_package();
  const { tf, nets } = faceapi;
  await tf.setBackend('cpu');
  await tf.ready();
  const load = (net, model) => {
    const [group] = JSON.parse(readFileSync(join(find_face_api(), `model/${model}-weights_manifest.json`), 'utf8'));
    const { buffer } = new Uint8Array(readFileSync(join(find_face_api(), `model/${model}.bin`)));
    net.loadFromWeightMap(tf.io.decodeWeights(buffer, group.weights));
  };
  load(nets.tinyFaceDetector, 'tiny_face_detector_model');
  load(nets.faceLandmark68Net, 'face_landmark_68_model');
  load(nets.faceLandmark68TinyNet, 'face_landmark_68_tiny_model');
  load(nets.faceRecognitionNet, 'face_recognition_model');
  return faceapi;
}

/** The package, started on the CPU backend with the weights of the four nets that have a recipe. */
export const load_face_api = () => (loading ??= start_face_api());

/** A tensor in the cache file: little-endian float32 in base64. */
function pack_tensor(tensor) {
  const data = tensor.dataSync();
  return { dims: tensor.shape, base64: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64') };
}

/** A tensor of the reference → { dims, data: Float32Array }. */
export function unpack_tensor({ dims, base64 }) {
  const bytes = new Uint8Array(Buffer.from(base64, 'base64'));
  return { dims, data: new Float32Array(bytes.buffer, 0, bytes.byteLength / 4) };
}

/** Mean subtracted (RGB, 0..255) before the division by 255: the detector's, and the other nets'. */
export const kMeans = { detector: [117.001, 114.697, 97.404], face: [122.782, 117.001, 104.298] };

const plain_box = ({ x, y, width, height }) => ({ x, y, width, height });

// What a net sees and says, before any decoding: the package's own resize, padding and normalisation.
async function run_raw(faceapi, pixels, { size, centred, mean, run }) {
  const { tf } = faceapi;
  const net_input = await faceapi.toNetInput(pixels);
  return tf.tidy(() => {
    const batch = tf.cast(net_input.toBatchTensor(size, centred), 'float32');
    const input = tf.div(tf.sub(batch, tf.tensor1d(mean)), 255);
    return { input: pack_tensor(tf.transpose(input, [0, 3, 1, 2])), output: pack_tensor(run(net_input)) };
  });
}

async function compute_reference(picture, { input_size }) {
  const faceapi = await load_face_api();
  const { tf, nets } = faceapi;
  const image = tf.tensor3d(picture.data, [picture.height, picture.width, 3], 'int32');
  const detector = await run_raw(faceapi, image, {
    size: input_size,
    centred: false,
    mean: kMeans.detector,
    run: (x) => nets.tinyFaceDetector.forwardInput(x, input_size),
  });
  const options = new faceapi.TinyFaceDetectorOptions({ inputSize: input_size, scoreThreshold: 0.5 });
  const found = await faceapi.detectAllFaces(image, options).withFaceLandmarks().withFaceDescriptors();

  const faces = [];
  for (const { detection, unshiftedLandmarks, landmarks, descriptor } of found) {
    const [crop] = await faceapi.extractFaceTensors(image, [detection]);
    const aligned_box = landmarks.align(null, { useDlibAlignment: true });
    const [aligned] = await faceapi.extractFaceTensors(image, [aligned_box]);
    const landmark_net = (net) =>
      run_raw(faceapi, crop, { size: 112, centred: true, mean: kMeans.face, run: (x) => net.runNet(x) });
    faces.push({
      score: detection.score,
      box: plain_box(detection.box),
      landmark_crop: { width: unshiftedLandmarks.imageWidth, height: unshiftedLandmarks.imageHeight },
      landmarks: landmarks.positions.map(({ x, y }) => [x, y]),
      face_landmark_68: await landmark_net(nets.faceLandmark68Net),
      face_landmark_68_tiny: await landmark_net(nets.faceLandmark68TinyNet),
      aligned_box: plain_box(aligned_box),
      face_recognition: await run_raw(faceapi, aligned, {
        size: 150,
        centred: true,
        mean: kMeans.face,
        run: (x) => nets.faceRecognitionNet.forwardInput(x),
      }),
      descriptor: Array.from(descriptor),
    });
    tf.dispose([crop, aligned]);
  }
  image.dispose();
  return { width: picture.width, height: picture.height, tiny_face_detector: detector, faces };
}

/**
 * The package's results for a picture ({ data, width, height }, RGB bytes):
 *
 *   { width, height,
 *     tiny_face_detector: { input, output },              raw tensors, inputs NCHW; see unpack_tensor()
 *     faces: [{ score, box, landmark_crop, landmarks,     boxes { x, y, width, height } and points in pixels
 *               face_landmark_68: { input, output }, face_landmark_68_tiny: { input, output },
 *               aligned_box, face_recognition: { input, output }, descriptor }] }
 *
 * Faces are in the package's order (score falling), threshold 0.5, IoU 0.4. Landmarks are the larger net's.
 * Option: input_size of the detector (416).
 */
export async function face_reference(picture, { input_size = 416 } = {}) {
  const { version } = JSON.parse(readFileSync(join(find_face_api(), 'package.json'), 'utf8'));
  const key = createHash('sha256')
    .update(picture.data)
    .update(JSON.stringify([kCacheFormat, version, picture.width, picture.height, input_size]))
    .digest('hex')
    .slice(0, 24);
  const path = join(kCacheDir, `${key}.json`);
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  const result = await compute_reference(picture, { input_size });
  mkdirSync(kCacheDir, { recursive: true });
  writeFileSync(path, JSON.stringify(result));
  return result;
}
