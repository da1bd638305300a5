// Tensors as users see them: a typed array, a shape, a dtype.
import { KilnError } from './errors.ts';
import { describe_value } from './options.ts';

/** Element types, named as in the compiler. `f16` and `bf16` travel as their bits in a Uint16Array, `bool` as bytes 0/1. */
export type DType =
  'f32' | 'f16' | 'bf16' | 'f64' | 'i8' | 'u8' | 'i16' | 'u16' | 'i32' | 'u32' | 'i64' | 'u64' | 'bool';

/** The arrays that hold tensor elements. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

interface ArrayType {
  new (buffer: ArrayBufferLike, byte_offset?: number, length?: number): TypedArray;
  new (length: number): TypedArray;
  readonly BYTES_PER_ELEMENT: number;
}

// In the order of kiln::DType in src/base/dtype.h, from 1.
const kDTypes: readonly (readonly [DType, ArrayType])[] = [
  ['f32', Float32Array],
  ['f16', Uint16Array],
  ['bf16', Uint16Array],
  ['f64', Float64Array],
  ['i8', Int8Array],
  ['u8', Uint8Array],
  ['i16', Int16Array],
  ['u16', Uint16Array],
  ['i32', Int32Array],
  ['u32', Uint32Array],
  ['i64', BigInt64Array],
  ['u64', BigUint64Array],
  ['bool', Uint8Array],
];

/** Name of a kiln::DType number. */
export function dtype_name(number: number): DType {
  const row = kDTypes[number - 1];
  if (!row) throw new KilnError('INTERNAL', `unknown dtype number ${number}`);
  return row[0];
}

/** The typed array class that holds elements of `dtype`. */
export function array_type(dtype: DType): ArrayType {
  const row = kDTypes.find(([name]) => name === dtype);
  if (!row) {
    throw new KilnError(
      'INVALID_ARGUMENT',
      `dtype '${dtype}' is unknown; allowed: ${kDTypes.map(([name]) => name).join(', ')}`,
    );
  }
  return row[1];
}

/** Bytes of one element. */
export function dtype_bytes(dtype: DType): number {
  return array_type(dtype).BYTES_PER_ELEMENT;
}

/** Elements of a shape: 1 for a scalar. */
export function num_elements(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

/**
 * A dense row-major tensor on the JS side. It owns nothing in wasm memory.
 * @example
 * const x = new Tensor('f32', [1, 3, 2, 2], new Float32Array(12));
 */
export class Tensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: TypedArray;

  /**
   * @param dtype element type
   * @param shape dims, outermost first
   * @param data elements, row-major; its length must be the product of the dims
   */
  constructor(dtype: DType, shape: readonly number[], data: TypedArray) {
    const is_array = ArrayBuffer.isView(data) ? !(data instanceof DataView) : Array.isArray(data);
    if (!Array.isArray(shape) || !is_array) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `a tensor needs a shape and a typed array, got ${describe_value(shape)} and ${describe_value(data)}`,
      );
    }
    const bad = shape.find((dim) => !Number.isInteger(dim) || dim < 0);
    if (bad !== undefined) {
      throw new KilnError('SHAPE', `a tensor of shape [${shape.join(', ')}]: dims must be whole and not negative`);
    }
    const expected = num_elements(shape);
    if (data.length !== expected) {
      throw new KilnError(
        'SHAPE',
        `a tensor of shape [${shape.join(', ')}] has ${expected} elements, the array has ${data.length}`,
      );
    }
    const type = array_type(dtype);
    const fits =
      data instanceof (type as unknown as new () => TypedArray) ||
      (dtype === 'u8' && data instanceof Uint8ClampedArray);
    if (!fits) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `dtype ${dtype} needs a ${(type as unknown as { name: string }).name}, got ${data.constructor.name}`,
      );
    }
    this.dtype = dtype;
    this.shape = [...shape];
    this.data = data;
  }
}

/** Refuses a tensor whose elements are gone: its buffer was transferred after it was made. */
export function check_whole(what: string, { shape, data }: Tensor): void {
  if (data.length === num_elements(shape)) return;
  throw new KilnError(
    'INVALID_ARGUMENT',
    `${what}: the tensor of shape [${shape.join(', ')}] has ${data.length} elements left: its buffer is detached`,
  );
}
