// Small ONNX models for the fuzzers to start from: every operator that real vision models use, alone and as they are joined.
import { graph, make_tensor, write_onnx } from '../../models/onnx_writer.mjs';

const ramp = (n) => Float32Array.from({ length: n }, (_, i) => ((i * 7) % 11) / 8 - 0.5);

/** A graph with an f32 input x, the constants that `build` asks for, and one output. */
function seed(dims, build, { opset = 13, input = 'float32', output = 'float32', ...options } = {}) {
  const g = graph('seed', { opset, ...options });
  const x = g.input('x', dims, input);
  let count = 0;
  const constant = (dtype, shape, data) => g.initializer(`c${count++}`, dtype, shape, data);
  const f32 = (...shape) => constant('float32', shape, ramp(shape.reduce((a, b) => a * b, 1)));
  const i64 = (...values) => constant('int64', [values.length], values);
  const y = build(g, x, { f32, i64, constant });
  for (const value of [y].flat()) g.output(value, undefined, output);
  return write_onnx(g);
}

const kImage = [1, 4, 6, 6];
const one = (op, attributes, options) => seed(kImage, (g, x) => g.node(op, [x], attributes), options);

const kUnary = [
  ...['Relu', 'Sigmoid', 'HardSwish', 'Tanh', 'Exp', 'Sqrt', 'Neg', 'Erf', 'Softplus', 'Identity', 'Flatten'],
  ...['GlobalAveragePool', 'ReduceMean', 'ReduceMax', 'Transpose', 'Shape'],
];

/** Name → bytes of a model. */
export const onnx_seeds = {
  ...Object.fromEntries(
    kUnary.map((op) => [op, one(op, {}, { opset: 14, output: op === 'Shape' ? 'int64' : 'float32' })]),
  ),
  leaky_relu: one('LeakyRelu', { alpha: 0.1 }),
  softmax: one('Softmax', { axis: 1 }),
  softmax_2d: one('Softmax', { axis: 2 }, { opset: 11 }),
  max_pool: one('MaxPool', { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1], ceil_mode: 1 }),
  average_pool: one('AveragePool', { kernel_shape: [3, 3], auto_pad: 'SAME_UPPER', count_include_pad: 1 }),
  space_to_depth: one('SpaceToDepth', { blocksize: 2 }),
  depth_to_space: one('DepthToSpace', { blocksize: 2, mode: 'CRD' }),
  top_k: seed([2, 8], (g, x, { i64 }) => g.node('TopK', [x, i64(3)], { axis: -1 }, { outputs: 2 })[0]),
  clip: seed(kImage, (g, x, { constant }) => g.node('Clip', [x, null, constant('float32', [], [6])])),
  conv: seed(kImage, (g, x, { f32 }) =>
    g.node('Conv', [x, f32(3, 4, 3, 3), f32(3)], { pads: [1, 1, 1, 1], strides: [2, 2], dilations: [1, 1] }),
  ),
  depthwise: seed(kImage, (g, x, { f32 }) =>
    g.node('Conv', [x, f32(4, 1, 3, 3)], { group: 4, auto_pad: 'SAME_LOWER' }),
  ),
  conv_transpose: seed(kImage, (g, x, { f32 }) =>
    g.node('ConvTranspose', [x, f32(4, 2, 2, 2)], { strides: [2, 2], output_padding: [1, 1] }),
  ),
  qdq_conv: seed(kImage, (g, x, { constant }) => {
    const tables = [constant('float32', [], [0.1]), constant('uint8', [], [128])];
    const scales = constant('float32', [3], [0.1, 0.2, 0.3]);
    const w = g.node('DequantizeLinear', [constant('int8', [3, 4, 1, 1], new Int8Array(12).fill(9)), scales], {
      axis: 0,
    });
    const q = g.node('QuantizeLinear', [x, ...tables]);
    const y = g.node('Conv', [g.node('DequantizeLinear', [q, ...tables]), w]);
    return g.node('DequantizeLinear', [g.node('QuantizeLinear', [y, ...tables]), ...tables]);
  }),
  qlinear: seed(
    kImage,
    (g, x, { constant }) => {
      const tables = [constant('float32', [], [0.1]), constant('uint8', [], [128])];
      const w = constant('uint8', [4, 4, 1, 1], new Uint8Array(16).fill(140));
      const q = g.node('QuantizeLinear', [x, ...tables]);
      const conv = g.node('QLinearConv', [q, ...tables, w, ...tables, ...tables, constant('int32', [4], [1, 2, 3, 4])]);
      const microsoft = { domain: 'com.microsoft' };
      const sum = g.node('QLinearAdd', [q, ...tables, conv, ...tables, ...tables], {}, microsoft);
      return g.node('QLinearConcat', [...tables, sum, ...tables, conv, ...tables], { axis: 1 }, microsoft);
    },
    { output: 'uint8' },
  ),
  dynamic_quantised: seed([2, 5], (g, x, { constant }) => {
    const [q, scale, zero] = g.node('DynamicQuantizeLinear', [x], {}, { outputs: 3 });
    const w = constant('int8', [5, 3], new Int8Array(15).fill(-7));
    const sum = g.node('Cast', [g.node('MatMulInteger', [q, w, zero])], { to: 1 });
    const conv = g.node('ConvInteger', [
      g.node('Reshape', [q, constant('int64', [4], [1, 1, 2, 5])]),
      constant('uint8', [1, 1, 1, 1], [3]),
    ]);
    return [g.node('Mul', [sum, scale]), g.node('Cast', [conv], { to: 1 })];
  }),
  batch_norm: seed(kImage, (g, x, { f32, constant }) =>
    g.node('BatchNormalization', [
      g.node('Conv', [x, f32(4, 4, 1, 1)]),
      f32(4),
      f32(4),
      f32(4),
      constant('float32', [4], [1, 2, 3, 4]),
    ]),
  ),
  residual: seed(kImage, (g, x, { f32 }) => {
    const a = g.node('Relu', [g.node('Conv', [x, f32(4, 4, 3, 3), f32(4)], { pads: [1, 1, 1, 1] })]);
    return g.node('Relu', [g.node('Add', [g.node('Conv', [a, f32(4, 4, 1, 1)]), x])]);
  }),
  silu: seed(kImage, (g, x, { f32 }) => {
    const a = g.node('Conv', [x, f32(4, 4, 1, 1), f32(4)]);
    return g.node('Mul', [a, g.node('Sigmoid', [a])]);
  }),
  gemm: seed([2, 3], (g, x, { f32 }) => g.node('Gemm', [x, f32(5, 3), f32(5)], { transB: 1, alpha: 0.5 })),
  matmul: seed([2, 3, 4], (g, x, { f32 }) => g.node('MatMul', [x, f32(2, 4, 5)])),
  attention: seed([1, 4, 6], (g, x, { f32 }) => {
    const k = g.node('Transpose', [g.node('MatMul', [x, f32(6, 6)])], { perm: [0, 2, 1] });
    return g.node('MatMul', [g.node('Softmax', [g.node('MatMul', [x, k])], { axis: -1 }), x]);
  }),
  resize: seed(kImage, (g, x, { constant }) =>
    g.node('Resize', [x, null, constant('float32', [4], [1, 1, 2, 2])], {
      mode: 'nearest',
      coordinate_transformation_mode: 'asymmetric',
      nearest_mode: 'floor',
    }),
  ),
  resize_sizes: seed(kImage, (g, x, { i64 }) => g.node('Resize', [x, null, null, i64(1, 4, 9, 5)], { mode: 'linear' })),
  focus: seed(kImage, (g, x, { i64 }) => {
    const part = (h, w) => g.node('Slice', [x, i64(h, w), i64(9223372036854775807n, 6), i64(2, 3), i64(2, 2)]);
    return g.node('Concat', [part(0, 0), part(1, 0), part(0, 1), part(1, 1)], { axis: 1 });
  }),
  slice_back: seed(kImage, (g, x, { i64 }) =>
    g.node('Slice', [x, i64(-1), i64(-9223372036854775808n), i64(3), i64(-1)]),
  ),
  split: seed(kImage, (g, x, { i64 }) => {
    const [a, b] = g.node('Split', [x, i64(1, 3)], { axis: 1 }, { outputs: 2 });
    return g.node('Concat', [g.node('Relu', [b]), a], { axis: 1 });
  }),
  head: seed(kImage, (g, x, { i64 }) =>
    g.node('Transpose', [g.node('Reshape', [x, i64(1, 2, 2, -1, 6)])], { perm: [0, 1, 3, 4, 2] }),
  ),
  shape_chain: seed(['N', 3, 4, 4], (g, x, { i64 }) => {
    const height = g.node('Gather', [g.node('Shape', [x]), i64(2)], { axis: 0 });
    const twice = g.node('Mul', [height, i64(2)]);
    const target = g.node('Concat', [i64(1, -1), g.node('Div', [twice, i64(2)])], { axis: 0 });
    return g.node('Reshape', [x, target]);
  }),
  pad: seed(kImage, (g, x, { i64 }) => g.node('Pad', [x, i64(0, 0, 1, 1, 0, 0, 1, 1), null], { mode: 'reflect' })),
  where: seed(kImage, (g, x, { f32 }) => g.node('Where', [g.node('Greater', [x, f32(1)]), x, f32(4, 1, 1)])),
  expand: seed([1, 3, 1], (g, x, { i64 }) => g.node('Expand', [x, i64(2, 3, 4)])),
  tile: seed([1, 3, 1], (g, x, { i64 }) => g.node('Tile', [x, i64(2, 1, 4)])),
  cast: seed(kImage, (g, x) => g.node('Cast', [g.node('Cast', [x], { to: 7 })], { to: 1 })),
  range: seed([3], (g, x, { constant }) =>
    g.node('Add', [
      x,
      g.node(
        'Cast',
        [
          g.node(
            'Range',
            [0, 3, 1].map((n) => constant('int64', [], [n])),
          ),
        ],
        { to: 1 },
      ),
    ]),
  ),
  constant: seed([3], (g, x) =>
    g.node('Add', [x, g.node('Constant', [], { value: make_tensor('', 'float32', [3], [1, 2, 3]) })]),
  ),
  constant_of_shape: seed([2, 2], (g, x, { i64 }) =>
    g.node('Add', [x, g.node('ConstantOfShape', [i64(2, 2)], { value: make_tensor('', 'float32', [1], [2]) })]),
  ),
  gather_nd: seed([3, 4], (g, x, { constant }) => g.node('GatherND', [x, constant('int64', [2, 1], [2, -1])])),
  scatter_nd: seed([4], (g, x, { constant, f32 }) =>
    g.node('ScatterND', [x, constant('int64', [2, 1], [1, 3]), f32(2)]),
  ),
  layer_norm: seed([2, 8], (g, x, { f32 }) => g.node('LayerNormalization', [x, f32(8), f32(8)], { axis: -1 }), {
    opset: 17,
  }),
  metadata: one('Relu', {}, { metadata: { task: 'detect', names: "{0: 'cat', 1: 'dog'}", imgsz: '[32, 32]' } }),
  unknown_operator: seed(kImage, (g, x) => g.node('Mystery', [x], { depth: 3 }, { domain: 'org.example' })),
  bad_cycle: (() => {
    const g = graph('cycle', { opset: 13, checked: false });
    g.node('Add', ['b', 'b'], {}, { outputs: ['a'] });
    g.node('Relu', ['a'], {}, { outputs: ['b'] });
    g.output('b', [1]);
    return write_onnx(g);
  })(),
};
