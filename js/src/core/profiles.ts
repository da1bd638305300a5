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

/**
 * The smallest profile that takes inputs of the given shapes.
 * @throws KilnError SHAPE naming the input, what was given and what would fit
 */
export function profile_for(
  inputs: readonly { readonly name: string; readonly dtype: string; readonly layout: string }[],
  profiles: readonly IoShape[],
  given: readonly GivenShape[],
): ProfileChoice {
  let best: (ProfileChoice & { readonly volume: number }) | undefined;
  profiles.forEach((shapes, profile) => {
    const batches = shapes.inputs.map((shape, index) => fitting_batch(shape, given[index]!));
    if (batches.some((batch) => batch === undefined)) return;
    const fulls = shapes.inputs.map((shape) => shape[0] ?? 1);
    const partial = batches.findIndex((batch, index) => batch !== fulls[index]);
    const batch = partial < 0 ? (batches[0] ?? 1) : batches[partial]!;
    // Every input with a smaller batch must have the same one, and full inputs only if they are not batched.
    if (partial >= 0 && batches.some((b, index) => b !== batch && fulls[index] === fulls[partial])) return;
    const volume = shapes.inputs.reduce((sum, shape) => sum + num_elements(shape), 0);
    if (!best || volume < best.volume)
      best = { profile, batch, full_batch: partial < 0 ? batch : fulls[partial]!, volume };
  });
  if (best) return best;

  const misfit = inputs.findIndex((_, index) =>
    profiles.every((shapes) => fitting_batch(shapes.inputs[index]!, given[index]!) === undefined),
  );
  const index = Math.max(0, misfit);
  const what = given[index]!;
  const allowed = profiles.map((shapes) => `[${shapes.inputs[index]!.join(', ')}]`).join(' or ');
  const got = typeof what === 'number' ? `${what} elements` : `shape [${what.join(', ')}]`;
  const first = profiles[0]!.inputs[index]!;
  const swapped =
    typeof what !== 'number' && what.length === 4 && first.length === 4 && what[3] === first[1] && what[1] === first[2];
  const hint = swapped ? '; the tensor looks like NHWC: transpose it, or compile with --input-layout NHWC' : '';
  throw new KilnError('SHAPE', `input '${inputs[index]!.name}': ${got} given, ${allowed} needed${hint}`);
}

/** An output's shape for the batch that was given. */
export function batch_of(shape: readonly number[], batch: number, full_batch: number): readonly number[] {
  return batch !== full_batch && shape[0] === full_batch ? [batch, ...shape.slice(1)] : shape;
}
