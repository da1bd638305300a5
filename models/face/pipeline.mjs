// Faces in a picture, end to end: boxes, 68 points and a 128-value descriptor each. Pure geometry around three nets;
// the formulas are those of the recipes' model.json (`crop`, `decode`).

const kInputSide = 112; // of the landmark net
const kEyeMouthShare = 0.45; // distance eyes to mouth over the side of the aligned crop
const kCentreHeight = 0.43; // of the aligned crop

/** The part of a picture that a box covers: clipped, whole pixels. */
export function crop_picture(picture, { x, y, width, height }) {
  const left = Math.floor(Math.max(0, Math.min(x, picture.width - 1)));
  const top = Math.floor(Math.max(0, Math.min(y, picture.height - 1)));
  const w = Math.max(1, Math.min(Math.floor(width), picture.width - left));
  const h = Math.max(1, Math.min(Math.floor(height), picture.height - top));
  const c = picture.channels;
  const data = new Uint8Array(w * h * c);
  for (let row = 0; row < h; ++row) {
    const from = ((top + row) * picture.width + left) * c;
    data.set(picture.data.subarray(from, from + w * c), row * w * c);
  }
  return { data, width: w, height: h, channels: c, left, top };
}

/** The landmark net's output as 68 [x, y] in pixels of the picture. */
export function landmark_points(output, crop) {
  const scale = kInputSide / Math.max(crop.width, crop.height);
  const pad_x = (kInputSide - scale * crop.width) / 2;
  const pad_y = (kInputSide - scale * crop.height) / 2;
  return Array.from({ length: 68 }, (_, i) => [
    (output[2 * i] * kInputSide - pad_x) / scale + crop.left,
    (output[2 * i + 1] * kInputSide - pad_y) / scale + crop.top,
  ]);
}

const mean_point = (points) =>
  [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);

/** The box that the recognition net wants, from the landmarks (eyes and mouth at fixed places). */
export function aligned_box(points, crop) {
  const left = mean_point(points.slice(36, 42));
  const right = mean_point(points.slice(42, 48));
  const mouth = mean_point(points.slice(48, 68));
  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  const size = Math.floor((distance(left, mouth) + distance(right, mouth)) / 2 / kEyeMouthShare);
  const [cx, cy] = mean_point([left, right, mouth]);
  const x = Math.floor(Math.max(0, cx - 0.5 * size));
  const y = Math.floor(Math.max(0, cy - kCentreHeight * size));
  return { x, y, width: Math.min(size, crop.width + x), height: Math.min(size, crop.height + y) };
}

/** Euclidean distance of two descriptors; below 0.6 they are taken for the same person. */
export function descriptor_distance(a, b) {
  return Math.sqrt(a.reduce((sum, value, i) => sum + (value - b[i]) ** 2, 0));
}

/**
 * @param picture {data, width, height, channels}, as readImage gives it
 * @param nets {detector: Detector, landmarks: ImageModel, recognition: ImageModel}
 * @param options of detector.detect
 * @returns {Promise<{faces: {box, score, points, descriptor}[], times}>} boxes and points in pixels of the picture;
 *   `times` in milliseconds by net
 */
export async function find_faces(picture, { detector, landmarks, recognition }, options) {
  const started = performance.now();
  const found = await detector.detect(picture, options);
  const times = { detector: performance.now() - started, landmarks: 0, recognition: 0 };
  const faces = [];
  for (const { box, score } of found) {
    const [x1, y1, x2, y2] = box;
    const crop = crop_picture(picture, { x: x1, y: y1, width: x2 - x1, height: y2 - y1 });
    const before = performance.now();
    const { outputs } = await landmarks.run(crop);
    const points = landmark_points(Object.values(outputs)[0].data, crop);
    const between = performance.now();
    const aligned = crop_picture(picture, aligned_box(points, crop));
    const { outputs: features } = await recognition.run(aligned);
    times.landmarks += between - before;
    times.recognition += performance.now() - between;
    faces.push({ box, score, points, descriptor: Object.values(features)[0].data });
  }
  return { faces, times };
}
