// The .tflite and TensorFlow.js forms of the layouts compute what their ONNX files do: small ones on the real rivals.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { chromium_host, node_host } from '../bench/hosts.mjs';
import { is_installed } from '../bench/install.mjs';
import { run_reference, write_rival_files } from '../bench/models.mjs';
import { in_onnx_order } from '../bench/run_race.mjs';
import { random_tensor, relative_error } from '../support/api.mjs';
import { chromium_path } from '../support/chromium.mjs';
import { temp_folder } from '../support/files.mjs';

const kSize = 64;
const kShape = [1, 3, kSize, kSize];
const kLayouts = ['resnet18', 'mobilenet_v2', 'yolov8n'];
const kPackages = ['@litertjs/core', '@tensorflow/tfjs-core', '@tensorflow/tfjs-backend-wasm', 'flatbuffers'];

const missing = kPackages.find((name) => !is_installed(name));
const skip = !chromium_path()
  ? 'no Chromium on this machine'
  : missing && `${missing} is not installed (npm run bench does so)`;

test('rivals_compute_what_the_onnx_file_says', { skip }, async (t) => {
  const folder = temp_folder(t);
  const input = random_tensor(kShape, 7).data.map((value) => (value + 1) / 2);
  const file = (name, bytes) => (writeFileSync(join(folder, name), bytes), join(folder, name));
  const chromium = await chromium_host({ folder, flags: [] });
  t.after(() => chromium.close());
  const node = node_host({ node: process.execPath, version: process.versions.node, flags: [] });
  for (const name of kLayouts) {
    const graph = make_layout(name, { size: kSize });
    const onnx = file(`${name}.onnx`, write_onnx(graph));
    const expected = await run_reference(onnx, input, kShape);
    const { files, lowered } = await write_rival_files(graph, name, folder);
    const paths = { ...files, input: file('input.f32', input) };
    for (const [host, engine] of [
      [chromium, 'litert'],
      [chromium, 'tfjs'],
      [node, 'tfjs'],
    ]) {
      const session = await host.open(`${engine} in ${host.name}`);
      const names = Object.entries(paths).map(([what, path]) => [what, host.path_of(path)]);
      const job = { engine, files: Object.fromEntries(names), shape: kShape, threads: 1 };
      const { output } = await session.call('open', job);
      await session.close();
      const error = relative_error(in_onnx_order(output, engine, lowered.output), expected);
      t.diagnostic(`${name} on ${engine} in ${host.name}: ${error.toExponential(1)} of the largest value`);
      assert.ok(error < 1e-3, `${name} on ${engine} in ${host.name}: ${error}`);
    }
  }
});
