// Which profile of a bundle serves an input: the smallest that fits, the batch padded up to it.
import { KilnError } from './errors.ts';
import { num_elements } from './tensor.ts';

/** Shapes of one profile, in the model's order of inputs and outputs. */
export interface IoShape {
  readonly inputs: readonly (readonly number[])[];
  readonly outputs: readonly (readonly number[])[];
}

/** The profile chosen, the batch that was given, and the profile's own batch (both 1 for models without one). */
export interface ProfileChoice {
  readonly profile: number;
  readonly batch: number;
  readonly full_batch: number;
}

/** What the caller gave for each input: a shape, or the bare number of elements. */
export type GivenShape = readonly number[] | number;

// The batch of `given` in a profile's `shape`, or undefined if it does not go in.
function fitting_batch(shape: readonly number[], given: GivenShape): number | undefined {
  const full = shape[0] ?? 1;
  if (typeof given !== 'number') {
    if (given.length !== shape.length) return undefined;
    const same_rest = given.every((dim, axis) => axis === 0 || dim === shape[axis]);
    const batch = given[0] ?? 1;
    return same_rest && batch >= 1 && batch <= full ? batch : given.join() === shape.join() ? full : undefined;
  }
  const total = num_elements(shape);
  if (given === total) return full;
  const item = full > 0 ? total / full : 0;
  return item > 0 && given > 0 && given < total && given % item === 0 ? given / item : undefined;
}

// Whether `batch` of `full` may be padded: axis 0 is a batch only if every output has it too, and every input either has
// the same part of it or no such axis.
function is_padded_batch(
  { inputs, outputs }: IoShape,
  batches: readonly (number | undefined)[],
  batch: number,
  full: number,
): boolean {
  const is_batched = (shape: readonly number[]): boolean => shape[0] === full;
  return (
    outputs.every(is_batched) &&
    inputs.every((shape, i) => (is_batched(shape) ? batches[i] === batch : batches[i] === (shape[0] ?? 1)))
  );
}

// A bare array fits by its length alone: [320, 640] and [640, 320] images have the same.
function check_unambiguous(name: string, index: number, fitting: readonly IoShape[]): void {
  const shapes = fitting.map(({ inputs }) => inputs[index]!);
  const items = new Set(shapes.map((shape) => shape.slice(1).join()));
  if (items.size < 2) return;
  const list = shapes.map((shape) => `[${shape.join(', ')}]`).join(' and ');
  throw new KilnError(
    'SHAPE',
    `input '${name}': an array of this length fits ${list}; pass a Tensor, which has a shape`,
  );
}

/**
 * The smallest profile that takes inputs of the given shapes.
 * @throws KilnError SHAPE naming the input, what was given and what would fit
 */
export function profile_for(
  inputs: readonly { readonly name: string; readonly dtype: string; readonly layout: string }[],
  profiles: readonly IoShape[],
  given: readonly GivenShape[],
): ProfileChoice {
  const fits: (ProfileChoice & { readonly volume: number })[] = [];
  profiles.forEach((shapes, profile) => {
    const batches = shapes.inputs.map((shape, index) => fitting_batch(shape, given[index]!));
    if (batches.some((batch) => batch === undefined)) return;
    const fulls = shapes.inputs.map((shape) => shape[0] ?? 1);
    const partial = batches.findIndex((batch, index) => batch !== fulls[index]);
    const batch = partial < 0 ? (batches[0] ?? 1) : batches[partial]!;
    if (partial >= 0 && !is_padded_batch(shapes, batches, batch, fulls[partial]!)) return;
    const volume = shapes.inputs.reduce((sum, shape) => sum + num_elements(shape), 0);
    fits.push({ profile, batch, full_batch: partial < 0 ? batch : fulls[partial]!, volume });
  });
  if (fits.length > 0) {
    const fitting = fits.map(({ profile }) => profiles[profile]!);
    inputs.forEach(({ name }, index) => typeof given[index] === 'number' && check_unambiguous(name, index, fitting));
    return fits.reduce((best, fit) => (fit.volume < best.volume ? fit : best));
  }

  const misfit = inputs.findIndex((_, index) =>
    profiles.every((shapes) => fitting_batch(shapes.inputs[index]!, given[index]!) === undefined),
  );
  const shape_text = (shape: readonly number[]): string => `[${shape.join(', ')}]`;
  const given_text = (what: GivenShape): string =>
    typeof what === 'number' ? `${what} elements` : `shape ${shape_text(what)}`;
  if (misfit < 0 && inputs.length > 1) {
    const got = inputs.map(({ name }, index) => `'${name}' ${given_text(given[index]!)}`).join(', ');
    const needed = profiles.map((shapes) => shapes.inputs.map(shape_text).join(' with ')).join(' or ');
    throw new KilnError('SHAPE', `inputs ${got} do not go together; needed: ${needed}`);
  }
  const index = Math.max(0, misfit);
  const what = given[index]!;
  const shapes = profiles.map((profile) => profile.inputs[index]!);
  const hint = layout_hint(what, shapes);
  throw new KilnError(
    'SHAPE',
    `input '${inputs[index]!.name}': ${given_text(what)} given, ${shapes.map(shape_text).join(' or ')} needed${hint}`,
  );
}

// The commonest mistake with images: channels last where the model has them first, or the other way.
function layout_hint(given: GivenShape, shapes: readonly (readonly number[])[]): string {
  if (typeof given === 'number' || given.length !== 4) return '';
  const [n, a, b, c] = given;
  const fits = (shape: readonly number[]): boolean => shapes.some((other) => other.join() === shape.join());
  if (fits([n!, c!, a!, b!])) return '; the tensor looks like NHWC: transpose it, or compile with --input-layout NHWC';
  if (fits([n!, b!, c!, a!])) return '; the tensor looks like NCHW, but the model was compiled for NHWC';
  return '';
}

/** An output's shape for the batch that was given. */
export function batch_of(shape: readonly number[], batch: number, full_batch: number): readonly number[] {
  return batch !== full_batch && shape[0] === full_batch ? [batch, ...shape.slice(1)] : shape;
}
