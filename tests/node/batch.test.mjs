// What is padded agrees with onnxruntime on the unpadded batch; what would not is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor, relative_error, run_onnxruntime } from '../support/api.mjs';

/** A net of one node, or of what `build` makes of the graph and the input. */
function net(shape, build) {
  const g = graph('net', { opset: 13 });
  const x = g.input('x', shape);
  g.output(build(g, x), undefined);
  return write_onnx(g);
}

const kApart = {
  relu: ['N', 3, (g, x) => g.node('Relu', [x])],
  softmax_of_a_row: ['N', 5, (g, x) => g.node('Softmax', [x], { axis: 1 })],
  mean_of_a_row: ['N', 4, (g, x) => g.node('ReduceMean', [x], { axes: [1] })],
};
const kTogether = {
  softmax_over_rows: ['N', 3, (g, x) => g.node('Softmax', [x], { axis: 0 })],
  mean_over_rows: ['N', 3, (g, x) => g.node('Sub', [x, g.node('ReduceMean', [x], { axes: [0] })])],
  mean_by_the_number_of_rows: [
    'N',
    3,
    (g, x) => {
      const zero = g.initializer('zero', 'int64', [], [0n]);
      const rows = g.node('Gather', [g.node('Shape', [x]), zero]);
      return g.node('Div', [x, g.node('Cast', [rows], { to: 1 })]);
    },
  ],
  attention_over_rows: [
    'N',
    8,
    (g, x) => {
      const scores = g.node('MatMul', [x, g.node('Transpose', [x], { perm: [1, 0] })]);
      return g.node('MatMul', [g.node('Softmax', [scores], { axis: 1 }), x]);
    },
  ],
};

const load_batches = async (t, onnx) => {
  const model = await api.load(await api.compile(onnx, { dynamicBatch: [1, 4] }));
  t.after(() => model.dispose());
  return model;
};

async function check_against_onnxruntime(model, onnx, x) {
  const outputs = await model.run({ x });
  for (const [name, { dims, data }] of Object.entries(await run_onnxruntime(onnx, { x }))) {
    assert.deepEqual(outputs[name].shape, dims);
    assert.ok(relative_error(outputs[name].data, data) < 1e-6, name);
  }
}

for (const [name, [rows, columns, build]] of Object.entries(kApart)) {
  test(`padded: ${name}`, async (t) => {
    const onnx = net([rows, columns], build);
    const model = await load_batches(t, onnx);
    assert.equal(model.inputs[0].batched, true);
    for (const batch of [1, 2, 3, 4])
      await check_against_onnxruntime(model, onnx, random_tensor([batch, columns], batch));
  });
}

for (const [name, [rows, columns, build]] of Object.entries(kTogether)) {
  test(`not padded: ${name}`, async (t) => {
    const onnx = net([rows, columns], build);
    const model = await load_batches(t, onnx);
    assert.equal(model.inputs[0].batched, false);
    for (const batch of [1, 4]) await check_against_onnxruntime(model, onnx, random_tensor([batch, columns], batch));
    const refusal = { code: 'SHAPE', message: /\[1, \d\] or \[4, \d\] needed; a smaller dim 0 is padded only where/ };
    await assert.rejects(model.run({ x: random_tensor([3, columns], 3) }), refusal);
    await assert.rejects(model.run({ x: new Float32Array(2 * columns) }), refusal);
  });
}

test('a_dim_that_the_model_fixes_is_no_batch', async (t) => {
  const onnx = net([3, 8, 8], (g, x) => g.node('Relu', [x]));
  const model = await api.load(await api.compile(onnx));
  t.after(() => model.dispose());
  assert.equal(model.inputs[0].batched, false);
  await assert.rejects(model.run({ x: random_tensor([1, 8, 8], 1) }), { code: 'SHAPE', message: /\[3, 8, 8\] needed/ });
  await assert.rejects(model.run({ x: new Float32Array(64) }), { code: 'SHAPE' });
});
