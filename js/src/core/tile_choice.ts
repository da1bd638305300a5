// Times the register tiles of a fresh instance and takes the fastest: engines differ by a factor of two on one and the same
// kernel. Once a process and SIMD level; the choice never changes a bit of any result.
import { KilnError } from './errors.ts';
import type { Native } from './native.ts';

const kBudgetMs = 8;
const kTrialMs = 0.25; // of a candidate at a time
const kOptimised = 1.5; // times faster than at first: the engine has replaced its first code by better
const kMargin = 1.4; // by which another one must beat the default, which was chosen at leisure
const kFirstCalls = 16;

const chosen = new Map<string, number>(); // by SIMD level
let last_choice: string | undefined;

/** The tile that the last model loaded with 'auto' got, like "6x8"; undefined before. */
export function chosen_tile(): string | undefined {
  return last_choice;
}

/** Forgets what was chosen, after the engine was told to work otherwise. */
export function forget_tiles(): void {
  chosen.clear();
}

/** Names of the candidates, the default first. */
export function tile_names(native: Native): string[] {
  const { exports } = native;
  return Array.from({ length: exports.kiln_num_tiles() }, (_, tile) => native.text(exports.kiln_tile_name(tile)));
}

// Engines start with slow code and replace it while the trials run, at different times for different candidates: so they take
// turns until the end, and another one wins only once the default is known to be optimised.
function fastest_tile(native: Native, budget_ms: number): number {
  const { exports } = native;
  const trials = Array.from({ length: exports.kiln_num_tiles() }, () => ({
    calls: kFirstCalls,
    first: 0,
    best: Infinity,
  }));
  const end = performance.now() + budget_ms;
  while (performance.now() < end) {
    trials.forEach((trial, tile) => {
      const start = performance.now();
      const macs = exports.kiln_try_tile(tile, trial.calls);
      const ms = performance.now() - start;
      if (ms < kTrialMs) trial.calls *= 2; // also where the clock is coarse
      if (ms < kTrialMs / 2) return;
      trial.first ||= ms / macs;
      trial.best = Math.min(trial.best, ms / macs);
    });
  }
  const [usual] = trials;
  if (!usual || usual.first < kOptimised * usual.best) return 0;
  const best = Math.min(...trials.map((trial) => trial.best));
  return best * kMargin < usual.best ? trials.findIndex((trial) => trial.best === best) : 0;
}

/**
 * Selects a tile in an instance that runs nothing yet.
 * @param simd the artefact's SIMD level
 * @param wanted a name, or 'auto' for the fastest
 * @returns its name
 * @throws KilnError INVALID_ARGUMENT
 */
export function choose_tile(native: Native, simd: string, wanted: string, budget_ms = kBudgetMs): string {
  const names = tile_names(native);
  if (wanted !== 'auto' && !names.includes(wanted)) {
    throw new KilnError('INVALID_ARGUMENT', `tile: '${wanted}'; allowed: auto, ${names.join(', ')}`);
  }
  let tile = wanted === 'auto' ? chosen.get(simd) : names.indexOf(wanted);
  if (tile === undefined) chosen.set(simd, (tile = fastest_tile(native, budget_ms)));
  native.exports.kiln_select_tile(tile);
  if (wanted === 'auto') last_choice = names[tile]!;
  return names[tile]!;
}
