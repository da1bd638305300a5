// ONNX node attributes: JS values → AttributeProto.

const kTypes = {
  FLOAT: [1, 'f'],
  INT: [2, 'i'],
  STRING: [3, 's'],
  TENSOR: [4, 't'],
  GRAPH: [5, 'g'],
  FLOATS: [6, 'floats'],
  INTS: [7, 'ints'],
  STRINGS: [8, 'strings'],
  TENSORS: [9, 'tensors'],
  GRAPHS: [10, 'graphs'],
  SPARSE_TENSOR: [11, 'sparse_tensor'],
  SPARSE_TENSORS: [12, 'sparse_tensors'],
};

// JS has one number type, so attributes that ONNX's operators define as float are told by name.
const kFloatNames = new Set([
  'alpha',
  'beta',
  'gamma',
  'bias',
  'epsilon',
  'momentum',
  'ratio',
  'lambd',
  'value_float',
  'value_floats',
  'spatial_scale',
  'extrapolation_value',
  'cubic_coeff_a',
  'scales',
  'high',
  'low',
  'mean',
  'scale',
  'activation_alpha',
  'activation_beta',
  'max',
  'min',
]);

/** A value with its attribute type said in so many words, e.g. `attribute('FLOAT', 1)` or `attribute('INTS', [])`. */
export class TypedAttribute {
  constructor(type, value) {
    if (!kTypes[type]) throw new Error(`unknown attribute type '${type}'; known: ${Object.keys(kTypes).join(' ')}`);
    this.type = type;
    this.value = value;
  }
}

/** Say the type of an attribute that the value alone does not tell. */
export const attribute = (type, value) => new TypedAttribute(type, value);
/** A FLOAT attribute of whole value, on an attribute name that is not known to be float. */
export const float = (value) => new TypedAttribute('FLOAT', value);
/** A FLOATS attribute. */
export const floats = (values) => new TypedAttribute('FLOATS', values);
/** An INTS attribute; needed for an empty list. */
export const ints = (values) => new TypedAttribute('INTS', values);

const is_number = (value) => ['number', 'bigint', 'boolean'].includes(typeof value);

function infer_type(name, value) {
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const list = Array.from(value);
    if (list.length === 0) return kFloatNames.has(name) ? 'FLOATS' : 'INTS';
    if (list.some((item) => infer_type(name, item) === 'FLOAT')) return 'FLOATS';
    return `${infer_type(name, list[0])}S`;
  }
  if (typeof value === 'string') return 'STRING';
  if (is_number(value)) {
    return kFloatNames.has(name) || (typeof value === 'number' && !Number.isInteger(value)) ? 'FLOAT' : 'INT';
  }
  if (value?.data_type !== undefined) return 'TENSOR';
  if (typeof value?.graph_proto === 'function') return 'GRAPH';
  throw new Error(`attribute '${name}': no ONNX type for ${value === null ? 'null' : typeof value}`);
}

const kItem = {
  FLOAT: Number,
  INT: (value) => (typeof value === 'bigint' ? value.toString() : Number(value)),
  STRING: (value) => (typeof value === 'string' ? new TextEncoder().encode(value) : value),
  GRAPH: (value) => value.graph_proto(),
};

/** An AttributeProto as a plain object; `value` is a JS value, a make_tensor() result, a graph or a TypedAttribute. */
export function make_attribute(name, value) {
  const typed = value instanceof TypedAttribute ? value : new TypedAttribute(infer_type(name, value), value);
  const [code, field] = kTypes[typed.type];
  const is_list = typed.type.endsWith('S');
  const convert = kItem[is_list ? typed.type.slice(0, -1) : typed.type] ?? ((item) => item);
  return { name, type: code, [field]: is_list ? Array.from(typed.value, convert) : convert(typed.value) };
}
