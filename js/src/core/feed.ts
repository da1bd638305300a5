// Writing what the caller gives for an input into the model's memory, with nothing rounded, cut off or rescaled in silence.
import { KilnError } from './errors.ts';
import { Tensor, type DType, type TypedArray } from './tensor.ts';

/** What `run` takes for an input: a Tensor, a typed array in the model's shape, or plain numbers. */
export type Feed = Tensor | TypedArray | readonly number[] | readonly bigint[] | readonly boolean[];

interface InputInfo {
  readonly name: string;
  readonly dtype: DType;
}

function refuse(info: InputInfo, given: string, hint = ''): never {
  throw new KilnError('SHAPE', `input '${info.name}': ${given} given, the dtype is ${info.dtype}${hint}`);
}

// Typed arrays that hold the values of an input exactly, besides the dtype's own array.
const kAlsoTaken: Readonly<Partial<Record<DType, readonly string[]>>> = {
  f32: ['Float64Array'], // rounded to f32, as plain numbers are
  u8: ['Uint8ClampedArray'],
  bool: ['Uint8ClampedArray'],
};

function check_array(info: InputInfo, data: TypedArray, target: TypedArray): void {
  const name = data.constructor.name;
  const is_big = target instanceof BigInt64Array || target instanceof BigUint64Array;
  const is_integer = !(data instanceof Float32Array || data instanceof Float64Array);
  if (is_big && is_integer) return; // checked value by value
  const same = Object.prototype.toString.call(data) === Object.prototype.toString.call(target);
  if (same || kAlsoTaken[info.dtype]?.includes(name)) return;
  const hint = info.dtype === 'f32' && is_integer ? ': convert it yourself, so that no scaling is guessed' : '';
  refuse(info, `a ${name}`, hint);
}

function to_bigint(info: InputInfo, value: unknown, unsigned: boolean): bigint {
  if (typeof value !== 'number' && typeof value !== 'bigint') refuse(info, `a ${typeof value}`);
  if (typeof value === 'number' && !Number.isInteger(value)) refuse(info, `${value}, which is no integer,`);
  const big = BigInt(value);
  if ((unsigned ? BigInt.asUintN(64, big) : BigInt.asIntN(64, big)) !== big) refuse(info, `${value}`);
  return big;
}

function write_numbers(info: InputInfo, data: readonly unknown[], target: TypedArray): void {
  const numbers = target as Float32Array;
  const is_float = info.dtype === 'f32' || info.dtype === 'f64';
  for (let i = 0; i < data.length; ++i) {
    const item = data[i]; // undefined for a hole, which forEach would skip
    const value = typeof item === 'boolean' && info.dtype === 'bool' ? Number(item) : item;
    if (typeof value !== 'number') refuse(info, `a ${typeof value}`);
    numbers[i] = value;
    if (!is_float && numbers[i] !== value) refuse(info, `${value}`);
  }
}

/**
 * Writes a feed into `target`, which may be longer: the rest (padding of a batch) becomes 0.
 * @throws KilnError SHAPE for values that the dtype does not hold
 */
export function write_feed(info: InputInfo, feed: Feed, target: TypedArray): void {
  const data = feed instanceof Tensor ? feed.data : feed;
  if (ArrayBuffer.isView(data)) check_array(info, data, target);
  else if (info.dtype === 'f16' || info.dtype === 'bf16')
    refuse(info, 'plain numbers', ': give its bits in a Uint16Array');
  if (target instanceof BigInt64Array || target instanceof BigUint64Array) {
    const unsigned = target instanceof BigUint64Array;
    if (data.constructor === target.constructor) target.set(data as BigInt64Array);
    else Array.from(data as ArrayLike<unknown>, (value, i) => (target[i] = to_bigint(info, value, unsigned)));
    target.fill(0n, data.length);
    return;
  }
  if (ArrayBuffer.isView(data)) (target as Float32Array).set(data as Float32Array);
  else write_numbers(info, data, target);
  (target as Float32Array).fill(0, data.length);
}
