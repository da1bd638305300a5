// The models of the bench: random-weight layouts made by models/, and YOLOX-nano where ../shared has it; a photo as input.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { photo_tensor } from '../support/photo_tensor.mjs';
import { root } from '../../scripts/run_stage.mjs';

const kShared = join(root, '../shared/data/models');
const kShapes = {
  resnet18: [1, 3, 224, 224],
  resnet50: [1, 3, 224, 224],
  mobilenet_v2: [1, 3, 224, 224],
  yolov8n: [1, 3, 640, 640],
  yolox_nano: [1, 3, 416, 416],
};

export const kBenchModels = Object.keys(kShapes);

/**
 * Writes NAME.onnx, NAME.kiln and NAME.f32, the input's numbers, into `folder`.
 * @returns {Promise<{name: string, onnx: string, bundle: string, input: string, shape: number[], gflop: number}>} paths,
 *   input shape and 2 * MACs / 1e9
 */
export async function prepare_model(name, folder) {
  const api = await import(join(root, 'dist/index.node.js'));
  const onnx = join(folder, `${name}.onnx`);
  if (name === 'yolox_nano') {
    const file = join(kShared, 'yolox_nano.onnx');
    if (!existsSync(file)) throw new Error('yolox_nano needs ../shared/data, which is absent');
    writeFileSync(onnx, readFileSync(file));
  } else if (!existsSync(onnx)) {
    writeFileSync(onnx, write_onnx(make_layout(name, {})));
  }
  const bundle = join(folder, `${name}.kiln`);
  writeFileSync(bundle, await api.compile(onnx));
  const model = await api.load(bundle);
  const gflop = model.steps().reduce((sum, step) => sum + 2 * step.macs, 0) / 1e9;
  model.dispose();
  const input = join(folder, `${name}.f32`);
  writeFileSync(input, (await photo_tensor(name, kShapes[name][3])).data);
  return { name, onnx, bundle, input, shape: kShapes[name], gflop };
}
