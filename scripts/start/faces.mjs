// The main job: faces on a sample photo, their points and descriptors, as a table and an annotated picture.
import { join } from 'node:path';
import { find_face_api } from '../../models/face/face_weights.mjs';
import { descriptor_distance, find_faces } from '../../models/face/pipeline.mjs';
import { root } from '../run_stage.mjs';
import { kFaceNets } from './bundles.mjs';

/** Photos of the npm package, read where it lies. */
export const sample_photos = () => [1, 2, 3, 4, 5, 6].map((i) => join(find_face_api(), 'demo', `sample${i}.jpg`));

function print_faces(faces) {
  console.log('\n face  score      x1      y1      x2      y2');
  faces.forEach(({ box, score }, i) => {
    const numbers = box.map((value) => value.toFixed(1).padStart(7)).join(' ');
    console.log(`${String(i + 1).padStart(5)}  ${score.toFixed(3)} ${numbers}`);
  });
}

function print_distances(faces) {
  if (faces.length < 2) return;
  console.log('\ndescriptor distances (below 0.6: taken for the same person)');
  console.log(`      ${faces.map((_, i) => String(i + 1).padStart(6)).join('')}`);
  faces.forEach(({ descriptor }, i) => {
    const row = faces.map((other) => descriptor_distance(descriptor, other.descriptor).toFixed(2).padStart(6));
    console.log(`${String(i + 1).padStart(6)}${row.join('')}`);
  });
}

/** Runs the face pipeline on `photo`, prints, writes build/start/faces.png; returns the faces. */
export async function show_faces(api, bundles, photo) {
  const [detector_file, landmarks_file, recognition_file] = kFaceNets.map(
    (name) => bundles.find((b) => b.name === name).bundle,
  );
  const nets = {
    detector: await api.Detector.load(detector_file),
    landmarks: await api.ImageModel.load(landmarks_file),
    recognition: await api.ImageModel.load(recognition_file),
  };
  try {
    const picture = await api.readImage(photo);
    const { faces, times } = await find_faces(picture, nets, { score: 0.5, iou: 0.4 });
    console.log(`\n${photo.split(/[\\/]/).pop()}: ${picture.width} x ${picture.height}, ${faces.length} faces`);
    print_faces(faces);
    print_distances(faces);
    const ms = (value) => value.toFixed(1);
    console.log(
      `\ndetector ${ms(times.detector)} ms, landmarks ${ms(times.landmarks)} ms, descriptors ${ms(times.recognition)} ms for ${faces.length} faces`,
    );
    const out = join(root, 'build/start/faces.png');
    const marks = faces.map(({ box, score, points }, i) => ({
      box,
      points,
      text: `${i + 1}  ${score.toFixed(2)}`,
      color: i,
    }));
    await api.writeAnnotated(out, picture, marks);
    console.log(`wrote build/start/faces.png`);
    return faces;
  } finally {
    Object.values(nets).forEach((net) => net.dispose());
  }
}
