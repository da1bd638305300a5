// The models of the bench in every rival's format: random-weight layouts made by models/, and YOLOX-nano where ../shared has
// it; a photo as input, and what native onnxruntime makes of it as reference.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as ort from 'onnxruntime-node';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { photo_tensor } from '../support/photo_tensor.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { lower_channels_last } from './channels_last.mjs';
import { Skipped } from './engines.mjs';

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
 * Writes a layout's graph for LiteRT.js and TensorFlow.js: NAME.tflite, NAME.plan.json and the latter's constants, NAME.plan.bin.
 * @returns the paths as {tflite, plan, plan_weights}, and what lower_channels_last() made as `lowered`
 */
export async function write_rival_files(graph, name, folder) {
  const { write_tflite } = await import('./tflite_writer.mjs'); // needs the bench's own packages
  const lowered = lower_channels_last(graph);
  const file = (ending) => join(folder, `${name}.${ending}`);
  const files = { tflite: file('tflite'), plan: file('plan.json'), plan_weights: file('plan.bin') };
  writeFileSync(files.tflite, write_tflite(lowered));
  const parts = [];
  let at = 0;
  const values = lowered.values.map(({ shape, data }) => {
    if (!data) return { shape };
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    at += data.length;
    return { shape, at: at - data.length };
  });
  writeFileSync(files.plan, JSON.stringify({ ...lowered, values }));
  writeFileSync(files.plan_weights, Buffer.concat(parts));
  return { files, lowered };
}

/** The first output of native onnxruntime. */
export async function run_reference(onnx, input, shape) {
  const session = await ort.InferenceSession.create(onnx, { logSeverityLevel: 3 });
  const feed = { [session.inputNames[0]]: new ort.Tensor('float32', input, shape) };
  const { data } = (await session.run(feed))[session.outputNames[0]];
  await session.release();
  return Float32Array.from(data);
}

/**
 * Writes a model's files into `folder`.
 * @returns {Promise<{name: string, files: Record<string, string>, shape: number[], gflop: number, reference: Float32Array,
 *   channels_last?: {dims: number[], order: number[]}, shapes: Map<string, string>}>} `files` are paths: onnx, bundle,
 *   input and, for layouts, tflite, plan, plan_weights; gflop is 2 * MACs / 1e9; `channels_last` tells how the output
 *   of the latter lies; `shapes` are convolutions' and products' sizes by node name
 * @throws Skipped where the model's file is absent
 */
export async function prepare_model(name, folder) {
  const api = await import(join(root, 'dist/index.node.js'));
  const file = (ending) => join(folder, `${name}.${ending}`);
  const files = { onnx: file('onnx'), bundle: file('kiln'), input: file('f32') };
  const shape = kShapes[name];
  let lowered;
  if (name === 'yolox_nano') {
    const source = join(kShared, 'yolox_nano.onnx');
    if (!existsSync(source)) throw new Skipped('it needs ../shared/data, which is absent');
    writeFileSync(files.onnx, readFileSync(source));
  } else {
    const graph = make_layout(name, {});
    writeFileSync(files.onnx, write_onnx(graph));
    const rivals = await write_rival_files(graph, name, folder);
    lowered = rivals.lowered;
    Object.assign(files, rivals.files);
  }
  writeFileSync(files.bundle, await api.compile(files.onnx));
  const model = await api.load(files.bundle);
  const gflop = model.steps().reduce((sum, step) => sum + 2 * step.macs, 0) / 1e9;
  model.dispose();
  const input = (await photo_tensor(name, shape[3])).data;
  writeFileSync(files.input, input);
  const reference = await run_reference(files.onnx, input, shape);
  return {
    name,
    files,
    shape,
    gflop,
    reference,
    channels_last: lowered?.output,
    shapes: lowered ? layer_shapes(lowered) : new Map(),
  };
}

/** Node name → "56x56x64, 3x3, 64" (output size, kernel, input channels). */
function layer_shapes({ values, ops }) {
  const named = ops.filter((op) => op.name);
  return new Map(
    named.map((op) => {
      const [, h, w, c] = values[op.outputs[0]].shape;
      const channels = values[op.inputs[0]].shape.at(-1);
      if (op.op === 'dense') return [op.name, `${channels} → ${h}`];
      const stride = op.strides[0] === 1 ? '' : ` s${op.strides[0]}`;
      return [op.name, `${op.kernel.join('x')}${stride}, ${op.op === 'conv' ? `${channels} → ${c}` : c}, ${h}x${w}`];
    }),
  );
}
