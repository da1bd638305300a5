// NumPy's .npy files (format versions 1 to 3, C order): reading and writing tensors.
// Format: numpy.lib.format documentation.
import { KilnError } from './errors.ts';
import { describe_value } from './options.ts';
import { array_type, check_whole, num_elements, Tensor, type DType } from './tensor.ts';

const kDescrs: Readonly<Partial<Record<DType, string>>> = {
  f32: '<f4',
  f16: '<f2',
  f64: '<f8',
  i8: '|i1',
  u8: '|u1',
  i16: '<i2',
  u16: '<u2',
  i32: '<i4',
  u32: '<u4',
  i64: '<i8',
  u64: '<u8',
  bool: '|b1',
};

/**
 * A tensor as a .npy file.
 * @throws KilnError UNSUPPORTED for bf16, which NumPy does not have
 * @example
 * const file = writeNpy(new Tensor('f32', [2], Float32Array.of(1, 2)));
 */
export function write_npy(tensor: Tensor): Uint8Array<ArrayBuffer> {
  if (!(tensor instanceof Tensor)) {
    throw new KilnError('INVALID_ARGUMENT', `writeNpy: a Tensor is needed, got ${describe_value(tensor)}`);
  }
  check_whole('writeNpy', tensor);
  const descr = kDescrs[tensor.dtype];
  if (!descr) throw new KilnError('UNSUPPORTED', `.npy has no dtype for ${tensor.dtype}`);
  const shape = tensor.shape.length === 1 ? `(${tensor.shape[0]},)` : `(${tensor.shape.join(', ')})`;
  const header = `{'descr': '${descr}', 'fortran_order': False, 'shape': ${shape}, }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11, ' ') + '\n';
  const data = new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  const file = new Uint8Array(10 + padded.length + data.length);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, padded.length & 255, padded.length >> 8]);
  file.set(new TextEncoder().encode(padded), 10);
  file.set(data, 10 + padded.length);
  return file;
}

/**
 * The tensor in a .npy file.
 * @param what the file's name, for messages
 * @throws KilnError NOT_A_MODEL, TRUNCATED, UNSUPPORTED
 * @example
 * const tensor = readNpy(new Uint8Array(await (await fetch('input.npy')).arrayBuffer()), 'input.npy');
 */
export function read_npy(file: Uint8Array, what = 'the bytes given'): Tensor {
  if (Object.prototype.toString.call(file) !== '[object Uint8Array]') {
    throw new KilnError('INVALID_ARGUMENT', `${what}: a Uint8Array is needed, got ${describe_value(file)}`);
  }
  const magic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
  if (file.length < 12 || !magic.every((byte, i) => file[i] === byte)) {
    throw new KilnError('NOT_A_MODEL', `${what}: this is no .npy file`);
  }
  if (file[6]! < 1 || file[6]! > 3) {
    throw new KilnError('UNSUPPORTED', `${what}: .npy format version ${file[6]}; supported: 1 to 3`);
  }
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const start = file[6] === 1 ? 10 : 12;
  const header_bytes = file[6] === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (start + header_bytes > file.length) throw new KilnError('TRUNCATED', `${what}: it ends within its header`);
  const header = new TextDecoder('latin1').decode(file.subarray(start, start + header_bytes));
  const descr = /'descr':\s*'([^']+)'/.exec(header)?.[1];
  const shape_text = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  if (/'descr':\s*\[/.test(header)) {
    throw new KilnError('UNSUPPORTED', `${what}: a record array is not supported; save a plain array`);
  }
  if (descr === undefined || shape_text === undefined)
    throw new KilnError('NOT_A_MODEL', `${what}: the .npy header is damaged`);
  if (/'fortran_order':\s*True/.test(header)) {
    throw new KilnError('UNSUPPORTED', `${what}: Fortran order is not supported; save it with np.ascontiguousarray`);
  }
  const normal = descr.replace(/^[=<](?=[iub]1$)/, '|').replace(/^=/, '<');
  const dtype = (Object.entries(kDescrs) as [DType, string][]).find(([, name]) => name === normal)?.[0];
  if (!dtype) {
    throw new KilnError(
      'UNSUPPORTED',
      `${what}: dtype '${descr}' is not supported; supported: ${Object.values(kDescrs).join(', ')}`,
    );
  }
  const dims = shape_text.split(',').map((dim) => dim.trim());
  if (dims.at(-1) === '') dims.pop();
  if (!dims.every((dim) => /^\d+L?$/.test(dim))) {
    throw new KilnError('NOT_A_MODEL', `${what}: the shape (${shape_text}) in the .npy header is damaged`);
  }
  const shape = dims.map((dim) => Number.parseInt(dim, 10));
  const type = array_type(dtype);
  const length = num_elements(shape);
  const begin = start + header_bytes;
  const missing = begin + length * type.BYTES_PER_ELEMENT - file.length;
  if (missing > 0) throw new KilnError('TRUNCATED', `${what}: ${missing} bytes are missing at its end`);
  // A copy, aligned for the type; not slice(), which for a Node Buffer is a view.
  const bytes = new Uint8Array(length * type.BYTES_PER_ELEMENT);
  bytes.set(file.subarray(begin, begin + bytes.length));
  return new Tensor(dtype, shape, new type(bytes.buffer, 0, length));
}
