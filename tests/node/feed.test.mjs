// write_feed: values arrive as they are, or the call says why not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { import_inner } from '../support/inner.mjs';

const { write_feed, Tensor, array_type } = await import_inner(['core/feed.ts', 'core/tensor.ts']);

function written(dtype, feed, length = 3) {
  const target = new (array_type(dtype))(length).fill(array_type(dtype) === BigInt64Array ? 9n : 9);
  write_feed({ name: 'x', dtype }, feed, target);
  return [...target];
}

const kTaken = [
  ['f32', Float32Array.of(0.5, -1, NaN), [0.5, -1, NaN]],
  ['f32', Float64Array.of(0.1, 1, 2), [Math.fround(0.1), 1, 2]],
  ['f32', [0.5, 1, -Infinity], [0.5, 1, -Infinity]],
  ['f32', new Tensor('f32', [3], Float32Array.of(1, 2, 3)), [1, 2, 3]],
  ['i64', BigInt64Array.of(-1n, 2n ** 62n, 3n), [-1n, 2n ** 62n, 3n]],
  ['i64', [-1, 2 ** 53, 3n], [-1n, 2n ** 53n, 3n]],
  ['i64', Int32Array.of(-1, 2, 3), [-1n, 2n, 3n]],
  ['u8', Uint8Array.of(0, 255, 7), [0, 255, 7]],
  ['u8', Uint8ClampedArray.of(0, 255, 7), [0, 255, 7]],
  ['u8', [0, 255, 7], [0, 255, 7]],
  ['i32', [-(2 ** 31), 0, 5], [-(2 ** 31), 0, 5]],
  ['bool', [true, false, true], [1, 0, 1]],
  ['f16', Uint16Array.of(0x3c00, 0, 1), [0x3c00, 0, 1]],
];

test('values_arrive_as_they_are', () => {
  for (const [dtype, feed, expected] of kTaken) assert.deepEqual(written(dtype, feed), expected, dtype);
});

test('a_shorter_feed_is_padded_with_zeros', () => {
  assert.deepEqual(written('f32', Float32Array.of(1), 3), [1, 0, 0]);
  assert.deepEqual(written('i64', BigInt64Array.of(1n), 3), [1n, 0n, 0n]);
  assert.deepEqual(written('i64', [1], 2), [1n, 0n]);
  assert.deepEqual(written('u8', [1], 2), [1, 0]);
});

const kRefused = [
  ['f32', Uint8Array.of(1, 2, 3), /input 'x': a Uint8Array given, the dtype is f32: convert it yourself/],
  ['f32', BigInt64Array.of(1n, 2n, 3n), /a BigInt64Array given, the dtype is f32/],
  ['f32', [1n, 2n, 3n], /a bigint given, the dtype is f32/],
  ['f32', [1, '2', 3], /a string given/],
  ['f32', [1, undefined, 3], /a undefined given/],
  ['f32', new Array(3), /a undefined given/], // holes
  ['i64', new Array(3), /a undefined given/],
  ['i64', [0.5, 1, 2], /0\.5, which is no integer, given, the dtype is i64/],
  ['i64', [NaN, 1, 2], /NaN, which is no integer/],
  ['i64', [2n ** 63n, 1, 2], /9223372036854775808 given/],
  ['i64', Float32Array.of(1, 2, 3), /a Float32Array given, the dtype is i64/],
  ['u8', [256, 0, 0], /256 given, the dtype is u8/],
  ['u8', [-1, 0, 0], /-1 given/],
  ['u8', Int8Array.of(1, 2, 3), /a Int8Array given, the dtype is u8/],
  ['i32', Float32Array.of(1, 2, 3), /a Float32Array given, the dtype is i32/],
  ['i32', [1.5, 0, 0], /1\.5 given, the dtype is i32/],
  ['i32', [2 ** 31, 0, 0], /2147483648 given/],
  ['f16', [1, 2, 3], /give its bits in a Uint16Array/],
  ['f16', Float32Array.of(1, 2, 3), /a Float32Array given, the dtype is f16/],
];

test('values_that_would_change_are_refused', () => {
  for (const [dtype, feed, message] of kRefused) {
    assert.throws(() => written(dtype, feed), { name: 'KilnError', code: 'SHAPE', message }, `${dtype} ${message}`);
  }
});
