// .npy files and Tensors: round trips, what NumPy itself writes, and bad files.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { import_inner } from '../support/inner.mjs';

const { read_npy, write_npy, Tensor, array_type } = await import_inner(['core/npy.ts', 'core/tensor.ts']);

/** A file as numpy.lib.format describes it, with the header text given. */
function file_of(header, data, version = 1) {
  const text = Buffer.from(`${header}\n`, version === 3 ? 'utf8' : 'latin1');
  const head = Buffer.alloc(version === 1 ? 10 : 12);
  head.write('\x93NUMPY', 'latin1');
  head[6] = version;
  if (version === 1) head.writeUInt16LE(text.length, 8);
  else head.writeUInt32LE(text.length, 8);
  return Buffer.concat([head, text, Buffer.from(data.buffer, data.byteOffset, data.byteLength)]);
}

const header_of = (descr, shape, order = 'False') =>
  `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': ${shape}, }`;

const kDTypes = ['f32', 'f16', 'f64', 'i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'bool'];

test('every_dtype_and_rank_survives_a_round_trip', () => {
  for (const dtype of kDTypes) {
    for (const shape of [[], [1], [5], [2, 3], [1, 3, 2, 2], [0, 4]]) {
      const length = shape.reduce((n, dim) => n * dim, 1);
      const data = new (array_type(dtype))(length);
      const is_big = data instanceof BigInt64Array || data instanceof BigUint64Array;
      for (let i = 0; i < length; ++i) data[i] = is_big ? BigInt(i + 1) << 40n : i + 1;
      const file = write_npy(new Tensor(dtype, shape, data));
      assert.equal(
        file.indexOf(0x0a) + 1 - data.byteLength === file.length ? 0 : (file.length - data.byteLength) % 64,
        0,
      );
      const back = read_npy(file, 'x');
      assert.equal(back.dtype, dtype);
      assert.deepEqual(back.shape, shape);
      assert.deepEqual(back.data, data);
    }
  }
});

test('a_node_buffer_inside_a_pool_reads_right', () => {
  const file = Buffer.from(write_npy(new Tensor('f32', [3], Float32Array.of(1, 2, 3))));
  const pool = Buffer.concat([Buffer.alloc(7), file]); // also unaligned
  assert.deepEqual([...read_npy(pool.subarray(7), 'x').data], [1, 2, 3]);
});

test('the_data_read_is_a_copy', () => {
  const file = write_npy(new Tensor('u8', [3], Uint8Array.of(1, 2, 3)));
  const { data } = read_npy(file, 'x');
  file.fill(0);
  assert.deepEqual([...data], [1, 2, 3]);
});

test('what_numpy_writes_is_read', () => {
  const data = Float32Array.of(1, 2, 3, 4, 5, 6);
  const cases = [
    [file_of(header_of('<f4', '(2, 3)'), data), [2, 3]],
    [file_of(header_of('<f4', '(6,)'), data, 2), [6]],
    [file_of(header_of('<f4', '(2, 3)'), data, 3), [2, 3]],
    [file_of(header_of('=f4', '(2L, 3L)'), data), [2, 3]], // Python 2
    [file_of(header_of('<f4', '(2, 3)').padEnd(117), data), [2, 3]],
  ];
  for (const [file, shape] of cases) {
    const tensor = read_npy(file, 'x');
    assert.deepEqual(tensor.shape, shape);
    assert.deepEqual([...tensor.data], [...data]);
  }
});

const kFour = Float32Array.of(1, 2, 3, 4);
const kBad = [
  ['empty', new Uint8Array(), 'NOT_A_MODEL', /x\.npy: this is no \.npy file/],
  ['text', Buffer.from('hello, this is a text file'), 'NOT_A_MODEL', /no \.npy/],
  ['version 9', file_of(header_of('<f4', '(4,)'), kFour, 9), 'UNSUPPORTED', /format version 9; supported: 1 to 3/],
  ['short data', file_of(header_of('<f4', '(5,)'), kFour), 'TRUNCATED', /4 bytes are missing/],
  ['short header', file_of(header_of('<f4', '(4,)'), kFour).subarray(0, 30), 'TRUNCATED', /ends within its header/],
  ['huge shape', file_of(header_of('<f4', '(99999999999, 99999999999)'), kFour), 'TRUNCATED', /bytes are missing/],
  ['no shape', file_of("{'descr': '<f4', 'fortran_order': False}", kFour), 'NOT_A_MODEL', /header is damaged/],
  ['negative dims', file_of(header_of('<f4', '(-2, -2)'), kFour), 'NOT_A_MODEL', /shape \(-2, -2\)/],
  ['word for a dim', file_of(header_of('<f4', '(four,)'), kFour), 'NOT_A_MODEL', /shape \(four,\)/],
  ['Fortran order', file_of(header_of('<f4', '(2, 2)', 'True'), kFour), 'UNSUPPORTED', /np\.ascontiguousarray/],
  [
    'big-endian',
    file_of(header_of('>f4', '(4,)'), kFour),
    'UNSUPPORTED',
    /dtype '>f4' is not supported; supported: <f4/,
  ],
  ['complex', file_of(header_of('<c8', '(2,)'), kFour), 'UNSUPPORTED', /'<c8'/],
  [
    'records',
    file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }", kFour),
    'UNSUPPORTED',
    /record/,
  ],
];

test('bad_files_say_what_is_wrong', () => {
  for (const [name, file, code, message] of kBad) {
    assert.throws(() => read_npy(file, 'x.npy'), { name: 'KilnError', code, message }, name);
  }
});

test('bf16_has_no_npy', () => {
  assert.throws(() => write_npy(new Tensor('bf16', [1], new Uint16Array(1))), { code: 'UNSUPPORTED' });
});

test('tensors_check_their_parts', () => {
  const cases = [
    [['f32', [2, 2], new Float32Array(3)], 'SHAPE', /shape \[2, 2\] has 4 elements, the array has 3/],
    [['f32', [-1, -4], new Float32Array(4)], 'SHAPE', /dims must be whole and not negative/],
    [['f32', [1.5, 2], new Float32Array(3)], 'SHAPE', /dims must be whole/],
    [['f32', [4], new Int32Array(4)], 'INVALID_ARGUMENT', /f32 needs a Float32Array, got Int32Array/],
    [['f32', [2], [1, 2]], 'INVALID_ARGUMENT', /f32 needs a Float32Array, got Array/],
    [['i64', [4], new Int32Array(4)], 'INVALID_ARGUMENT', /i64 needs a BigInt64Array/],
    [['float', [4], new Float32Array(4)], 'INVALID_ARGUMENT', /dtype 'float' is unknown; allowed: f32, f16/],
  ];
  for (const [args, code, message] of cases) {
    assert.throws(() => new Tensor(...args), { name: 'KilnError', code, message }, args[0]);
  }
  assert.equal(new Tensor('u8', [2], new Uint8ClampedArray(2)).data.length, 2);
  const shape = [2];
  const tensor = new Tensor('f32', shape, new Float32Array(2));
  shape[0] = 3;
  assert.deepEqual(tensor.shape, [2]);
});
