// Arguments of another kind than the types say, and buffers that were transferred: a KilnError, never a raw one.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { api } from '../support/api.mjs';
import { conv_net, deep_net } from '../support/graphs.mjs';

let bundle;
let model;

before(async () => {
  bundle = await api.compile(conv_net(), { preprocess: 'raw' });
  model = await api.load(bundle);
});
after(() => model.dispose());

/** The call must fail, at once or as a promise, with INVALID_ARGUMENT and this message. */
const refused = (call, message) =>
  assert.rejects(async () => call(), { name: 'KilnError', code: 'INVALID_ARGUMENT', message });

const detach = ({ buffer }) => structuredClone(buffer, { transfer: [buffer] });
const make_tensor = (shape, length) => new api.Tensor('f32', shape, new Float32Array(length));

test('feeds_of_another_kind_are_refused', async () => {
  const by_name = /^run needs an object with inputs by name \(images\), got /;
  for (const feeds of [undefined, null, 5, 'images', [], new Float32Array(192), make_tensor([1, 3, 8, 8], 192)]) {
    await refused(() => model.run(feeds), by_name);
  }
  await refused(() => model.run(make_tensor([2], 2)), /got a Tensor$/);
});

test('detached_feeds_and_outputs_are_refused_and_the_model_stays_usable', async () => {
  const images = make_tensor([1, 3, 8, 8], 192);
  detach(images.data);
  await refused(() => model.run({ images }), /input 'images': the tensor of shape \[1, 3, 8, 8\] has 0 elements left/);
  const feeds = { images: new Float32Array(192) };
  const logits = make_tensor([1, 5], 5);
  detach(logits.data);
  await refused(() => model.run(feeds, { outputs: { logits } }), /output 'logits': .* its buffer is detached/);
  assert.equal((await model.run(feeds)).logits.data.length, 5);
});

test('an_output_that_is_transferred_during_the_run_is_refused', async (t) => {
  const deep = await api.load(await api.compile(deep_net()));
  t.after(() => deep.dispose());
  const y = make_tensor([1, 32, 64, 64], 32 * 64 * 64);
  const { signal } = new AbortController(); // with one, a run lets timers in
  const run = deep.run({ x: new Float32Array(32 * 64 * 64) }, { outputs: { y }, signal });
  setTimeout(() => detach(y.data), 0);
  await refused(() => run, /output 'y': .* its buffer is detached/);
});

test('detached_models_are_refused', async () => {
  const bytes = bundle.slice();
  detach(bytes);
  for (const call of [api.load, api.compile, api.Detector.load]) {
    await refused(() => call(bytes), /the bytes given are detached/);
    await refused(() => call(bytes.buffer), /the bytes given are detached/);
  }
});

test('a_frame_that_is_transferred_while_it_waits_is_refused', async () => {
  const net = new api.ImageModel(model);
  const frame = { data: new Uint8Array(192), width: 8, height: 8, channels: 3 };
  const first = net.run(frame);
  const second = net.run(frame);
  detach(frame.data);
  await refused(() => first, /needs 192 bytes in a Uint8Array, got Uint8Array of 0 elements/);
  await refused(() => second, /needs 192 bytes/);
  await net.run({ ...frame, data: new Uint8Array(192) });
  await refused(() => net.run({ width: 5, height: 5 }), /this object is no image; allowed: ImageData/);
});

test('classes_of_vision_need_a_live_model', async () => {
  const gone = await api.load(bundle);
  gone.dispose();
  for (const name of ['Detector', 'Classifier', 'ImageModel']) {
    await refused(() => new api[name](), new RegExp(`^${name}: a Model is needed .*got undefined`));
    await refused(() => new api[name](null), /a Model is needed .*got null/);
    await refused(() => new api[name]({}), /a Model is needed .*got Object/);
    await refused(() => new api[name]('m.kiln'), /a Model is needed .*got string/);
    await refused(() => new api[name](gone), /the model has been disposed/);
  }
});

test('tensors_and_npy_files_of_nothing_are_refused', async () => {
  await refused(() => new api.Tensor(), /a tensor needs a shape and a typed array, got undefined and undefined/);
  await refused(() => new api.Tensor('f32', [2]), /got Array of 1 elements and undefined/);
  await refused(() => new api.Tensor('f32', 2, new Float32Array(2)), /got number and Float32Array of 2 elements/);
  await refused(
    () => new api.Tensor('u8', [2], new DataView(new ArrayBuffer(2))),
    /got Array of 1 elements and DataView$/,
  );
  await refused(() => api.writeNpy(), /writeNpy: a Tensor is needed, got undefined/);
  await refused(
    () => api.writeNpy(new Float32Array(2)),
    /writeNpy: a Tensor is needed, got Float32Array of 2 elements/,
  );
  await refused(() => api.readNpy(), /the bytes given: a Uint8Array is needed, got undefined/);
  await refused(() => api.readNpy(new ArrayBuffer(4), 'x.npy'), /x\.npy: a Uint8Array is needed, got ArrayBuffer/);
  const tensor = make_tensor([2], 2);
  detach(tensor.data);
  await refused(() => api.writeNpy(tensor), /writeNpy: the tensor of shape \[2\] has 0 elements left/);
});

test('shapes_cannot_be_changed', () => {
  const [input] = model.inputs;
  assert.throws(() => (input.shape[0] = 7), TypeError);
  assert.throws(() => (input.profiles[0] = [7]), TypeError);
  assert.throws(() => input.profiles[0].push(7), TypeError);
  assert.throws(() => (input.shape = [7]), TypeError);
  assert.deepEqual(model.outputs[1].shape, [1, 5]);
});
