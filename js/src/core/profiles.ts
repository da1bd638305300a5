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

// How many rows of a profile's `shape` are given, or undefined if it does not go in. Only a batch may be given in part.
function fitting_rows(shape: readonly number[], given: GivenShape, batched: boolean): number | undefined {
  const full = shape[0] ?? 1;
  if (typeof given !== 'number') {
    if (given.join() === shape.join()) return full;
    if (!batched || given.length !== shape.length) return undefined;
    const rows = given[0]!;
    return given.every((dim, axis) => axis === 0 || dim === shape[axis]) && rows >= 1 && rows < full ? rows : undefined;
  }
  const total = num_elements(shape);
  if (given === total) return full;
  const row = full > 0 ? total / full : 0;
  return batched && row > 0 && given > 0 && given < total && given % row === 0 ? given / row : undefined;
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
  inputs: readonly { readonly name: string; readonly batched: boolean }[],
  profiles: readonly IoShape[],
  given: readonly GivenShape[],
): ProfileChoice {
  const fits: (ProfileChoice & { readonly volume: number })[] = [];
  profiles.forEach((shapes, profile) => {
    const rows = shapes.inputs.map((shape, index) => fitting_rows(shape, given[index]!, inputs[index]!.batched));
    if (rows.some((count) => count === undefined)) return;
    const first = Math.max(
      0,
      inputs.findIndex(({ batched }) => batched),
    );
    const batch = rows[first] ?? 1;
    if (inputs.some(({ batched }, index) => batched && rows[index] !== batch)) return;
    const volume = shapes.inputs.reduce((sum, shape) => sum + num_elements(shape), 0);
    fits.push({ profile, batch, full_batch: shapes.inputs[first]?.[0] ?? 1, volume });
  });
  if (fits.length > 0) {
    const fitting = fits.map(({ profile }) => profiles[profile]!);
    inputs.forEach(({ name }, index) => typeof given[index] === 'number' && check_unambiguous(name, index, fitting));
    return fits.reduce((best, fit) => (fit.volume < best.volume ? fit : best));
  }

  const misfit = inputs.findIndex((_, index) =>
    profiles.every(
      ({ inputs: shapes }) => fitting_rows(shapes[index]!, given[index]!, inputs[index]!.batched) === undefined,
    ),
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
  const hint = layout_hint(what, shapes) || batch_hint(what, shapes, inputs[index]!.batched);
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

// Fewer rows than a profile has, where they cannot be padded.
function batch_hint(given: GivenShape, shapes: readonly (readonly number[])[], batched: boolean): string {
  if (batched || !shapes.some((shape) => fitting_rows(shape, given, true) !== undefined)) return '';
  return '; a smaller dim 0 is padded only where it is free in the ONNX model and no operator looks across it';
}

/** An output's shape for the batch that was given. */
export function batch_of(shape: readonly number[], batch: number, full_batch: number): readonly number[] {
  return batch !== full_batch && shape[0] === full_batch ? [batch, ...shape.slice(1)] : shape;
}
