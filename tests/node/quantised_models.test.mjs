// Quantised models as other tools write them (QDQ, QOperator, dynamic) against onnxruntime: integers within one step.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor, relative_error, run_onnxruntime } from '../support/api.mjs';

const kMicrosoft = { domain: 'com.microsoft' };
const kFloatTolerance = 1e-5; // of the largest value

/** Seeded integers in [low, high). Weights stay within 7 bits: onnxruntime's u8 x s8 product saturates at 16 without VNNI. */
const integers = (shape, seed, low = -63, high = 64) =>
  random_tensor(shape, seed).data.map((v) => Math.floor(low + ((v + 1) / 2) * (high - low)));

/** A graph with the float input x, and makers of what quantised graphs consist of. */
function quantised_graph(shape) {
  const g = graph('quantised', { opset: 13 });
  const x = g.input('x', shape);
  let count = 0;
  const constant = (dtype, dims, data) => g.initializer(`c${count++}`, dtype, dims, data);
  const scalar = (dtype, value) => constant(dtype, [], [value]);
  const f32 = (value) => scalar('float32', value);
  const pair = (scale, zero_point, dtype = 'uint8') => [f32(scale), scalar(dtype, zero_point)];
  const quantize = (value, scale, zero_point, dtype) =>
    g.node('QuantizeLinear', [value, ...pair(scale, zero_point, dtype)]);
  const dequantize = (value, scale, zero_point, dtype) =>
    g.node('DequantizeLinear', [value, ...pair(scale, zero_point, dtype)]);
  const fake = (value, scale, zero_point, dtype) =>
    dequantize(quantize(value, scale, zero_point, dtype), scale, zero_point, dtype);
  return { g, x, constant, scalar, f32, pair, quantize, dequantize, fake };
}

/** name → a graph and the dtype of its output y. */
const kGraphs = {
  /** QAT style: filters with a scale each, i32 bias, a Transpose between the weights of the Gemm and their DequantizeLinear. */
  qdq_network() {
    const b = quantised_graph([1, 3, 12, 12]);
    const { g } = b;
    const filters = (o, c, k, seed) =>
      g.node(
        'DequantizeLinear',
        [
          b.constant('int8', [o, c, k, k], integers([o, c, k, k], seed)),
          b.constant(
            'float32',
            [o],
            Array.from({ length: o }, (_, i) => 0.004 + 0.001 * i),
          ),
          b.constant('int8', [o], new Int8Array(o)),
        ],
        { axis: 0 },
      );
    const bias = g.node(
      'DequantizeLinear',
      [
        b.constant('int32', [8], integers([8], 5, -900, 900)),
        b.constant(
          'float32',
          [8],
          Array.from({ length: 8 }, (_, i) => (0.004 + 0.001 * i) * 0.008),
        ),
      ],
      { axis: 0 },
    );
    const x = b.fake(b.x, 0.008, 128);
    const first = g.node('Relu', [g.node('Conv', [x, filters(8, 3, 3, 1), bias], { pads: [1, 1, 1, 1] })]);
    const one = b.fake(first, 0.02, 0);
    const two = b.fake(g.node('Conv', [one, filters(8, 8, 1, 2)]), 0.05, 130);
    const sum = b.fake(g.node('Add', [one, two]), 0.06, 120);
    const mean = b.fake(g.node('GlobalAveragePool', [sum]), 0.03, 120);
    const weights = b.dequantize(b.constant('int8', [5, 8], integers([5, 8], 3)), 0.01, 0, 'int8');
    const turned = g.node('Transpose', [weights], { perm: [1, 0] });
    const logits = g.node('Gemm', [g.node('Flatten', [mean]), turned]);
    return { b, y: b.quantize(logits, 0.03, 110), dtype: 'uint8' };
  },
  qdq_i8_depthwise() {
    const b = quantised_graph([2, 4, 9, 9]);
    const w = b.g.node(
      'DequantizeLinear',
      [
        b.constant('int8', [4, 1, 3, 3], integers([4, 1, 3, 3], 1)),
        b.constant('float32', [4], [0.01, 0.02, 0.03, 0.04]),
      ],
      { axis: 0 },
    );
    const conv = b.g.node('Conv', [b.fake(b.x, 0.01, 3, 'int8'), w], { group: 4, strides: [2, 2], pads: [1, 1, 1, 1] });
    return { b, y: b.quantize(conv, 0.06, -5, 'int8'), dtype: 'int8' };
  },
  qlinear_conv() {
    const b = quantised_graph([1, 3, 8, 9]);
    const q = b.quantize(b.x, 0.008, 128);
    const y = b.g.node(
      'QLinearConv',
      [
        ...[q, ...b.pair(0.008, 128), b.constant('int8', [4, 3, 3, 3], integers([4, 3, 3, 3], 1))],
        ...[b.constant('float32', [4], [0.01, 0.011, 0.012, 0.013]), b.constant('int8', [4], [0, 0, 0, 0])],
        ...[...b.pair(0.03, 120), b.constant('int32', [4], [500, -300, 0, 900])],
      ],
      { pads: [1, 1, 1, 1], strides: [2, 1] },
    );
    return { b, y, dtype: 'uint8' };
  },
  qlinear_matmul_u8u8() {
    const b = quantised_graph([2, 5, 16]);
    const w = b.constant('uint8', [16, 7], integers([16, 7], 1, 0, 256));
    const q = b.quantize(b.x, 0.008, 128);
    return {
      b,
      y: b.g.node('QLinearMatMul', [q, ...b.pair(0.008, 128), w, ...b.pair(0.01, 120), ...b.pair(0.05, 128)]),
      dtype: 'uint8',
    };
  },
  q_gemm() {
    const b = quantised_graph([3, 16]);
    const w = b.constant('int8', [7, 16], integers([7, 16], 1));
    const q = b.quantize(b.x, 0.008, 128);
    const c = b.constant('int32', [7], integers([7], 3, -900, 900));
    const y = b.g.node(
      'QGemm',
      [q, ...b.pair(0.008, 128), w, ...b.pair(0.01, 0, 'int8'), c, ...b.pair(0.02, 128)],
      { transB: 1 },
      kMicrosoft,
    );
    return { b, y, dtype: 'uint8' };
  },
  ...Object.fromEntries(
    ['QLinearAdd', 'QLinearMul'].map((op) => [
      op,
      () => {
        const b = quantised_graph([2, 4, 6]);
        const q = b.quantize(b.x, 0.008, 128);
        const r = b.quantize(b.x, 0.01, 110);
        const y = b.g.node(
          op,
          [q, ...b.pair(0.008, 128), r, ...b.pair(0.01, 110), ...b.pair(0.013, 125)],
          {},
          kMicrosoft,
        );
        return { b, y, dtype: 'uint8' };
      },
    ]),
  ),
  ...Object.fromEntries(
    [
      ['QLinearSigmoid', {}, 0.004, 0],
      ['QLinearLeakyRelu', { alpha: 0.2 }, 0.006, 40],
      ['QLinearSoftmax', { axis: -1, opset: 13 }, 1 / 256, 0],
      ['QLinearGlobalAveragePool', { channels_last: 0 }, 0.002, 120],
      ['QLinearGlobalAveragePool', { channels_last: 1 }, 0.002, 120],
      ['QLinearAveragePool', { kernel_shape: [2, 2], pads: [1, 0, 0, 1] }, 0.006, 120],
    ].map(([op, attributes, scale, zero_point]) => [
      `${op} ${JSON.stringify(attributes)}`,
      () => {
        const b = quantised_graph([2, 4, 6, 5]);
        const q = b.quantize(b.x, 0.008, 128);
        const y = b.g.node(op, [q, ...b.pair(0.008, 128), ...b.pair(scale, zero_point)], attributes, kMicrosoft);
        return { b, y, dtype: 'uint8' };
      },
    ]),
  ),
  QLinearConcat() {
    const b = quantised_graph([2, 4, 6]);
    const q = b.quantize(b.x, 0.008, 128);
    const r = b.quantize(b.x, 0.01, 110);
    const inputs = [...b.pair(0.009, 120), q, ...b.pair(0.008, 128), r, ...b.pair(0.01, 110)];
    return { b, y: b.g.node('QLinearConcat', inputs, { axis: 1 }, kMicrosoft), dtype: 'uint8' };
  },
  /** What quantize_dynamic makes of a MatMul with u8 x s8 weights. */
  dynamic_matmul() {
    const b = quantised_graph([2, 5, 32]);
    const [q, scale, zero_point] = b.g.node('DynamicQuantizeLinear', [b.x], {}, { outputs: 3 });
    const w = b.constant('int8', [32, 9], integers([32, 9], 1));
    const sum = b.g.node('MatMulInteger', [q, w, zero_point, b.scalar('int8', 0)]);
    const product = b.g.node('Mul', [scale, b.constant('float32', [9], new Float32Array(9).fill(0.01))]);
    return { b, y: b.g.node('Mul', [b.g.node('Cast', [sum], { to: 1 }), product]), dtype: 'float32' };
  },
  dynamic_conv() {
    const b = quantised_graph([1, 3, 8, 8]);
    const [q, scale, zero_point] = b.g.node('DynamicQuantizeLinear', [b.x], {}, { outputs: 3 });
    const w = b.constant('uint8', [4, 3, 3, 3], integers([4, 3, 3, 3], 1, 0, 256));
    const sum = b.g.node('ConvInteger', [q, w, zero_point, b.scalar('uint8', 128)], { pads: [1, 1, 1, 1] });
    const product = b.g.node('Mul', [scale, b.f32(0.01)]);
    return { b, y: b.g.node('Mul', [b.g.node('Cast', [sum], { to: 1 }), product]), dtype: 'float32' };
  },
  dynamic_sums() {
    const b = quantised_graph([2, 5, 32]);
    const [q, , zero_point] = b.g.node('DynamicQuantizeLinear', [b.x], {}, { outputs: 3 });
    const w = b.constant('int8', [32, 9], integers([32, 9], 1));
    return { b, y: b.g.node('MatMulInteger', [q, w, zero_point]), dtype: 'int32' };
  },
  DynamicQuantizeMatMul() {
    const b = quantised_graph([2, 5, 32]);
    const w = b.constant('int8', [32, 9], integers([32, 9], 1));
    const bias = b.constant('float32', [9], random_tensor([9], 4).data);
    const y = b.g.node('DynamicQuantizeMatMul', [b.x, w, ...b.pair(0.01, 0, 'int8'), bias], {}, kMicrosoft);
    return { b, y, dtype: 'float32' };
  },
  MatMulIntegerToFloat() {
    const b = quantised_graph([2, 5, 32]);
    const w = b.constant('int8', [32, 9], integers([32, 9], 1));
    const q = b.quantize(b.x, 0.008, 128);
    const tables = [b.f32(0.008), b.f32(0.01), b.scalar('uint8', 128), b.scalar('int8', 0)];
    return { b, y: b.g.node('MatMulIntegerToFloat', [q, w, ...tables], {}, kMicrosoft), dtype: 'float32' };
  },
};

for (const [name, make] of Object.entries(kGraphs)) {
  test(`quantised ${name} equals onnxruntime`, async (t) => {
    const { b, y, dtype } = make();
    b.g.output(y, undefined, dtype);
    const onnx = write_onnx(b.g);
    const feeds = {
      x: random_tensor(
        b.g.inputs[0].type.tensor_type.shape.dim.map((d) => d.dim_value),
        7,
      ),
    };
    const expected = (await run_onnxruntime(onnx, feeds))[y];
    const model = await api.load(await api.compile(onnx));
    t.after(() => model.dispose());
    const actual = (await model.run(feeds))[y];
    assert.deepEqual(actual.shape, expected.dims);
    if (dtype === 'float32') {
      const error = relative_error(actual.data, expected.data);
      assert.ok(error <= kFloatTolerance, `relative error ${error}`);
      return;
    }
    const allowed = dtype === 'int32' ? 0 : 1;
    assert.ok(new Set(actual.data).size > 3, 'outputs differ from each other');
    let different = 0;
    actual.data.forEach((value, i) => {
      const steps = Math.abs(value - expected.data[i]);
      assert.ok(steps <= allowed, `element ${i}: ${value}, onnxruntime ${expected.data[i]}`);
      different += steps;
    });
    // Few outputs say nothing about the share: onnxruntime's own optimisations move one in seven of a network's by a step.
    if (actual.data.length < 50) return;
    assert.ok(different <= 0.02 * actual.data.length, `${different} of ${actual.data.length} differ by a step`);
  });
}

test('quantize_rounds_half_to_even_and_saturates', async (t) => {
  const b = quantised_graph([6]);
  b.g.output(b.quantize(b.x, 1, 0, 'int8'), [6], 'int8');
  const model = await api.load(await api.compile(write_onnx(b.g)));
  t.after(() => model.dispose());
  const x = new api.Tensor('f32', [6], new Float32Array([0.5, 1.5, 2.5, -0.5, -1.5, 127.5]));
  const [y] = Object.values(await model.run({ x }));
  assert.deepEqual([...y.data], [0, 2, 2, 0, -2, 127]);
});

test('full_range_sums_are_exact', async (t) => {
  const g = graph('full', { opset: 13 });
  const w = g.initializer('w', 'int8', [64, 2], new Int8Array(128).fill(-128));
  g.output(g.node('MatMulInteger', [g.input('a', [3, 64], 'uint8'), w], {}, { outputs: ['y'] }), [3, 2], 'int32');
  const model = await api.load(await api.compile(write_onnx(g)));
  t.after(() => model.dispose());
  const { y } = await model.run({ a: new api.Tensor('u8', [3, 64], new Uint8Array(192).fill(255)) });
  assert.deepEqual([...y.data], new Array(6).fill(64 * 255 * -128));
});
