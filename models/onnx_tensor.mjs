// ONNX tensors: data types, and JS numbers or typed arrays → TensorProto.

/** Data type name → TensorProto.DataType number, the array its raw bytes are made with, and its typed field. */
export const kDtypes = {
  float32: { code: 1, array: Float32Array, field: 'float_data' },
  uint8: { code: 2, array: Uint8Array, field: 'int32_data' },
  int8: { code: 3, array: Int8Array, field: 'int32_data' },
  uint16: { code: 4, array: Uint16Array, field: 'int32_data' },
  int16: { code: 5, array: Int16Array, field: 'int32_data' },
  int32: { code: 6, array: Int32Array, field: 'int32_data' },
  int64: { code: 7, array: BigInt64Array, field: 'int64_data' },
  string: { code: 8, array: null, field: 'string_data' },
  bool: { code: 9, array: Uint8Array, field: 'int32_data' },
  float16: { code: 10, array: Uint16Array, field: 'int32_data' },
  float64: { code: 11, array: Float64Array, field: 'double_data' },
  uint32: { code: 12, array: Uint32Array, field: 'uint64_data' },
  uint64: { code: 13, array: BigUint64Array, field: 'uint64_data' },
  bfloat16: { code: 16, array: Uint16Array, field: 'int32_data' },
};

/** The table row of a dtype name, or an error that lists the names. */
export function find_dtype(name) {
  const dtype = kDtypes[name];
  if (!dtype) throw new Error(`unknown dtype '${name}'; known: ${Object.keys(kDtypes).join(' ')}`);
  return dtype;
}

const float_bits = new Uint32Array(1);
const float_view = new Float32Array(float_bits.buffer);

/** A number → the 16 bits of the nearest half float (ties to even; overflow → infinity). */
export function float16_bits(value) {
  float_view[0] = value;
  const bits = float_bits[0];
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude >= 0x38800000) {
    const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return sign | ((rounded - 0x38000000) >>> 13);
  }
  // Subnormal halves are multiples of 2^-24; scaling is exact, so one rounding is left to do.
  const scaled = Math.abs(float_view[0]) * 2 ** 24;
  const floor = Math.floor(scaled);
  const rest = scaled - floor;
  return sign | (floor + (rest > 0.5 || (rest === 0.5 && floor % 2) ? 1 : 0));
}

/** A number → the 16 bits of the nearest bfloat16 (ties to even). */
export function bfloat16_bits(value) {
  float_view[0] = value;
  const bits = float_bits[0];
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

const kConvert = {
  float16: float16_bits,
  bfloat16: bfloat16_bits,
  bool: (value) => (value ? 1 : 0),
  int64: (value) => BigInt(value),
  uint64: (value) => BigInt(value),
};

function to_typed(dtype_name, data) {
  const { array } = find_dtype(dtype_name);
  if (data instanceof array) return data;
  const convert = kConvert[dtype_name];
  return array.from(data, convert);
}

/** A tensor's values as little-endian bytes (sharing the typed array's memory where it can). */
export function tensor_bytes(dtype_name, data) {
  const typed = to_typed(dtype_name, data);
  return new Uint8Array(typed.buffer, typed.byteOffset, typed.byteLength);
}

function check_count(name, dims, data) {
  const count = dims.reduce((product, dim) => product * dim, 1);
  if (data.length !== count) {
    throw new Error(`tensor '${name}': ${data.length} values for dims [${dims}], which need ${count}`);
  }
}

/**
 * A TensorProto as a plain object.
 *
 * `data` is a typed array of the dtype's own kind or anything iterable of numbers; for float16 and bfloat16 a
 * Uint16Array is taken as bits and numbers are rounded. `storage` is 'raw' (raw_data) or 'typed' (float_data,
 * int32_data, …), the two forms that exporters write; strings are always typed.
 */
export function make_tensor(name, dtype_name, dims, data, storage = 'raw') {
  const dtype = find_dtype(dtype_name);
  check_count(name, dims, data);
  const proto = { dims, data_type: dtype.code };
  if (name) proto.name = name;
  if (dtype_name === 'string') {
    proto.string_data = Array.from(data, (text) => new TextEncoder().encode(text));
  } else if (storage === 'typed') {
    proto[dtype.field] = Array.from(to_typed(dtype_name, data), (value) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
  } else {
    proto.raw_data = tensor_bytes(dtype_name, data);
  }
  return proto;
}
