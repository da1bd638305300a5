// A real photo as a net's input. Nets with random weights blow rounding up on noise: there even onnxruntime's own builds
// differ by 5e-4 on a YOLO, while on a photo everybody agrees.
import { list_sample_photos, read_picture } from '../models/face_reference.mjs';
import { make_preprocessor } from './boxes.mjs';

const kImagenet = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };

/** f32 Tensor [1, 3, size, size] of a sample photo: 0 to 1 for names of YOLOs, ImageNet's normalisation for others. */
export async function photo_tensor(name, size) {
  const recipe = { resize: 'stretch', ...(name.startsWith('yolo') ? {} : kImagenet) };
  const preprocessor = await make_preprocessor(recipe, [size, size]);
  const photo = await read_picture(list_sample_photos()[0]);
  const { tensor } = await preprocessor.run({ ...photo, channels: 3 });
  preprocessor.dispose();
  return tensor;
}
