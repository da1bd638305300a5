// profile_for: which profile serves an input, what is padded, and what is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { import_inner } from '../support/inner.mjs';

const { profile_for, batch_of } = await import_inner(['core/profiles.ts']);

const image = (n, h, w = h) => [n, 3, h, w];
const io = (...names) => names.map((name) => ({ name, batched: true }));
const fixed = (name) => ({ name, batched: false });
const one = (input, output) => ({ inputs: [input], outputs: [output] });

const kBatches = [1, 4, 8].map((n) => one(image(n, 32), [n, 10]));
const kSizes = [64, 32].map((side) => one(image(1, side), [1, 10]));

const kChoices = [
  ['exact', kBatches, [image(4, 32)], { profile: 1, batch: 4, full_batch: 4 }],
  ['one fits the first', kBatches, [image(1, 32)], { profile: 0, batch: 1, full_batch: 1 }],
  ['padded to the next', kBatches, [image(3, 32)], { profile: 1, batch: 3, full_batch: 4 }],
  ['padded to the largest', kBatches, [image(5, 32)], { profile: 2, batch: 5, full_batch: 8 }],
  ['by elements', kBatches, [6 * 3 * 32 * 32], { profile: 2, batch: 6, full_batch: 8 }],
  ['size, not order', kSizes, [image(1, 32)], { profile: 1, batch: 1, full_batch: 1 }],
  ['size by elements', kSizes, [3 * 64 * 64], { profile: 0, batch: 1, full_batch: 1 }],
  ['scalar', [one([], [])], [[]], { profile: 0, batch: 1, full_batch: 1 }],
];

test('the_smallest_profile_that_fits_is_taken', () => {
  for (const [name, profiles, given, expected] of kChoices) {
    const { profile, batch, full_batch } = profile_for(io('x'), profiles, given);
    assert.deepEqual({ profile, batch, full_batch }, expected, name);
  }
});

const kRefusals = [
  ['too large a batch', kBatches, [image(9, 32)], /input 'x': shape \[9, 3, 32, 32\] given, \[1, 3, 32, 32\] or \[4/],
  ['no batch at all', kBatches, [image(0, 32)], /shape \[0, 3, 32, 32\] given/],
  ['rank', kBatches, [[3, 32, 32]], /shape \[3, 32, 32\] given/],
  ['size', kSizes, [image(1, 48)], /\[1, 3, 64, 64\] or \[1, 3, 32, 32\] needed/],
  ['part of a row', kBatches, [100], /100 elements given/],
  ['nothing', kBatches, [0], /0 elements given/],
  ['NHWC', kSizes, [[1, 32, 32, 3]], /looks like NHWC: transpose it, or compile with --input-layout NHWC/],
  ['NCHW', [one([1, 32, 32, 3], [1])], [image(1, 32)], /looks like NCHW, but the model was compiled for NHWC/],
  ['same length', [one(image(1, 32, 64), [1]), one(image(1, 64, 32), [1])], [6144], /fits .* and .*; pass a Tensor/],
];

test('what_fits_no_profile_is_refused_with_what_would', () => {
  for (const [name, profiles, given, message] of kRefusals) {
    assert.throws(() => profile_for(io('x'), profiles, given), { code: 'SHAPE', message }, name);
  }
});

test('an_axis_0_that_is_no_batch_is_never_padded', () => {
  const grey = [one([3, 32, 32], [3, 10])];
  const message = /\[3, 32, 32\] needed; a smaller dim 0 is padded only where it is free in the ONNX model/;
  assert.equal(profile_for([fixed('x')], grey, [[3, 32, 32]]).batch, 3);
  assert.throws(() => profile_for([fixed('x')], grey, [[1, 32, 32]]), { code: 'SHAPE', message });
  assert.throws(() => profile_for([fixed('x')], grey, [1024]), { code: 'SHAPE', message });
  assert.throws(() => profile_for([fixed('x')], grey, [[4, 32, 32]]), { code: 'SHAPE', message: /needed$/ });
});

test('several_inputs_share_the_batch', () => {
  const both = [{ inputs: [image(4, 8), [4, 2]], outputs: [[4, 5]] }];
  assert.equal(profile_for(io('a', 'b'), both, [image(2, 8), [2, 2]]).batch, 2);
  assert.throws(() => profile_for(io('a', 'b'), both, [image(2, 8), [4, 2]]), { code: 'SHAPE' });
  assert.throws(() => profile_for(io('a', 'b'), both, [image(2, 8), [3, 2]]), { code: 'SHAPE' });

  const unlike = [{ inputs: [image(4, 8), [8, 2]], outputs: [[4, 5]] }]; // b is not batched
  const names = [...io('a'), fixed('b')];
  assert.equal(profile_for(names, unlike, [image(2, 8), [8, 2]]).batch, 2);
  assert.throws(() => profile_for(names, unlike, [image(2, 8), [3, 2]]), { code: 'SHAPE', message: /input 'b'/ });
  assert.throws(() => profile_for(io('a', 'b'), both, [image(2, 8), [3, 2]]), {
    code: 'SHAPE',
    message:
      /inputs 'a' shape \[2, 3, 8, 8\], 'b' shape \[3, 2\] do not go together; needed: \[4, 3, 8, 8\] with \[4, 2\]/,
  });
});

test('outputs_are_trimmed_to_the_batch', () => {
  assert.deepEqual(batch_of([8, 10], 3, 8), [3, 10]);
  assert.deepEqual(batch_of([8, 10], 8, 8), [8, 10]);
  assert.deepEqual(batch_of([5], 3, 8), [5]);
});
