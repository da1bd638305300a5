// Forms that came with opsets 18 to 23, which no vector of ONNX 1.12 has: small graphs against onnxruntime.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor, relative_error, run_onnxruntime } from '../support/api.mjs';

const kTolerance = 1e-5; // of the largest value

/** An initialiser of int64, the usual type of axes, sizes, pads. */
const i64 = (...values) => ({ dtype: 'int64', dims: [values.length], data: values.map(BigInt) });
const f32 = (...values) => ({ dtype: 'float32', dims: [values.length], data: values });
const none = '';

/** What follows the input x: initialisers or '' for absent ones. `outputs` is a count. */
const one = (op, opset, shape, rest = [], attributes = {}, outputs = 1) => ({
  op,
  opset,
  shape,
  rest,
  attributes,
  outputs,
});

const resize = (shape, rest, attributes, opset = 18) => one('Resize', opset, shape, [none, ...rest], attributes);
const by_sizes = (...sizes) => [none, i64(...sizes)];

const kCases = [
  // Split: num_outputs, uneven.
  one('Split', 18, [5, 3], [], { num_outputs: 2 }, 2),
  one('Split', 18, [2, 10, 3], [], { axis: -2, num_outputs: 4 }, 4),
  one('Split', 18, [2, 10, 3], [i64(1, 4, 5)], { axis: 1 }, 3),

  // Resize: axes, antialias, keep_aspect_ratio_policy, half_pixel_symmetric.
  resize([1, 2, 9, 8], by_sizes(5, 13), { mode: 'linear', axes: [2, 3] }),
  resize([1, 2, 9, 8], by_sizes(13, 5), { mode: 'nearest', axes: [3, 2] }),
  resize([1, 2, 9, 8], [f32(2, 2)], {
    mode: 'nearest',
    axes: [-2, -1],
    coordinate_transformation_mode: 'asymmetric',
    nearest_mode: 'floor',
  }),
  resize([1, 3, 24, 20], by_sizes(1, 3, 7, 9), { mode: 'linear', antialias: 1 }),
  resize([1, 3, 24, 20], by_sizes(1, 3, 7, 9), { mode: 'cubic', antialias: 1 }),
  resize([1, 3, 24, 20], by_sizes(1, 3, 7, 9), {
    mode: 'cubic',
    antialias: 1,
    cubic_coeff_a: -0.5,
    exclude_outside: 1,
  }),
  resize([1, 3, 24, 20], by_sizes(1, 3, 7, 33), { mode: 'linear', antialias: 1 }),
  resize([1, 3, 24, 20], [f32(1, 1, 0.5, 0.25)], { mode: 'linear', antialias: 1 }),
  resize([1, 2, 8, 6], by_sizes(7, 12), { mode: 'nearest', axes: [2, 3], keep_aspect_ratio_policy: 'not_larger' }),
  resize([1, 2, 8, 6], by_sizes(7, 12), { mode: 'linear', axes: [2, 3], keep_aspect_ratio_policy: 'not_smaller' }),
  resize(
    [1, 2, 7, 9],
    by_sizes(1, 2, 13, 4),
    { mode: 'linear', coordinate_transformation_mode: 'half_pixel_symmetric' },
    19,
  ),
  resize(
    [1, 2, 7, 9],
    [f32(1, 1, 0.6, 1.7)],
    { mode: 'linear', coordinate_transformation_mode: 'half_pixel_symmetric' },
    19,
  ),
  resize([1, 16, 7, 9], by_sizes(1, 16, 14, 18), { mode: 'linear' }, 19),
  resize([1, 16, 7, 9], by_sizes(1, 16, 14, 18), { mode: 'nearest', coordinate_transformation_mode: 'asymmetric' }, 19),

  // Pad: axes, wrap.
  one('Pad', 18, [2, 3, 4], [i64(1, 2), none, i64(1)]),
  one('Pad', 18, [2, 3, 4], [i64(1, 0, 2, 3), { dtype: 'float32', dims: [], data: [2.5] }, i64(-1, 0)]),
  one('Pad', 18, [1, 3, 5, 6], [i64(2, 1, 1, 2), none, i64(2, 3)], { mode: 'reflect' }),
  one('Pad', 19, [1, 3, 5, 6], [i64(0, 0, 2, 3, 0, 0, 4, 1)], { mode: 'wrap' }),
  one('Pad', 21, [1, 3, 5, 6], [i64(0, 0, -1, 3, 0, 0, 4, -2)], { mode: 'constant' }),
  one('Pad', 21, [1, 3, 5, 6], [i64(1, 1), none, i64(-1)], { mode: 'edge' }),

  // Reductions: axes as input.
  ...[
    'ReduceMean',
    'ReduceSum',
    'ReduceMax',
    'ReduceMin',
    'ReduceProd',
    'ReduceL1',
    'ReduceL2',
    'ReduceLogSumExp',
    'ReduceSumSquare',
  ].flatMap((op) => [
    one(op, 18, [2, 3, 4, 5], [i64(2, 3)]),
    one(op, 18, [2, 3, 4, 5], [i64(-3)], { keepdims: 0 }),
    one(op, 20, [2, 3, 4]),
  ]),
  one('ReduceMean', 18, [2, 3], [], { noop_with_empty_axes: 1 }),
  one('ReduceLogSum', 18, [2, 3, 4], [i64(1)], {}),

  // Pools: dilations of averages, ceil_mode.
  one('AveragePool', 19, [1, 3, 9, 11], [], {
    kernel_shape: [3, 2],
    dilations: [2, 3],
    strides: [1, 2],
    pads: [1, 1, 1, 1],
  }),
  one('AveragePool', 19, [1, 3, 9, 11], [], {
    kernel_shape: [3, 3],
    dilations: [2, 2],
    pads: [1, 1, 1, 1],
    count_include_pad: 1,
  }),
  one('AveragePool', 22, [1, 3, 8, 8], [], { kernel_shape: [3, 3], strides: [2, 2], ceil_mode: 1 }),
  one('MaxPool', 22, [1, 3, 8, 9], [], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1], ceil_mode: 1 }),
  one('LpPool', 18, [1, 3, 8, 9], [], { kernel_shape: [2, 3], dilations: [2, 1], ceil_mode: 1, p: 3 }),
  one('GlobalAveragePool', 22, [2, 5, 6, 7]),
  one('GlobalMaxPool', 22, [2, 5, 6, 7]),

  // Scatter: max and min.
  one(
    'ScatterElements',
    18,
    [3, 4],
    [
      { dtype: 'int64', dims: [1, 4], data: [2n, 0n, -1n, 1n] },
      { dtype: 'float32', dims: [1, 4], data: [0.5, -0.5, 9, -9] },
    ],
    { reduction: 'max' },
  ),
  one(
    'ScatterElements',
    18,
    [3, 4],
    [
      { dtype: 'int64', dims: [3, 1], data: [2n, 0n, 1n] },
      { dtype: 'float32', dims: [3, 1], data: [0.5, -0.5, 9] },
    ],
    { axis: 1, reduction: 'min' },
  ),
  one(
    'ScatterND',
    18,
    [3, 4],
    [
      { dtype: 'int64', dims: [2, 1], data: [2n, 0n] },
      { dtype: 'float32', dims: [2, 4], data: [0.5, -0.5, 9, -9, 0, 0, 0, 0] },
    ],
    { reduction: 'max' },
  ),

  // Operators with new versions of old forms.
  one('Reshape', 21, [2, 3, 4], [i64(0, -1)]),
  one('Squeeze', 21, [1, 3, 1, 4], [i64(0, -2)]),
  one('Unsqueeze', 23, [3, 4], [i64(0, -1)]),
  one('Flatten', 21, [2, 3, 4, 5], [], { axis: -2 }),
  one('Transpose', 23, [2, 3, 4, 5], [], { perm: [0, 2, 3, 1] }),
  one('Identity', 21, [2, 3]),
  one('Cast', 19, [2, 3], [], { to: 6 }),
  one('Slice', 23, [4, 9], [i64(-1), i64(-9223372036854775807n), i64(1), i64(-2)]),
  one(
    'Concat',
    23,
    [2, 3],
    [f32(1, 2, 3)].map((t) => ({ ...t, dims: [1, 3] })),
    { axis: 0 },
  ),
  one('TopK', 21, [3, 9], [i64(4)], { axis: 1 }, 2),
  one('Softmax', 23, [2, 3, 4], [], { axis: 1 }),
  one('Clip', 22, [4, 5], [none, { dtype: 'float32', dims: [], data: [0.25] }]),
  one('HardSigmoid', 22, [4, 5], [], { alpha: 0.3, beta: 0.4 }),
  one('HardSwish', 22, [4, 5]),
  one('Elu', 22, [4, 5], [], { alpha: 0.7 }),
  one('Softplus', 22, [4, 5]),
  one('InstanceNormalization', 22, [2, 3, 4, 5], [f32(1, 2, 3), f32(0.1, 0.2, 0.3)]),
  one(
    'Conv',
    22,
    [1, 3, 7, 8],
    [{ dtype: 'float32', dims: [2, 3, 1, 1], data: [1, 2, 3, -1, -2, -3] }, f32(0.5, -0.5)],
  ),
];

const describe = ({ op, opset, shape, rest, attributes }, i) =>
  `${i} ${op} of opset ${opset} on [${shape}] ${JSON.stringify(attributes)} with ${rest.length} more inputs`;

for (const [i, entry] of kCases.entries()) {
  test(describe(entry, i), async (t) => {
    const { op, opset, shape, rest, attributes, outputs } = entry;
    const g = graph('newer', { opset });
    const inputs = rest.map((tensor, k) =>
      tensor === none ? none : g.initializer(`c${k}`, tensor.dtype, tensor.dims, tensor.data),
    );
    const made = g.node(op, [g.input('x', shape), ...inputs], attributes, { outputs });
    const kTypes = { Cast: ['int32'], TopK: ['float32', 'int64'] };
    [made].flat().forEach((name, k) => g.output(name, undefined, kTypes[op]?.[k]));
    const onnx = write_onnx(g);
    const feeds = { x: random_tensor(shape, i + 1) };
    const expected = await run_onnxruntime(onnx, feeds);
    const model = await api.load(await api.compile(onnx));
    t.after(() => model.dispose());
    const actual = await model.run(feeds);
    for (const [name, { dims, data }] of Object.entries(expected)) {
      assert.deepEqual(actual[name].shape, dims, name);
      const error = relative_error(actual[name].data, data);
      assert.ok(error <= kTolerance, `${name}: relative error ${error}\nexpected ${data}\ngot ${actual[name].data}`);
    }
  });
}

test('older_form_of_a_newer_opset_is_refused', async () => {
  const g = graph('stale', { opset: 18 });
  g.output(g.node('Split', [g.input('x', [5, 2])], { num_outputs: 4, axis: 0 }, { outputs: 4 })[0]);
  await assert.rejects(
    api.compile(write_onnx(g)),
    (error) => error.code === 'INVALID_MODEL' && /Split/.test(error.message),
  );
});
