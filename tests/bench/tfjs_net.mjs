// Channels-last operations (channels_last.mjs) as TensorFlow.js calls; runs in Node and in a page.

const activation = (act) => (act === 'none' ? 'linear' : act);

function padding({ kernel, strides, pads }) {
  if (pads.every((pad) => pad === 0)) return 'valid';
  const is_same = strides.every((stride) => stride === 1) && pads.every((pad, i) => 2 * pad === kernel[i % 2] - 1);
  const [top, left, bottom, right] = pads;
  return is_same
    ? 'same'
    : [
        [0, 0],
        [top, bottom],
        [left, right],
        [0, 0],
      ];
}

/** An operation's constants in the form that its TensorFlow.js call wants, where that is another one. */
const kPrepare = {
  conv: (tf, [filter, bias]) => [tf.transpose(filter, [1, 2, 3, 0]), bias],
  depthwise: (tf, [filter, bias]) => {
    const [, kh, kw, channels] = filter.shape;
    return [tf.reshape(filter, [kh, kw, channels, 1]), bias];
  },
  dense: (tf, [weights, bias]) => [tf.transpose(weights), bias],
};

const with_act = (tf, y, act) => (act === 'relu' ? tf.relu(y) : act === 'relu6' ? tf.relu6(y) : y);

/** Operation → a function of its inputs; split returns a list. */
const kCalls = {
  conv: (tf, op, [x, filter, bias]) =>
    tf.fused.conv2d({ x, filter, bias, strides: op.strides, pad: padding(op), activation: activation(op.act) }),
  depthwise: (tf, op, [x, filter, bias]) =>
    tf.fused.depthwiseConv2d({
      x,
      filter,
      bias,
      strides: op.strides,
      pad: padding(op),
      activation: activation(op.act),
    }),
  max_pool: (tf, op, [x]) => {
    const pad = padding(op);
    return tf.maxPool(x, op.kernel, op.strides, typeof pad === 'string' ? pad : op.pads[0]);
  },
  dense: (tf, op, [a, b, bias]) => tf.fused.matMul({ a, b, bias }),
  add: (tf, op, [a, b]) => with_act(tf, tf.add(a, b), op.act),
  sub: (tf, op, [a, b]) => with_act(tf, tf.sub(a, b), op.act),
  mul: (tf, op, [a, b]) => with_act(tf, tf.mul(a, b), op.act),
  sigmoid: (tf, op, [x]) => tf.sigmoid(x),
  softmax: (tf, op, [x]) => tf.softmax(x),
  concat: (tf, op, parts) => tf.concat(parts, op.axis),
  split: (tf, op, [x]) => tf.split(x, op.outputs.length, op.axis),
  slice: (tf, op, [x]) => tf.slice(x, op.begin, op.size),
  resize_nearest: (tf, op, [x]) => tf.image.resizeNearestNeighbor(x, op.size),
  average: (tf, op, [x]) => tf.avgPool(x, [x.shape[1], x.shape[2]], 1, 'valid'),
  reshape: (tf, op, [x], shape) => tf.reshape(x, shape),
};

/**
 * The network as a function of its NHWC input.
 * @param tf the package, its backend ready
 * @param plan lower_channels_last()'s result, `data` replaced by `at`, the place of the numbers in `weights`
 * @param {Float32Array} weights
 * @returns {(x: object) => object} tensor → tensor; to be called inside tf.tidy()
 */
export function build_tfjs(tf, { values, ops, input, output }, weights) {
  const constants = values.map(({ shape, at }) => {
    if (at === undefined) return undefined;
    return tf.tensor(weights.subarray(at, at + shape.reduce((size, dim) => size * dim, 1)), shape);
  });
  for (const op of ops) {
    const prepare = kPrepare[op.op];
    if (!prepare) continue;
    const ids = op.inputs.slice(1);
    prepare(
      tf,
      ids.map((id) => constants[id]),
    ).forEach((tensor, i) => (constants[ids[i]] = tensor));
  }
  const last_use = new Map(ops.flatMap((op, index) => op.inputs.map((id) => [id, index])));
  const is_kept = (id) => id === input || values[id].at !== undefined;
  return (x) => {
    const at = [...constants];
    at[input] = x;
    for (const [index, op] of ops.entries()) {
      const result = kCalls[op.op](
        tf,
        op,
        op.inputs.map((id) => at[id]),
        values[op.outputs[0]].shape,
      );
      op.outputs.forEach((id, i) => (at[id] = Array.isArray(result) ? result[i] : result));
      for (const id of new Set(op.inputs)) if (last_use.get(id) === index && !is_kept(id)) at[id].dispose();
    }
    return at[output.id];
  };
}
