// The ONNX builder: what it writes is read back and run by onnxruntime.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as ort from 'onnxruntime-node';
import { decode_model } from '../../models/onnx_proto.mjs';
import { bfloat16_bits, float16_bits } from '../../models/onnx_tensor.mjs';
import {
  attribute,
  float,
  graph,
  ints,
  make_tensor,
  write_onnx,
  write_onnx_external,
} from '../../models/onnx_writer.mjs';

const run = async (bytes, feeds) => (await ort.InferenceSession.create(bytes, { logSeverityLevel: 3 })).run(feeds);
const floats_of = (...values) => new ort.Tensor('float32', Float32Array.from(values), [values.length]);

function make_conv_graph() {
  const g = graph('conv', { opset: 13, metadata: { task: 'none' } });
  const x = g.input('x', ['N', 2, 3, 3]);
  const w = g.initializer('w', 'float32', [1, 2, 2, 2], [1, 0, 0, 0, 0, 0, 0, 1]);
  g.output(g.node('Conv', [x, w], { strides: [2, 2], pads: [0, 0, 1, 1] }), ['N', 1, 2, 2]);
  return g;
}

test('conv_runs_and_bytes_are_deterministic', async () => {
  const bytes = write_onnx(make_conv_graph());
  assert.deepEqual(write_onnx(make_conv_graph()), bytes);
  const x = new ort.Tensor(
    'float32',
    Float32Array.from({ length: 18 }, (_, i) => i),
    [1, 2, 3, 3],
  );
  const { Conv_0_output_0: y } = await run(bytes, { x });
  assert.deepEqual([...y.data], [0 + 13, 2, 6, 8]);
});

test('model_fields_read_back', () => {
  const model = decode_model(write_onnx(make_conv_graph()));
  assert.equal(model.ir_version, '7');
  assert.deepEqual(model.metadata_props, [{ key: 'task', value: 'none' }]);
  assert.deepEqual(model.opset_import, [{ domain: '', version: '13' }]);
  assert.deepEqual(
    model.graph.input[0].type.tensor_type.shape.dim.map((d) => d.dim_param ?? d.dim_value),
    ['N', '2', '3', '3'],
  );
});

test('every_attribute_kind_reads_back', () => {
  const inner = graph('inner', { checked: false });
  inner.output('x');
  const g = graph('attributes');
  g.node(
    'Custom',
    [],
    {
      f: 0.5,
      alpha: 1,
      one: float(1),
      i: 3,
      big: 2n ** 63n - 1n,
      s: 'text',
      t: make_tensor('', 'float32', [2], [1, 2]),
      g: inner,
      fs: [1, 2.5],
      is: [1, -2],
      empty: ints([]),
      ss: ['a', 'b'],
      ts: [make_tensor('', 'int64', [1], [7])],
      gs: [inner],
      sparse: attribute('SPARSE_TENSOR', { values: make_tensor('v', 'float32', [1], [1]), dims: [4] }),
      left_out: undefined,
    },
    { domain: 'my.ops', outputs: 2 },
  );
  const model = decode_model(write_onnx(g));
  const [node] = model.graph.node;
  const kinds = Object.fromEntries(node.attribute.map((a) => [a.name, a.type]));
  const expected = {
    f: 1,
    alpha: 1,
    one: 1,
    i: 2,
    big: 2,
    s: 3,
    t: 4,
    g: 5,
    fs: 6,
    is: 7,
    empty: 7,
    ss: 8,
    ts: 9,
    gs: 10,
  };
  assert.deepEqual(kinds, { ...expected, sparse: 11 });
  const of = (name) => node.attribute.find((a) => a.name === name);
  assert.equal(of('big').i, '9223372036854775807');
  assert.deepEqual(of('is').ints, ['1', '-2']);
  assert.equal(Buffer.from(of('ss').strings[1]).toString(), 'b');
  assert.equal(of('g').g.name, 'inner');
  assert.deepEqual(node.output, ['Custom_0_output_0', 'Custom_0_output_1']);
  assert.deepEqual(model.opset_import[1], { domain: 'my.ops', version: '1' });
});

const kDtypeCases = [
  { dtype: 'float32', data: [1.5, -2], bytes: [0, 0, 192, 63, 0, 0, 0, 192] },
  { dtype: 'float64', data: [1], bytes: [0, 0, 0, 0, 0, 0, 240, 63] },
  { dtype: 'float16', data: [1, -2], bytes: [0, 60, 0, 192] },
  { dtype: 'float16', data: Uint16Array.of(0x3c00), bytes: [0, 60] },
  { dtype: 'bfloat16', data: [1], bytes: [128, 63] },
  { dtype: 'int64', data: [-1n], bytes: [255, 255, 255, 255, 255, 255, 255, 255] },
  { dtype: 'int64', data: [2], bytes: [2, 0, 0, 0, 0, 0, 0, 0] },
  { dtype: 'int32', data: [-2], bytes: [254, 255, 255, 255] },
  { dtype: 'int16', data: [-2], bytes: [254, 255] },
  { dtype: 'uint16', data: [258], bytes: [2, 1] },
  { dtype: 'int8', data: [-1], bytes: [255] },
  { dtype: 'uint8', data: [200], bytes: [200] },
  { dtype: 'bool', data: [true, false], bytes: [1, 0] },
];

test('tensor_bytes_of_each_dtype', () => {
  for (const { dtype, data, bytes } of kDtypeCases) {
    assert.deepEqual([...make_tensor('t', dtype, [data.length], data).raw_data], bytes, dtype);
  }
});

test('typed_storage_equals_raw_storage', async () => {
  for (const dtype of ['float32', 'float64', 'int64', 'int32', 'uint8', 'int8', 'bool', 'uint64']) {
    const results = [];
    for (const storage of ['raw', 'typed']) {
      const g = graph('storage');
      g.output(g.node('Identity', [g.initializer('t', dtype, [3], [1, 0, 1], { storage })]), [3], dtype);
      const { Identity_0_output_0: y } = await run(write_onnx(g), {});
      results.push([...y.data].map(Number));
    }
    assert.deepEqual(results, [
      [1, 0, 1],
      [1, 0, 1],
    ]);
  }
});

test('half_floats_round_to_even', () => {
  const cases = [
    [0, 0],
    [-0, 0x8000],
    [1, 0x3c00],
    [1 + 2 ** -11, 0x3c00],
    [1 + 3 * 2 ** -11, 0x3c02],
    [65504, 0x7bff],
    [65519, 0x7bff],
    [65520, 0x7c00],
    [2 ** -24, 1],
    [2 ** -25, 0],
    [1.5 * 2 ** -24, 2],
    [2 ** -14 - 2 ** -26, 0x0400],
    [-Infinity, 0xfc00],
    [NaN, 0x7e00],
  ];
  for (const [value, bits] of cases) assert.equal(float16_bits(value), bits, String(value));
  assert.equal(bfloat16_bits(1 + 2 ** -8), 0x3f80);
  assert.equal(bfloat16_bits(1 + 3 * 2 ** -8), 0x3f82);
});

test('optional_inputs_several_outputs_and_subgraphs_run', async () => {
  const g = graph('mixed', { opset: 13 });
  const x = g.input('x', [4]);
  const clipped = g.node('Clip', [x, null, g.initializer('high', 'float32', [], [2])]);
  const [low, high] = g.node(
    'Split',
    [clipped, g.initializer('sizes', 'int64', [2], [1, 3])],
    { axis: 0 },
    { outputs: 2 },
  );
  const branch = (name, value) => {
    const b = graph(name, { checked: false });
    b.output(b.node('Identity', [value], {}, { outputs: [`${name}_y`] }));
    return b;
  };
  const condition = g.initializer('condition', 'bool', [], [false]);
  g.output(
    g.node(
      'If',
      [condition],
      { then_branch: branch('then', low), else_branch: branch('else', high) },
      { outputs: ['y'] },
    ),
  );
  const { y } = await run(write_onnx(g), { x: floats_of(1, 2, 3, 4) });
  assert.deepEqual([...y.data], [2, 2, 2]);
});

test('external_data_runs_from_file', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'onnx_writer_'));
  t.after(() => rmSync(dir, { recursive: true }));
  const g = graph('external');
  const big = g.initializer(
    'big',
    'float32',
    [1000],
    Float32Array.from({ length: 1000 }, (_, i) => i),
  );
  const other = g.initializer('other', 'float32', [1000], new Float32Array(1000).fill(0.5));
  g.output(g.node('Add', [g.node('Add', [big, other]), g.input('x', [1])], {}, { outputs: ['y'] }), [1000]);
  const { model, data } = write_onnx_external(g, { location: 'weights.bin' });
  assert.ok(model.length < 500);
  assert.equal(data.length, 4096 + 4000);
  writeFileSync(join(dir, 'model.onnx'), model);
  writeFileSync(join(dir, 'weights.bin'), data);
  const session = await ort.InferenceSession.create(join(dir, 'model.onnx'));
  const { y } = await session.run({ x: floats_of(1) });
  assert.equal(y.data[999], 1000.5);
});

test('bad_graphs_are_refused', () => {
  const g = graph('bad');
  g.input('x', [1]);
  assert.throws(() => g.input('x', [1]), /input 'x': the graph already has that value/);
  assert.throws(() => g.output('y', [1]), /output 'y': no such value in graph 'bad'/);
  assert.throws(
    () => g.initializer('w', 'float32', [2, 2], [1]),
    /tensor 'w': 1 values for dims \[2,2\], which need 4/,
  );
  assert.throws(() => g.initializer('w', 'float31', [1], [1]), /unknown dtype 'float31'/);
  assert.throws(() => g.node('Op', ['x'], { a: null }), /attribute 'a': no ONNX type for null/);
});
