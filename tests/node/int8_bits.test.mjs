// Int8 bundles give the same bits with any number of threads and in every artefact.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { root } from '../../scripts/run_stage.mjs';
import { api, random_tensor } from '../support/api.mjs';

/** Depthwise layers and Relu6; SiLU, residuals, Concat and Split, pools, upsampling; residuals and Relu. */
const kNets = { mobilenet_v2: 64, yolov8n: 64, resnet18: 64 };
const bundles = {};

before(async () => {
  for (const [name, size] of Object.entries(kNets)) {
    const samples = [1, 2, 3].map((seed) => random_tensor([1, 3, size, size], seed));
    const onnx = write_onnx(make_layout(name, { size }));
    bundles[name] = await api.compile(onnx, { precision: 'int8', calibration: samples });
  }
});

/** Outputs of a bundle on two inputs. */
async function outputs_of(name, options) {
  const model = await api.load(bundles[name], options);
  const size = kNets[name];
  const found = [];
  for (const seed of [11, 12]) {
    const outputs = await model.run({ [model.inputs[0].name]: random_tensor([1, 3, size, size], seed) });
    found.push(...Object.values(outputs).map(({ data }) => data));
  }
  model.dispose();
  return found;
}

for (const name of Object.keys(kNets)) {
  test(`${name}_gives_the_same_bits_with_any_number_of_threads`, async () => {
    const expected = await outputs_of(name, { threads: 1 });
    assert.ok(expected[0].some((value) => value !== expected[0][0]));
    for (const threads of [2, 3]) assert.deepEqual(await outputs_of(name, { threads }), expected, `${threads} threads`);
  });

  if (name === 'yolov8n') continue; // its head is float, which relaxed SIMD rounds otherwise
  test(`${name}_gives_the_bits_of_plain_SIMD`, async (t) => {
    if (!api.capabilities().relaxed) return t.skip('no relaxed SIMD here: relaxed.test.mjs runs this with its flag');
    const wasm = readFileSync(join(root, 'dist/kiln-simd.wasm'));
    assert.deepEqual(await outputs_of(name, { threads: 1 }), await outputs_of(name, { threads: 1, wasm }));
  });
}
