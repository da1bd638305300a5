// A small builder for ONNX models: make a graph, add inputs, initialisers and nodes, write bytes.
//
//   const g = graph('tiny', { opset: 13 });
//   const x = g.input('x', ['N', 3, 32, 32]);
//   const w = g.initializer('w', 'float32', [8, 3, 3, 3], weights);
//   const y = g.node('Conv', [x, w], { strides: [2, 2], pads: [1, 1, 1, 1] });
//   g.output(y, ['N', 8, 16, 16]);
//   const bytes = write_onnx(g);
//
// Values are named by strings. The same calls give the same bytes.
import { make_attribute } from './onnx_attribute.mjs';
import { encode_model } from './onnx_proto.mjs';
import { find_dtype, make_tensor } from './onnx_tensor.mjs';

export { attribute, float, floats, ints } from './onnx_attribute.mjs';
export { make_tensor } from './onnx_tensor.mjs';

const kExternalLocation = 1;

// The IR version that came with an opset (versions.md of ONNX); any newer one may be asked for.
const ir_version_of = (opset) =>
  [
    [21, 10],
    [19, 9],
    [15, 8],
    [12, 7],
    [11, 6],
    [10, 5],
    [9, 4],
  ].find(([first]) => opset >= first)?.[1] ?? 3;

function make_value_info(name, dims, dtype) {
  const elem_type = find_dtype(dtype).code;
  if (!dims) return { name, type: { tensor_type: { elem_type } } };
  const dim = dims.map((d) => (typeof d === 'string' ? { dim_param: d } : d === null ? {} : { dim_value: d }));
  return { name, type: { tensor_type: { elem_type, shape: { dim } } } };
}

/** A graph under construction; make it with `graph()`. */
export class OnnxGraph {
  constructor(
    name,
    { opset = 13, ir_version, imports = {}, producer = 'tilekiln', doc, metadata = {}, checked = true } = {},
  ) {
    this.name = name;
    this.opset = opset;
    this.ir_version = ir_version ?? ir_version_of(opset);
    this.imports = new Map(Object.entries(imports));
    this.producer = producer;
    this.doc = doc;
    this.checked = checked;
    this.metadata_props = new Map(Object.entries(metadata));
    this.inputs = [];
    this.outputs = [];
    this.value_infos = [];
    this.initializers = [];
    this.nodes = [];
    this.defined = new Set();
  }

  define(name, what) {
    if (this.checked && this.defined.has(name)) throw new Error(`${what} '${name}': the graph already has that value`);
    this.defined.add(name);
    return name;
  }

  /** A graph input. A dim is a number, a string (dim_param) or null (unknown). Returns its name. */
  input(name, dims, dtype = 'float32') {
    this.define(name, 'input');
    this.inputs.push(make_value_info(name, dims, dtype));
    return name;
  }

  /** Marks a value as graph output; without dims its shape is left open. Returns its name. */
  output(value, dims, dtype = 'float32') {
    if (this.checked && !this.defined.has(value))
      throw new Error(`output '${value}': no such value in graph '${this.name}'`);
    this.outputs.push(make_value_info(value, dims, dtype));
    return value;
  }

  /** Records the type of an inner value. */
  value_info(value, dims, dtype = 'float32') {
    this.value_infos.push(make_value_info(value, dims, dtype));
    return value;
  }

  /** A constant; see make_tensor() for `data` and `storage`. Returns its name. */
  initializer(name, dtype, dims, data, { storage = 'raw' } = {}) {
    const tensor = make_tensor(name, dtype, dims, data, storage);
    this.define(name, 'initializer');
    this.initializers.push(tensor);
    return name;
  }

  /**
   * A node. Absent optional inputs are '' or null. Attributes may be numbers, strings, lists of them, tensors
   * (make_tensor), graphs, or typed by attribute(); undefined ones are left out.
   * `outputs` is a count or the names themselves ('' for one that is not wanted).
   * Returns the output's name, or the list of names if there are several.
   */
  node(op_type, inputs, attributes = {}, { name, outputs = 1, domain = '', doc } = {}) {
    const node_name = name ?? `${op_type}_${this.nodes.length}`;
    const output =
      typeof outputs === 'number' ? Array.from({ length: outputs }, (_, i) => `${node_name}_output_${i}`) : outputs;
    for (const value of output) if (value) this.define(value, `output of ${op_type}`);
    if (domain && !this.imports.has(domain)) this.imports.set(domain, 1);
    const proto = {
      input: inputs.map((value) => value ?? ''),
      output,
      name: node_name,
      op_type,
      attribute: Object.entries(attributes)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => make_attribute(key, value)),
    };
    if (domain) proto.domain = domain;
    if (doc) proto.doc_string = doc;
    this.nodes.push(proto);
    return output.length === 1 ? output[0] : output;
  }

  /** Adds an entry of the model's metadata_props. */
  metadata(key, value) {
    this.metadata_props.set(key, String(value));
  }

  /** GraphProto as a plain object, for a body of If, Loop or Scan (there, values of the outer graph may be used). */
  graph_proto() {
    const proto = {
      node: this.nodes,
      name: this.name,
      initializer: this.initializers,
      input: this.inputs,
      output: this.outputs,
    };
    if (this.value_infos.length) proto.value_info = this.value_infos;
    return proto;
  }

  /** ModelProto as a plain object. */
  model_proto() {
    const proto = {
      ir_version: this.ir_version,
      producer_name: this.producer,
      graph: this.graph_proto(),
      opset_import: [
        { domain: '', version: this.opset },
        ...[...this.imports].map(([domain, version]) => ({ domain, version })),
      ],
      metadata_props: [...this.metadata_props].map(([key, value]) => ({ key, value })),
    };
    if (this.doc) proto.doc_string = this.doc;
    return proto;
  }
}

/** Starts a graph. Options: opset, ir_version, imports ({domain: version}), metadata, producer, doc, checked. */
export const graph = (name, options) => new OnnxGraph(name, options);

/** A graph's bytes as an .onnx file. */
export const write_onnx = (g) => encode_model(g.model_proto());

/**
 * The external-data form: { model, data }, where initialisers of at least `min_bytes` bytes lie in `data`, to be
 * stored beside the model under the name `location`, each at a multiple of 4096.
 */
export function write_onnx_external(g, { location, min_bytes = 1024 }) {
  const proto = g.model_proto();
  const parts = [];
  let size = 0;
  proto.graph.initializer = g.initializers.map((tensor) => {
    const { raw_data, ...rest } = tensor;
    if (!raw_data || raw_data.length < min_bytes) return tensor;
    const offset = Math.ceil(size / 4096) * 4096;
    parts.push({ offset, raw_data });
    size = offset + raw_data.length;
    const external_data = Object.entries({ location, offset, length: raw_data.length }).map(([key, value]) => ({
      key,
      value: String(value),
    }));
    return { ...rest, external_data, data_location: kExternalLocation };
  });
  const data = new Uint8Array(size);
  for (const { offset, raw_data } of parts) data.set(raw_data, offset);
  return { model: encode_model(proto), data };
}
