// Layouts with random weights, compiled and run, against onnxruntime; what compiling takes and what running holds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { make_layout } from '../../models/layouts/index.mjs';
import { write_onnx } from '../../models/onnx_writer.mjs';
import { api, relative_error, run_onnxruntime } from '../support/api.mjs';
import { photo_tensor } from '../support/photo_tensor.mjs';

const kTolerance = 1e-4; // of the tensor's largest value
const kMemoryOverhead = 1.3; // of the plan's largest live set
const kInstance = 3 << 20; // the instance itself: stack, static data, pages rounded up

const kNets = [
  ['resnet18', { size: 224 }],
  ['resnet50', { size: 224 }],
  ['resnet50', { size: 160, bn: true, opset: 11 }],
  ['mobilenet_v2', { size: 224 }],
  ['yolov8n', { size: 640 }],
  ['yolov8n', { size: 320, simplify: false, bn: true }],
  ['yolov5n', { size: 320 }, 3e-4], // onnxruntime's own optimisation levels differ by 1.1e-4 on it
];

for (const [name, options, tolerance = kTolerance] of kNets) {
  test(`${name} ${JSON.stringify(options)}`, async (t) => {
    const onnx = write_onnx(make_layout(name, options));
    const start = performance.now();
    const bundle = await api.compile(onnx);
    const compiled = performance.now();
    const model = await api.load(bundle);
    t.after(() => model.dispose());
    const feeds = { [model.inputs[0].name]: await photo_tensor(name, options.size) };
    const outputs = await model.run(feeds);
    const expected = await run_onnxruntime(onnx, feeds);
    const errors = Object.entries(expected).map(([output, { dims, data }]) => {
      assert.deepEqual(outputs[output].shape, dims);
      return relative_error(outputs[output].data, data);
    });
    const memory = model.memory();
    const ratio = memory.arena_bytes / memory.peak_live_bytes;
    t.diagnostic(
      `compiled in ${((compiled - start) / 1000).toFixed(2)} s; relative error ${Math.max(...errors).toExponential(2)}; ` +
        `arena ${(memory.arena_bytes / 1e6).toFixed(1)} MB, ${ratio.toFixed(3)} of the live peak; ` +
        `weights ${(memory.weights_bytes / 1e6).toFixed(1)} MB and prepared ${(memory.prepared_bytes / 1e6).toFixed(1)} MB, wasm memory ${(memory.wasm_bytes / 1e6).toFixed(1)} MB`,
    );
    assert.ok(Math.max(...errors) <= tolerance, `relative error ${Math.max(...errors)}`);
    assert.ok(memory.prepared_bytes <= memory.weights_bytes, 'transformed weights take no more than the weights do');
    const allowed = memory.weights_bytes + memory.prepared_bytes + kMemoryOverhead * memory.peak_live_bytes;
    assert.ok(memory.arena_bytes <= kMemoryOverhead * memory.peak_live_bytes);
    assert.ok(
      memory.wasm_bytes <= allowed + kInstance,
      `${memory.wasm_bytes} bytes, allowed ${allowed} + ${kInstance}`,
    );
    assert.deepEqual((await model.run(feeds))[model.outputs[0].name].data, outputs[model.outputs[0].name].data);
  });
}
