// Calibration samples: every kind of list, gone through twice, and what is wrong with others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quant } from '../support/quant_inner.mjs';

const { SampleSet, Tensor, spread, picture_of } = quant;
const tensor = (...values) => new Tensor('f32', [1, values.length], Float32Array.from(values));
const kThree = [tensor(1), tensor(2), tensor(3)];

async function all_of(set) {
  const found = [];
  for await (const { data } of set.pass()) found.push(data[0]);
  return found;
}

test('every_kind_of_list_can_be_gone_through_twice', async () => {
  async function* async_list() {
    yield* kThree;
  }
  const lists = [
    kThree,
    new Set(kThree),
    kThree.values(),
    async_list(),
    () => kThree,
    async () => kThree,
    () => async_list(),
    new Tensor('f32', [3, 1], Float32Array.of(1, 2, 3)),
    new ReadableStream({
      start(controller) {
        kThree.forEach((one) => controller.enqueue(one));
        controller.close();
      },
    }),
  ];
  for (const list of lists) {
    const set = new SampleSet('calibration', list, 10);
    assert.deepEqual(await all_of(set), [1, 2, 3]);
    assert.deepEqual(await all_of(set), [1, 2, 3]);
  }
});

test('a_buffer_that_a_generator_uses_again_is_copied', async () => {
  function* reusing() {
    const one = tensor(0);
    for (const value of [1, 2, 3]) {
      one.data[0] = value;
      yield one;
    }
  }
  const set = new SampleSet('calibration', reusing(), 2);
  assert.deepEqual(await all_of(set), [1, 2]);
  assert.deepEqual(await all_of(set), [1, 2]);
});

test('count_spreads_over_arrays_and_tensors_and_cuts_others', async () => {
  assert.deepEqual(spread(10, 4), [0, 2, 5, 7]);
  assert.deepEqual(spread(3, 10), [0, 1, 2]);
  const many = Array.from({ length: 10 }, (_, i) => tensor(i));
  assert.deepEqual(await all_of(new SampleSet('calibration', many, 4)), [0, 2, 5, 7]);
  assert.deepEqual(await all_of(new SampleSet('calibration', () => many, 4)), [0, 1, 2, 3]);
  const rows = new Tensor('f32', [10, 1], Float32Array.from(many.keys()));
  assert.deepEqual(await all_of(new SampleSet('calibration', rows, 4)), [0, 2, 5, 7]);
  assert.equal(new SampleSet('calibration', many, 4).length, 4);
  assert.equal(new SampleSet('calibration', () => many, 4).length, undefined);
});

test('pictures_are_told_from_tensors', () => {
  const pixels = new Uint8Array(2 * 4 * 3);
  const picture = { data: pixels, width: 4, height: 2, channels: 3 };
  assert.deepEqual(picture_of(picture), picture);
  assert.deepEqual(picture_of(new Tensor('u8', [1, 2, 4, 3], pixels)), picture);
  assert.equal(picture_of(new Tensor('u8', [1, 3, 2, 6], new Uint8Array(36))), undefined);
  assert.equal(picture_of(new Tensor('f32', [1, 2, 4, 3], new Float32Array(24))), undefined);
  assert.equal(picture_of({ images: tensor(1) }), undefined);
});

test('what_is_no_list_of_samples_is_named', async () => {
  const refused = async (list, message, code = 'INVALID_ARGUMENT') =>
    assert.rejects(async () => all_of(new SampleSet('calibration', list, 10)), { name: 'KilnError', code, message });
  await refused('photos/', /^calibration="photos\/" is no list of samples; allowed: an array of images or tensors/);
  await refused(5, /^calibration=5 is no list/);
  await refused(null, /^calibration=null is no list/);
  await refused(new Float32Array(3), /is no list of samples/);
  await refused([], /^calibration is empty/);
  await refused([1], /^calibration: sample 1 is number; allowed: an image, a Tensor, or an object with feeds/);
  await refused([tensor(1), new Float32Array(2)], /sample 2 is Float32Array of 2 elements/);
  await refused([tensor(1), null], /sample 2 is null/);
  await refused(() => 5, /^calibration is a function that gave 5; allowed: a new iterable/);
  await refused(new Tensor('f32', [3], new Float32Array(3)), /shape \[3\]; needed: a batch axis/, 'SHAPE');
  function* endless() {
    for (;;) yield tensor(1, 2);
  }
  const set = new SampleSet('calibration', endless(), 1000, 30);
  await assert.rejects(all_of(set), {
    code: 'OUT_OF_MEMORY',
    message: /only once.*4 samples take more than 30 bytes\): pass an array, or a function/,
  });
});
