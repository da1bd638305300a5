// model.run(): results against onnxruntime, what may be fed, what is refused, outputs given, memory, order, aborts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { api, random_tensor, relative_error, run_onnxruntime } from '../support/api.mjs';
import { add_net, conv_net, deep_net, gather_net } from '../support/graphs.mjs';

const kTolerance = 1e-5;
const onnx = conv_net();
let model;

before(async () => {
  model = await api.load(await api.compile(onnx));
});
after(() => model.dispose());

const load_net = async (t, bytes, options) => {
  const made = await api.load(await api.compile(bytes, options));
  t.after(() => made.dispose());
  return made;
};

test('outputs_agree_with_onnxruntime_run_after_run', async () => {
  for (const seed of [1, 2, 3]) {
    const images = random_tensor([1, 3, 8, 8], seed);
    const outputs = await model.run({ images });
    const expected = await run_onnxruntime(onnx, { images });
    assert.deepEqual(Object.keys(outputs), ['features', 'logits']);
    for (const [name, { dims, data }] of Object.entries(expected)) {
      assert.deepEqual(outputs[name].shape, dims);
      assert.equal(outputs[name].dtype, 'f32');
      const error = relative_error(outputs[name].data, data);
      assert.ok(error <= kTolerance, `${name}, seed ${seed}: relative error ${error}`);
    }
  }
});

test('the_feed_is_neither_detached_nor_changed', async () => {
  const { data } = random_tensor([1, 3, 8, 8], 4);
  const copy = data.slice();
  const first = await model.run({ images: data });
  assert.equal(data.length, 192);
  assert.deepEqual(data, copy);
  const second = await model.run({ images: data });
  assert.deepEqual(second.logits.data, first.logits.data);
  assert.notEqual(second.logits.data.buffer, first.logits.data.buffer);
});

test('the_same_bits_over_many_runs_and_after_other_inputs', async () => {
  const images = random_tensor([1, 3, 8, 8], 5);
  const first = await model.run({ images });
  for (let i = 0; i < 50; ++i) {
    await model.run({ images: random_tensor([1, 3, 8, 8], 100 + i) });
    const again = await model.run({ images });
    assert.deepEqual(again.features.data, first.features.data);
  }
});

test('int64_feeds_as_bigints_or_numbers', async (t) => {
  const gather = await load_net(t, gather_net());
  const feeds = [
    BigInt64Array.of(4n, 0n, -1n),
    [4, 0, -1],
    [4n, 0n, -1n],
    Int32Array.of(4, 0, -1),
    new api.Tensor('i64', [3], BigInt64Array.of(4n, 0n, -1n)),
  ];
  for (const indices of feeds) {
    const { rows } = await gather.run({ indices });
    assert.deepEqual([...rows.data], [40, 41, 0, 1, 40, 41], indices.constructor.name);
  }
});

test('int64_outputs_are_bigints', async (t) => {
  const add = await load_net(t, add_net('int64'));
  const { sum } = await add.run({ a: [1, 2, 3, 4, 5, 2 ** 40], b: BigInt64Array.of(1n, 1n, 1n, 1n, 1n, -1n) });
  assert.equal(sum.dtype, 'i64');
  assert.deepEqual([...sum.data], [2n, 3n, 4n, 5n, 6n, 2n ** 40n - 1n]);
});

test('preallocated_outputs_are_filled_and_returned', async () => {
  const images = random_tensor([1, 3, 8, 8], 6);
  const expected = await model.run({ images });
  const logits = new Float32Array(5);
  const features = new api.Tensor('f32', [1, 6, 4, 4], new Float32Array(96));
  const outputs = await model.run({ images }, { outputs: { logits, features } });
  assert.equal(outputs.logits.data, logits);
  assert.equal(outputs.features, features);
  assert.deepEqual(logits, expected.logits.data);
  assert.deepEqual(features.data, expected.features.data);
  assert.ok(logits.some((value) => value !== 0));
  await model.run({ images: random_tensor([1, 3, 8, 8], 7) }, { outputs: { logits } });
  assert.notDeepEqual(logits, expected.logits.data);
  assert.deepEqual(features.data, expected.features.data); // not given this time: left alone
});

const kGood = () => random_tensor([1, 3, 8, 8], 8);
// feeds, options, code, message
const kRefused = [
  [{}, {}, 'INVALID_ARGUMENT', /input 'images' \(f32, \[1, 3, 8, 8\]\) is missing/],
  [{ image: kGood() }, {}, 'INVALID_ARGUMENT', /no input 'image'; its inputs: images/],
  [{ images: kGood(), more: kGood() }, {}, 'INVALID_ARGUMENT', /no input 'more'/],
  [{ images: new Float32Array(191) }, {}, 'SHAPE', /input 'images': 191 elements given, \[1, 3, 8, 8\] needed/],
  [{ images: new Float32Array(0) }, {}, 'SHAPE', /0 elements given/],
  [{ images: random_tensor([1, 8, 8, 3], 1) }, {}, 'SHAPE', /shape \[1, 8, 8, 3\] given.*looks like NHWC/],
  [{ images: random_tensor([3, 8, 8], 1) }, {}, 'SHAPE', /shape \[3, 8, 8\] given/],
  [{ images: new Uint8Array(192) }, {}, 'SHAPE', /a Uint8Array given, the dtype is f32: convert it yourself/],
  [{ images: new api.Tensor('i32', [1, 3, 8, 8], new Int32Array(192)) }, {}, 'SHAPE', /dtype i32 given, f32 needed/],
  [{ images: 'pixels' }, {}, 'INVALID_ARGUMENT', /a Tensor, typed array or array of numbers is needed, got string/],
  [{ images: null }, {}, 'INVALID_ARGUMENT', /got null/],
  [{ images: new DataView(new ArrayBuffer(768)) }, {}, 'INVALID_ARGUMENT', /typed array or array of numbers is needed/],
  [
    { images: kGood() },
    { outputs: { probs: new Float32Array(5) } },
    'INVALID_ARGUMENT',
    /no output 'probs'; its outputs: features, logits/,
  ],
  [
    { images: kGood() },
    { outputs: { logits: new Float32Array(4) } },
    'SHAPE',
    /output 'logits': Float32Array of 4 elements given, f32 \[1, 5\] needed/,
  ],
  [{ images: kGood() }, { outputs: { logits: new Int32Array(5) } }, 'SHAPE', /Int32Array of 5 elements given, f32/],
  [
    { images: kGood() },
    { outputs: { logits: new api.Tensor('f32', [5], new Float32Array(5)) } },
    'SHAPE',
    /f32 \[5\] given, f32 \[1, 5\] needed/,
  ],
];

test('wrong_feeds_and_outputs_are_refused_and_the_model_stays_usable', async () => {
  const images = random_tensor([1, 3, 8, 8], 8);
  const expected = await model.run({ images });
  for (const [feeds, options, code, message] of kRefused) {
    await assert.rejects(model.run(feeds, options), { name: 'KilnError', code, message });
    assert.deepEqual((await model.run({ images })).logits.data, expected.logits.data);
  }
});

test('names_of_object_prototype_are_no_feeds', async (t) => {
  const add = await load_net(t, add_net());
  await assert.rejects(
    add.run(Object.create({ a: [1, 2, 3, 4, 5, 6], b: [1, 2, 3, 4, 5, 6] })),
    /input 'a' .* is missing/,
  );
});

test('a_smaller_batch_is_padded_and_trimmed', async (t) => {
  const bytes = conv_net({ batch: 'N' });
  const batched = await load_net(t, bytes, { inputShape: 'images:-1,3,8,8', dynamicBatch: [1, 4, 8] });
  assert.deepEqual(
    batched.inputs[0].profiles.map(([n]) => n),
    [1, 4, 8],
  );
  for (const n of [1, 2, 4, 5, 8, 3]) {
    const images = random_tensor([n, 3, 8, 8], n);
    const expected = await run_onnxruntime(bytes, { images });
    for (const feed of [images, images.data]) {
      const { features, logits } = await batched.run({ images: feed });
      assert.deepEqual(
        [features.shape, logits.shape],
        [
          [n, 6, 4, 4],
          [n, 5],
        ],
      );
      assert.ok(relative_error(features.data, expected.features.data) <= kTolerance, `batch ${n}`);
      assert.ok(relative_error(logits.data, expected.logits.data) <= kTolerance, `batch ${n}`);
    }
  }
  await assert.rejects(batched.run({ images: random_tensor([9, 3, 8, 8], 1) }), { code: 'SHAPE' });
});

test('sizes_choose_their_profile', async (t) => {
  const bytes = conv_net({ height: 'h', width: 'w' });
  const sized = await load_net(t, bytes, {
    dynamicSize: [
      [8, 8],
      [16, 12],
      [12, 16],
    ],
    inputShape: 'images:1,3,-1,-1',
  });
  for (const [h, w] of [
    [16, 12],
    [8, 8],
    [12, 16],
    [8, 8],
  ]) {
    const images = random_tensor([1, 3, h, w], h + w);
    const expected = await run_onnxruntime(bytes, { images });
    const { features, logits } = await sized.run({ images });
    assert.deepEqual(features.shape, [1, 6, h / 2, w / 2]);
    assert.ok(relative_error(features.data, expected.features.data) <= kTolerance);
    assert.ok(relative_error(logits.data, expected.logits.data) <= kTolerance);
  }
  await assert.rejects(sized.run({ images: new Float32Array(3 * 16 * 12) }), { message: /pass a Tensor/ });
});

test('channels_last_at_the_edges', async (t) => {
  const images = random_tensor([1, 3, 8, 8], 11);
  const last = new Float32Array(192);
  for (let c = 0; c < 3; ++c) for (let i = 0; i < 64; ++i) last[3 * i + c] = images.data[64 * c + i];
  const expected = await model.run({ images });
  const nhwc = await load_net(t, onnx, { inputLayout: 'NHWC', outputLayout: 'NHWC' });
  assert.deepEqual([nhwc.inputs[0].shape, nhwc.inputs[0].layout], [[1, 8, 8, 3], 'NHWC']);
  const { features, logits } = await nhwc.run({ images: new api.Tensor('f32', [1, 8, 8, 3], last) });
  assert.deepEqual(features.shape, [1, 4, 4, 6]);
  const moved = Float32Array.from(features.data, (_, i) => features.data[(i % 16) * 6 + Math.floor(i / 16)]);
  assert.ok(relative_error(moved, expected.features.data) <= kTolerance);
  assert.ok(relative_error(logits.data, expected.logits.data) <= kTolerance);
  await assert.rejects(nhwc.run({ images }), { message: /looks like NCHW, but the model was compiled for NHWC/ });
});

test('bound_inputs_become_constants', async (t) => {
  const b = new api.Tensor('f32', [2, 3], Float32Array.of(10, 20, 30, 40, 50, 60));
  const bound = await load_net(t, add_net(), { bind: { b } });
  assert.deepEqual(
    bound.inputs.map(({ name }) => name),
    ['a'],
  );
  assert.deepEqual([...(await bound.run({ a: [1, 2, 3, 4, 5, 6] })).sum.data], [11, 22, 33, 44, 55, 66]);
});

test('disposed_models_say_so', async (t) => {
  const gone = await load_net(t, add_net());
  gone.dispose();
  gone.dispose(); // twice is fine
  assert.equal(gone.inputs.length, 2);
  const message = /the model has been disposed/;
  await assert.rejects(gone.run({ a: [1, 2, 3, 4, 5, 6], b: [1, 2, 3, 4, 5, 6] }), {
    code: 'INVALID_ARGUMENT',
    message,
  });
  await assert.rejects(gone.warmup(), { message });
  assert.throws(() => gone.memory(), { message });
  assert.throws(() => gone.steps(), { message });
  const named = await api.load(await api.compile(add_net()));
  named[Symbol.dispose]();
  assert.throws(() => named.memory(), { message });
});

test('dispose_during_a_run_ends_it', async (t) => {
  const deep = await load_net(t, deep_net());
  const x = random_tensor([1, 32, 64, 64], 1);
  const { signal } = new AbortController();
  const running = deep.run({ x }, { signal });
  setTimeout(() => deep.dispose(), 1);
  await assert.rejects(running, { code: 'INVALID_ARGUMENT', message: /disposed/ });
});

test('abort_between_steps_and_the_next_run_is_right', async (t) => {
  const deep = await load_net(t, deep_net());
  const x = random_tensor([1, 32, 64, 64], 2);
  const expected = (await deep.run({ x })).y.data;
  const controller = new AbortController();
  const running = deep.run({ x }, { signal: controller.signal });
  setTimeout(() => controller.abort('stop'), 1);
  await assert.rejects(running, (error) => error.code === 'ABORTED' && error.cause === 'stop');
  assert.deepEqual((await deep.run({ x })).y.data, expected);
  assert.deepEqual((await deep.run({ x }, { signal: new AbortController().signal })).y.data, expected); // stepwise too
  await assert.rejects(deep.run({ x }, { signal: AbortSignal.abort() }), { code: 'ABORTED' });
});

test('calls_at_once_keep_their_order_and_their_inputs', async (t) => {
  const other = await load_net(t, onnx);
  const feeds = Array.from({ length: 8 }, (_, i) => random_tensor([1, 3, 8, 8], 200 + i));
  const one_by_one = [];
  for (const images of feeds) one_by_one.push((await model.run({ images })).logits.data);
  const order = [];
  const at_once = await Promise.all(
    feeds.flatMap((images, i) => [
      model.run({ images }, i % 2 ? { signal: new AbortController().signal } : {}).then((r) => (order.push(i), r)),
      other.run({ images }), // another model in between
    ]),
  );
  at_once.forEach(({ logits }, i) => assert.deepEqual(logits.data, one_by_one[i >> 1]));
  assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7]);
});

test('memory_stays_flat_over_500_runs_of_changing_size', async (t) => {
  const bytes = conv_net({ height: 'h', width: 'w' });
  const sizes = [
    [8, 8],
    [32, 24],
    [64, 64],
    [16, 40],
  ];
  const sized = await load_net(t, bytes, { dynamicSize: sizes, inputShape: 'images:1,3,-1,-1' });
  const run = async (i) => {
    const [h, w] = sizes[i % sizes.length];
    await sized.run({ images: random_tensor([1, 3, h, w], i) });
  };
  for (let i = 0; i < sizes.length; ++i) await run(i);
  const { wasm_bytes } = sized.memory();
  for (let i = 0; i < 500; ++i) await run(i);
  assert.equal(sized.memory().wasm_bytes, wasm_bytes);
});

test('warmup_runs_without_feeds', async (t) => {
  const fresh = await load_net(t, onnx);
  await fresh.warmup();
  const images = random_tensor([1, 3, 8, 8], 5);
  assert.deepEqual((await fresh.run({ images })).logits.data, (await model.run({ images })).logits.data);
});

test('both_runtimes_agree_where_the_engine_has_both', async (t) => {
  const levels = api.capabilities().relaxed ? ['simd', 'relaxed'] : ['simd'];
  if (levels.length < 2) t.diagnostic('this Node has no relaxed SIMD: only one runtime is checked');
  const images = random_tensor([1, 3, 8, 8], 12);
  const expected = await run_onnxruntime(onnx, { images });
  for (const simd of levels) {
    const made = await api.load(await api.compile(onnx), { simd });
    assert.equal(made.simd, simd);
    const { logits } = await made.run({ images });
    made.dispose();
    assert.ok(relative_error(logits.data, expected.logits.data) <= kTolerance, simd);
  }
});
