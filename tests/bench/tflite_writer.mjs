// Channels-last operations (channels_last.mjs) as a .tflite file, for LiteRT.js.
// Slots and numbers are those of TensorFlow Lite's schema.fbs, version 3.
import { Builder } from 'flatbuffers';

const kTypes = { float32: 0, int32: 2 };
const kActs = { none: 0, relu: 1, relu6: 3 };
const kSame = 0;
const kValid = 1;
const kSchemaVersion = 3;

/** TFLite operator → its code, the tag of its options in the union, and the options' fields in slot order. */
const kOperators = {
  ADD: { code: 0, tag: 11, fields: ['int8'] },
  CONCATENATION: { code: 2, tag: 10, fields: ['int32', 'int8'] },
  CONV_2D: { code: 3, tag: 1, fields: ['int8', 'int32', 'int32', 'int8'] },
  DEPTHWISE_CONV_2D: { code: 4, tag: 2, fields: ['int8', 'int32', 'int32', 'int32', 'int8'] },
  FULLY_CONNECTED: { code: 9, tag: 8, fields: ['int8'] },
  LOGISTIC: { code: 14 },
  MAX_POOL_2D: { code: 17, tag: 5, fields: ['int8', 'int32', 'int32', 'int32', 'int32', 'int8'] },
  MUL: { code: 18, tag: 21, fields: ['int8'] },
  RESHAPE: { code: 22, tag: 17, fields: [] },
  SOFTMAX: { code: 25, tag: 9, fields: ['float32'] },
  PAD: { code: 34, tag: 22, fields: [] },
  MEAN: { code: 40, tag: 27, fields: ['bool'] },
  SUB: { code: 41, tag: 28, fields: ['int8'] },
  STRIDED_SLICE: { code: 45, tag: 32, fields: ['int32', 'int32', 'int32', 'int32', 'int32'] },
  SPLIT: { code: 49, tag: 35, fields: ['int32'] },
  RESIZE_NEAREST_NEIGHBOR: { code: 97, tag: 74, fields: ['bool', 'bool'] },
};

/** Tensors and operators of the file, in its order. */
class LiteGraph {
  constructor(values) {
    this.tensors = values.map(({ shape, data }) => ({ shape, data, type: kTypes.float32 }));
    this.operators = [];
  }

  tensor(shape) {
    return this.tensors.push({ shape, type: kTypes.float32 }) - 1;
  }

  ints(values, shape = [values.length]) {
    return this.tensors.push({ shape, type: kTypes.int32, data: Int32Array.from(values) }) - 1;
  }

  add(kind, inputs, outputs, ...options) {
    this.operators.push({ kind, inputs, outputs, options });
  }

  /** The tensor to read and the padding to name: symmetric "same" pads as such, others as a PAD before. */
  pad(x, { kernel, strides, pads }) {
    if (pads.every((pad) => pad === 0)) return [x, kValid];
    const is_same = strides.every((stride) => stride === 1) && pads.every((pad, i) => 2 * pad === kernel[i % 2] - 1);
    if (is_same) return [x, kSame];
    const [top, left, bottom, right] = pads;
    const [n, h, w, c] = this.tensors[x].shape;
    const padded = this.tensor([n, h + top + bottom, w + left + right, c]);
    this.add('PAD', [x, this.ints([0, 0, top, bottom, left, right, 0, 0], [4, 2])], [padded]);
    return [padded, kValid];
  }
}

const act = (name) => kActs[name];

const kRules = {
  conv(lite, op) {
    const [x, padding] = lite.pad(op.inputs[0], op);
    const [sh, sw] = op.strides;
    lite.add('CONV_2D', [x, ...op.inputs.slice(1)], op.outputs, padding, sw, sh, act(op.act));
  },
  depthwise(lite, op) {
    const [x, padding] = lite.pad(op.inputs[0], op);
    const [sh, sw] = op.strides;
    lite.add('DEPTHWISE_CONV_2D', [x, ...op.inputs.slice(1)], op.outputs, padding, sw, sh, 1, act(op.act));
  },
  // A PAD's zeros are the right neutral value here: the one padded pool with strides, ResNet's, follows a Relu.
  max_pool(lite, op) {
    const [x, padding] = lite.pad(op.inputs[0], op);
    const [kh, kw] = op.kernel;
    const [sh, sw] = op.strides;
    lite.add('MAX_POOL_2D', [x], op.outputs, padding, sw, sh, kw, kh, kActs.none);
  },
  dense: (lite, op) => lite.add('FULLY_CONNECTED', op.inputs, op.outputs, kActs.none),
  add: (lite, op) => lite.add('ADD', op.inputs, op.outputs, act(op.act)),
  sub: (lite, op) => lite.add('SUB', op.inputs, op.outputs, act(op.act)),
  mul: (lite, op) => lite.add('MUL', op.inputs, op.outputs, act(op.act)),
  sigmoid: (lite, op) => lite.add('LOGISTIC', op.inputs, op.outputs),
  softmax: (lite, op) => lite.add('SOFTMAX', op.inputs, op.outputs, 1),
  concat: (lite, op) => lite.add('CONCATENATION', op.inputs, op.outputs, op.axis, kActs.none),
  split: (lite, op) => lite.add('SPLIT', [lite.ints([op.axis], []), ...op.inputs], op.outputs, op.outputs.length),
  slice(lite, op) {
    const end = op.begin.map((begin, axis) => begin + op.size[axis]);
    const bounds = [lite.ints(op.begin), lite.ints(end), lite.ints(op.begin.map(() => 1))];
    lite.add('STRIDED_SLICE', [...op.inputs, ...bounds], op.outputs, 0, 0, 0, 0, 0);
  },
  resize_nearest: (lite, op) =>
    lite.add('RESIZE_NEAREST_NEIGHBOR', [...op.inputs, lite.ints(op.size)], op.outputs, false, false),
  average: (lite, op) => lite.add('MEAN', [...op.inputs, lite.ints([1, 2])], op.outputs, true),
  reshape: (lite, op) => lite.add('RESHAPE', [...op.inputs, lite.ints(lite.tensors[op.outputs[0]].shape)], op.outputs),
};

const kFieldWriters = {
  bool: (builder, slot, value) => builder.addFieldInt8(slot, Number(value), 0),
  int8: (builder, slot, value) => builder.addFieldInt8(slot, value, 0),
  int32: (builder, slot, value) => builder.addFieldInt32(slot, value, 0),
  float32: (builder, slot, value) => builder.addFieldFloat32(slot, value, 0),
  offset: (builder, slot, value) => builder.addFieldOffset(slot, value, 0),
};

/** A table; `fields` are [slot, kind, value], offsets of finished objects for kind "offset". */
function write_table(builder, fields) {
  builder.startObject(Math.max(-1, ...fields.map(([slot]) => slot)) + 1);
  for (const [slot, kind, value] of fields) kFieldWriters[kind](builder, slot, value);
  return builder.endObject();
}

function write_ints(builder, values) {
  builder.startVector(4, values.length, 4);
  for (const value of values.toReversed()) builder.addInt32(value);
  return builder.endVector();
}

function write_offsets(builder, offsets) {
  builder.startVector(4, offsets.length, 4);
  for (const offset of offsets.toReversed()) builder.addOffset(offset);
  return builder.endVector();
}

function write_data(builder, data) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  builder.startVector(1, bytes.length, 16); // kernels read weights in place
  builder.bb.setPosition((builder.space -= bytes.length));
  builder.bb.bytes().set(bytes, builder.space);
  return builder.endVector();
}

function write_operator(builder, { kind, inputs, outputs, options }, code_index) {
  const { tag, fields } = kOperators[kind];
  const slots = [
    [0, 'int32', code_index],
    [1, 'offset', write_ints(builder, inputs)],
    [2, 'offset', write_ints(builder, outputs)],
  ];
  if (tag === undefined) return write_table(builder, slots);
  const table = write_table(
    builder,
    fields.map((field, slot) => [slot, field, options[slot]]),
  );
  return write_table(builder, [...slots, [3, 'int8', tag], [4, 'offset', table]]);
}

/**
 * The bytes of a .tflite file.
 * @param plan what lower_channels_last() returns; the file's input and output are in its channels-last form
 */
export function write_tflite({ values, ops, input, output }) {
  const lite = new LiteGraph(values);
  for (const op of ops) kRules[op.op](lite, op);

  const builder = new Builder(values.reduce((sum, { data }) => sum + (data?.byteLength ?? 0), 1 << 20));
  const buffers = [write_table(builder, [])]; // number 0 is the empty one, for tensors without data
  const tensors = lite.tensors.map(({ shape, type, data }, index) => {
    const buffer = data ? buffers.push(write_table(builder, [[0, 'offset', write_data(builder, data)]])) - 1 : 0;
    return write_table(builder, [
      [0, 'offset', write_ints(builder, shape)],
      [1, 'int8', type],
      [2, 'int32', buffer],
      [3, 'offset', builder.createString(`t${index}`)],
    ]);
  });
  const kinds = [...new Set(lite.operators.map(({ kind }) => kind))];
  const codes = kinds.map((kind) => {
    const { code } = kOperators[kind];
    return write_table(builder, [
      [0, 'int8', code],
      [3, 'int32', code],
    ]);
  });
  const operators = lite.operators.map((operator) => write_operator(builder, operator, kinds.indexOf(operator.kind)));
  const graph = write_table(builder, [
    [0, 'offset', write_offsets(builder, tensors)],
    [1, 'offset', write_ints(builder, [input])],
    [2, 'offset', write_ints(builder, [output.id])],
    [3, 'offset', write_offsets(builder, operators)],
    [4, 'offset', builder.createString('main')],
  ]);
  const model = write_table(builder, [
    [0, 'int32', kSchemaVersion],
    [1, 'offset', write_offsets(builder, codes)],
    [2, 'offset', write_offsets(builder, [graph])],
    [3, 'offset', builder.createString('tilekiln bench')],
    [4, 'offset', write_offsets(builder, buffers)],
  ]);
  builder.finish(model, 'TFL3');
  return builder.asUint8Array();
}
