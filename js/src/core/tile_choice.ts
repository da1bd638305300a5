// Times the register tiles of a fresh instance and takes the fastest: engines differ by a factor of two on one and the same
// kernel. Once a process and SIMD level; the choice never changes a bit of any result.
import { KilnError } from './errors.ts';
import type { Native } from './native.ts';

// Engines start with slow code and replace it, by a thread of their own, once a function has run for a while.
const kCalls = 600; // of a candidate: enough for that, and a tenth of a millisecond of optimised code
const kWaitMs = 4; // for that thread
const kMostWaits = 4;
const kOptimised = 2; // times faster than at first
const kRounds = 5;
const kMargin = 1.4; // by which another one must beat the default, which was chosen at leisure

const chosen = new Map<string, Promise<number>>(); // by SIMD level and the candidates' names
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

/** Milliseconds that a candidate takes for a million multiply-adds. */
function time_tile(native: Native, tile: number): number {
  const start = performance.now();
  const macs = native.exports.kiln_try_tile(tile, kCalls);
  return ((performance.now() - start) * 1e6) / macs;
}

// Only optimised code tells anything. Where the engine does not show that it has optimised the default, that stays: an error
// on this side costs less than to take a tile for fast because another one was still slow.
async function fastest_tile(native: Native): Promise<number> {
  const tiles = Array.from({ length: native.exports.kiln_num_tiles() }, (_, tile) => tile);
  const first = tiles.map((tile) => time_tile(native, tile));
  for (let wait = 0; ; ++wait) {
    if (wait === kMostWaits) return 0;
    await new Promise((resolve) => setTimeout(resolve, kWaitMs));
    if (time_tile(native, 0) * kOptimised < first[0]!) break;
  }
  const best = tiles.map(() => Infinity);
  for (let round = 0; round < kRounds; ++round)
    tiles.forEach((tile) => (best[tile] = Math.min(best[tile]!, time_tile(native, tile))));
  const least = Math.min(...best);
  return least * kMargin < best[0]! ? best.indexOf(least) : 0;
}

/**
 * Selects a tile in an instance that runs nothing yet.
 * @param simd the artefact's SIMD level
 * @param wanted a name, or 'auto' for the fastest
 * @returns its name
 * @throws KilnError INVALID_ARGUMENT
 */
export async function choose_tile(native: Native, simd: string, wanted: string): Promise<string> {
  const names = tile_names(native);
  if (wanted !== 'auto' && !names.includes(wanted)) {
    throw new KilnError('INVALID_ARGUMENT', `tile: '${wanted}'; allowed: auto, ${names.join(', ')}`);
  }
  const key = [simd, ...names].join();
  if (wanted === 'auto' && !chosen.has(key)) {
    const choice = fastest_tile(native);
    chosen.set(key, choice);
    choice.catch(() => chosen.delete(key));
  }
  const tile = wanted === 'auto' ? await chosen.get(key)! : names.indexOf(wanted);
  native.exports.kiln_select_tile(tile);
  if (wanted === 'auto') last_choice = names[tile]!;
  return names[tile]!;
}
