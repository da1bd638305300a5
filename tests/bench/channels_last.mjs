// A layout of models/layouts as a list of channels-last operations, the form that TFLite and TensorFlow.js want.
//
// Walks the ONNX graph once. Each ONNX value of dims `dims` is stored with its axes in another `order`: stored axis k is
// ONNX axis order[k]; images start as [0, 2, 3, 1]. Transposes only rename axes and cost nothing, as a converter would do
// it; Reshape is allowed where it merges or splits axes that lie side by side in memory. Constants are permuted here.
// Relu and Clip(0, 6) go into the operation before them. Only the operators that the layouts use are known.
import { permute } from './permute.mjs';

const kFloat = 1;
const kInt64 = 7;
const product = (dims) => dims.reduce((size, dim) => size * dim, 1);

/** Axes of `from` and of `to` that hold the same elements: [[axes of from], [axes of to]] a group. */
function axis_groups(from, to) {
  const groups = [];
  let [i, j] = [0, 0];
  while (i < from.length && j < to.length) {
    const group = [[i], [j]];
    let [a, b] = [from[i++], to[j++]];
    while (a !== b) {
      if (a < b) {
        group[0].push(i);
        a *= from[i++];
      } else {
        group[1].push(j);
        b *= to[j++];
      }
    }
    groups.push(group);
  }
  while (i < from.length) groups.at(-1)[0].push(i++);
  while (j < to.length) groups.at(-1)[1].push(j++);
  return groups;
}

/** The stored order after a Reshape, or undefined where it would move elements. */
function reshaped_order(dims, order, new_dims) {
  const result = [];
  for (const [from, to] of axis_groups(dims, new_dims)) {
    const wide = from.filter((axis) => dims[axis] !== 1);
    const places = wide.map((axis) => order.indexOf(axis));
    const between = order.slice(places[0], places.at(-1) + 1).filter((axis) => dims[axis] !== 1);
    if (wide.length > 0 && between.join() !== wide.join()) return undefined;
    result.push([places[0] ?? order.indexOf(from[0]), to]);
  }
  return result.sort(([a], [b]) => a - b).flatMap(([, to]) => to);
}

function read_attributes(node) {
  const entries = node.attribute.map((a) => [
    a.name,
    a.ints ?? a.floats ?? a.i ?? a.f ?? new TextDecoder().decode(a.s),
  ]);
  return Object.fromEntries(entries);
}

function read_initializer({ dims, data_type, raw_data }) {
  const bytes = raw_data.slice().buffer;
  if (data_type === kFloat) return { dims, data: new Float32Array(bytes) };
  if (data_type === kInt64) return { dims, data: Array.from(new BigInt64Array(bytes), Number) };
  throw new Error(`initializer of data type ${data_type}; known: ${kFloat} (float32), ${kInt64} (int64)`);
}

/** The walk's state: `values` and `ops` of the result, and where each ONNX value is stored. */
class Lowering {
  constructor(graph) {
    this.values = [];
    this.ops = [];
    this.at = new Map(); // ONNX name → { id, dims, order }
    this.constants = new Map(graph.initializers.map((tensor) => [tensor.name, read_initializer(tensor)]));
    this.uses = new Map();
    for (const { input } of graph.nodes) for (const name of input) this.uses.set(name, (this.uses.get(name) ?? 0) + 1);
  }

  new_value(shape, data) {
    return this.values.push({ shape, ...(data ? { data } : {}) }) - 1;
  }

  define(name, dims, order) {
    const id = this.new_value(order.map((axis) => dims[axis]));
    this.at.set(name, { id, dims, order });
    return id;
  }

  get(name) {
    const found = this.at.get(name);
    if (!found) throw new Error(`'${name}' is no value of the graph`);
    return found;
  }

  constant(name) {
    const found = this.constants.get(name);
    if (!found) throw new Error(`'${name}' must be a constant`);
    return found;
  }

  scalar(name) {
    const { data } = this.constant(name);
    if (data.length !== 1) throw new Error(`'${name}' must be one number`);
    return data[0];
  }

  /** Puts an activation into the operation that made `name`; only if nothing else reads it. */
  fuse(node, act) {
    const x = this.get(node.input[0]);
    const op = this.ops.find(({ outputs }) => outputs[0] === x.id);
    if (this.uses.get(node.input[0]) !== 1 || op?.act !== 'none') throw new Error(`${node.name}: nothing to fuse with`);
    op.act = act;
    this.at.set(node.output[0], x);
  }

  emit(op, inputs, outputs, attributes = {}) {
    this.ops.push({ op, inputs, outputs, ...attributes });
  }

  unary(node, op, attributes) {
    const x = this.get(node.input[0]);
    this.emit(op, [x.id], [this.define(node.output[0], x.dims, x.order)], attributes);
  }

  binary(node, op, wanted_const = (data) => data) {
    const sides = node.input.map((name) => this.at.get(name));
    const x = sides[0] ?? sides[1];
    if (sides[0] && sides[1] && sides[0].order.join() !== sides[1].order.join())
      throw new Error(`${node.name}: operands are stored in different orders`);
    const ids = sides.map((side, i) => {
      if (side) return side.id;
      const { dims, data } = this.constant(node.input[i]);
      const full = [...x.dims.slice(dims.length).map(() => 1), ...dims];
      const shape = x.order.map((axis) => full[axis]);
      return this.new_value(dims.length === 0 ? [1] : shape, wanted_const(permute(data, full, x.order)));
    });
    this.emit(op, ids, [this.define(node.output[0], x.dims, x.order)], { act: 'none' });
  }

  window(dims, { kernel_shape, strides, pads }) {
    const size = (axis) =>
      Math.floor((dims[axis + 2] + pads[axis] + pads[axis + 2] - kernel_shape[axis]) / strides[axis]) + 1;
    return { h: size(0), w: size(1), geometry: { kernel: kernel_shape, strides, pads } };
  }

  cut(node, axis, parts) {
    const x = this.get(node.input[0]);
    for (const [name, begin, end] of parts) {
      const dims = x.dims.with(axis, end - begin);
      const starts = x.order.map((from) => (from === axis ? begin : 0));
      const id = this.define(name, dims, x.order);
      this.emit('slice', [x.id], [id], { begin: starts, size: this.values[id].shape });
    }
  }
}

const kNhwc = [0, 2, 3, 1];

const kRules = {
  Conv(to, node, attributes) {
    const x = to.get(node.input[0]);
    const {
      dims: [out, in_a_group, kh, kw],
      data,
    } = to.constant(node.input[1]);
    const { group, dilations } = attributes;
    const channels = x.dims[1];
    if (x.order[3] !== 1 || (x.order.join() !== kNhwc.join() && kh * kw !== 1))
      throw new Error(`${node.name}: not channels-last`);
    if (dilations.some((d) => d !== 1) || (group !== 1 && (group !== channels || out !== channels)))
      throw new Error(`${node.name}: dilations or group that no rule is written for`);
    const filter = { dims: [out, in_a_group, kh, kw], order: group === 1 ? kNhwc : [1, 2, 3, 0] };
    const bias = node.input[2] ? to.constant(node.input[2]).data : new Float32Array(out);
    const inputs = [
      x.id,
      to.new_value(
        filter.order.map((axis) => filter.dims[axis]),
        permute(data, filter.dims, filter.order),
      ),
      to.new_value([out], bias),
    ];
    const { h, w, geometry } = to.window(x.dims, attributes);
    const id = to.define(node.output[0], [x.dims[0], out, h, w], x.order);
    to.emit(group === 1 ? 'conv' : 'depthwise', inputs, [id], { name: node.name, ...geometry, act: 'none' });
  },
  MaxPool(to, node, attributes) {
    const x = to.get(node.input[0]);
    const { h, w, geometry } = to.window(x.dims, attributes);
    to.emit('max_pool', [x.id], [to.define(node.output[0], [...x.dims.slice(0, 2), h, w], x.order)], geometry);
  },
  Gemm(to, node) {
    const x = to.get(node.input[0]);
    const weights = to.constant(node.input[1]); // (n, k): the layouts say transB = 1
    const bias = to.constant(node.input[2]);
    const inputs = [x.id, to.new_value(weights.dims, weights.data), to.new_value(bias.dims, bias.data)];
    const id = to.define(node.output[0], [x.dims[0], weights.dims[0]], [0, 1]);
    to.emit('dense', inputs, [id], { name: node.name });
  },
  Relu: (to, node) => to.fuse(node, 'relu'),
  Clip(to, node) {
    if (to.scalar(node.input[1]) !== 0 || to.scalar(node.input[2]) !== 6)
      throw new Error(`${node.name}: only Clip(0, 6)`);
    to.fuse(node, 'relu6');
  },
  Sigmoid: (to, node) => to.unary(node, 'sigmoid'),
  Softmax(to, node, { axis }) {
    const { order } = to.get(node.input[0]);
    if (order.at(-1) !== axis) throw new Error(`${node.name}: axis ${axis} is not the last in memory`);
    to.unary(node, 'softmax');
  },
  Add: (to, node) => to.binary(node, 'add'),
  Sub: (to, node) => to.binary(node, 'sub'),
  Mul: (to, node) => to.binary(node, 'mul'),
  Div: (to, node) => to.binary(node, 'mul', (data) => data.map((value) => 1 / value)),
  Concat(to, node, { axis }) {
    const parts = node.input.map((name) => to.get(name));
    const [{ dims, order }] = parts;
    const joined = dims.with(
      axis,
      parts.reduce((sum, part) => sum + part.dims[axis], 0),
    );
    const id = to.define(node.output[0], joined, order);
    to.emit(
      'concat',
      parts.map((part) => part.id),
      [id],
      { axis: order.indexOf(axis) },
    );
  },
  Split(to, node, { axis }) {
    const sizes = to.constant(node.input[1]).data;
    let begin = 0;
    const parts = node.output.map((name, i) => [name, begin, (begin += sizes[i])]);
    if (sizes.some((size) => size !== sizes[0])) return to.cut(node, axis, parts);
    const x = to.get(node.input[0]);
    const ids = node.output.map((name) => to.define(name, x.dims.with(axis, sizes[0]), x.order));
    to.emit('split', [x.id], ids, { axis: x.order.indexOf(axis) });
  },
  Slice(to, node) {
    const [begin, end, axis, step] = node.input.slice(1).map((name) => to.scalar(name));
    if (step !== 1) throw new Error(`${node.name}: step ${step}; only 1`);
    to.cut(node, axis, [[node.output[0], begin, end]]);
  },
  Resize(to, node) {
    const { id, dims, order } = to.get(node.input[0]);
    const scales = to.constant(node.input[2]).data;
    const [n, c, h, w] = dims.map((dim, axis) => dim * scales[axis]);
    to.emit('resize_nearest', [id], [to.define(node.output[0], [n, c, h, w], order)], { size: [h, w] });
  },
  GlobalAveragePool(to, node) {
    const { id, dims, order } = to.get(node.input[0]);
    to.emit('average', [id], [to.define(node.output[0], [dims[0], dims[1], 1, 1], order)]);
  },
  Flatten: (to, node) => {
    const { dims } = to.get(node.input[0]);
    return reshape(to, node, [dims[0], product(dims.slice(1))]);
  },
  Reshape(to, node) {
    const { dims } = to.get(node.input[0]);
    const wanted = to.constant(node.input[1]).data.map((dim, axis) => (dim === 0 ? dims[axis] : dim));
    const known = product(wanted.filter((dim) => dim !== -1));
    return reshape(
      to,
      node,
      wanted.map((dim) => (dim === -1 ? product(dims) / known : dim)),
    );
  },
  Transpose(to, node, { perm }) {
    const { id, dims, order } = to.get(node.input[0]);
    to.at.set(node.output[0], {
      id,
      dims: perm.map((axis) => dims[axis]),
      order: order.map((axis) => perm.indexOf(axis)),
    });
  },
};

function reshape(to, node, new_dims) {
  const { id, dims, order } = to.get(node.input[0]);
  const new_order = reshaped_order(dims, order, new_dims);
  if (!new_order) throw new Error(`${node.name}: [${dims}] to [${new_dims}] would move elements stored as ${order}`);
  to.emit('reshape', [id], [to.define(node.output[0], new_dims, new_order)]);
}

/**
 * @param graph an OnnxGraph with one input [1, c, h, w] and one output
 * @returns {{values: {shape: number[], data?: Float32Array}[], ops: object[], input: number,
 *   output: {id: number, dims: number[], order: number[]}}} `values` by id, constants with `data`; an op is
 *   {op, inputs, outputs: ids, …}: conv and depthwise {name, kernel, strides, pads, act} with filters (oc, kh, kw, ic) and
 *   (1, kh, kw, c), max_pool {kernel, strides, pads}, dense {name} with weights (n, k), add, sub, mul {act}, sigmoid,
 *   softmax of the last axis, concat and split {axis}, slice {begin, size}, resize_nearest {size}, average of H and W,
 *   reshape. `pads` are [top, left, bottom, right]. `output.order` as above, `output.dims` ONNX's.
 */
export function lower_channels_last(graph) {
  const to = new Lowering(graph);
  const [{ name, type }] = graph.inputs;
  const dims = type.tensor_type.shape.dim.map((dim) => dim.dim_value);
  const input = to.define(name, dims, kNhwc);
  for (const node of graph.nodes) {
    const rule = kRules[node.op_type];
    if (!rule) throw new Error(`${node.name}: no rule for ${node.op_type}; known: ${Object.keys(kRules).join(' ')}`);
    rule(to, node, read_attributes(node));
  }
  return { values: to.values, ops: to.ops, input, output: to.get(graph.outputs[0].name) };
}
