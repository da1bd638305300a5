// Checks of what callers give: options by name and value, so that a typo is never ignored in silence.
import { KilnError } from './errors.ts';

export type Check = (value: unknown) => boolean;

/** What each key may hold: a check, and the same in words. */
export type OptionTable<K extends string = string> = Readonly<Record<K, readonly [Check, string]>>;

export const is_object: Check = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
export const is_list =
  (check: Check): Check =>
  (v) =>
    Array.isArray(v) && Array.from(v).every(check); // every() alone skips holes
export const is_text: Check = (v) => typeof v === 'string';
export const is_number =
  (low: number, high: number): Check =>
  (v) =>
    typeof v === 'number' && v >= low && v <= high;
export const is_whole =
  (low: number, high: number): Check =>
  (v) =>
    Number.isInteger(v) && is_number(low, high)(v);
export const is_one_of =
  (...words: unknown[]): Check =>
  (v) =>
    words.includes(v);

const is_signal: Check = (v) => is_object(v) && typeof (v as AbortSignal).aborted === 'boolean';

export const kAny = [(): boolean => true, 'anything'] as const; // for what is checked where it is used
export const kFlag = [is_one_of(true, false), 'true, false'] as const;
export const kFunction = [(v: unknown): boolean => typeof v === 'function', 'a function'] as const;
export const kLabels = [is_list(is_text), 'an array of texts'] as const;
export const kSignal = [is_signal, 'an AbortSignal'] as const;

/** "Float32Array of 12 elements", "string", "null", or what else it is. */
export function describe_value(value: unknown): string {
  if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value;
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  if (tag === 'DataView' || (!ArrayBuffer.isView(value) && !Array.isArray(value))) return tag;
  return `${value.constructor.name} of ${(value as ArrayLike<unknown>).length} elements`;
}

/** A short value as JSON, another by its type. */
export function value_text(value: unknown): string {
  let text: string | undefined;
  try {
    text = typeof value === 'number' ? String(value) : JSON.stringify(value);
  } catch {
    // a circle, or a bigint
  }
  return text !== undefined && text.length <= 80 ? text : describe_value(value);
}

/**
 * Refuses options that are no object, a key that `table` does not have, and values that it does not allow. A value that is
 * undefined counts as not given.
 * @param what whose options they are, for the message
 * @throws KilnError INVALID_ARGUMENT
 */
export function check_options(what: string, options: unknown, table: OptionTable): void {
  const refuse = (why: string): never => {
    throw new KilnError('INVALID_ARGUMENT', `${what}: ${why}`);
  };
  if (!is_object(options)) refuse(`an object is needed, got ${value_text(options)}`);
  for (const [key, value] of Object.entries(options as object)) {
    if (!Object.hasOwn(table, key)) refuse(`unknown key '${key}'; allowed: ${Object.keys(table).join(', ')}`);
    const [check, allowed] = table[key]!;
    if (value !== undefined && !check(value)) refuse(`${key}=${value_text(value)}; allowed: ${allowed}`);
  }
}

/** The options that `table` has, of those given. */
export function pick_options<T extends object>(options: T, table: OptionTable): T {
  return Object.fromEntries(Object.keys(table).map((key) => [key, options[key as keyof T]])) as T;
}
