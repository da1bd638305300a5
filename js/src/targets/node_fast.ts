// Node's engine made faster: V8 flags for relaxed SIMD (Node 20) and for 256-bit vectors (Node 24 and newer), used only once
// their results have been checked.
import v8 from 'node:v8';
import { artefact_module, capabilities, instantiate, type SimdLevel } from '../core/artefact.ts';
import { Native } from '../core/native.ts';
import { platform, set_platform, type Platform } from '../core/platform.ts';
import { choose_tile, forget_tiles } from '../core/tile_choice.ts';

/** What {@link enable_node_fast} did. */
export interface FastStatus {
  /** The V8 flags that are set now. */
  readonly flags: readonly string[];
  /** A sentence for each flag that is not, or no longer. */
  readonly notes: readonly string[];
}

interface Flag {
  readonly name: string;
  readonly gain: string;
  /** Of V8, between which the flag is known and off by default. */
  readonly from: number;
  readonly before: number;
}

const kFlags: readonly Flag[] = [
  { name: 'experimental-wasm-relaxed-simd', gain: 'relaxed SIMD', from: 10.2, before: 11.4 },
  { name: 'experimental-wasm-revectorize', gain: '256-bit vectors', from: 13, before: Infinity },
];
const kCheckMs = 40; // V8 replaces its first code by optimised code meanwhile

const v8_version = (): number => Number.parseFloat(process.versions.v8); // minor versions have one digit

let generation = 0;

// A custom section of 5 bytes. V8 keeps code by the module's bytes, also code made before a flag was set: other bytes, other
// code.
function marked(wasm: Uint8Array<ArrayBuffer>, mark: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(wasm.length + 5);
  bytes.set(wasm);
  bytes.set([0, 3, 1, 0x6b, mark & 0x7f], wasm.length); // section 0, 3 bytes: name "k" and the mark
  return bytes;
}

/** The same artefacts as bytes that no code exists for. */
function fresh_artefacts(base: Platform): Platform {
  const mark = ++generation;
  return {
    ...base,
    artefact_url: (name) => `${base.artefact_url(name)}#${mark}`,
    open_artefact: async (name) => {
      const wasm = await base.open_artefact(name);
      return wasm instanceof Uint8Array && name.startsWith('kiln-') ? marked(wasm, mark) : wasm;
    },
  };
}

/** The hash of an artefact's own products (0: it failed), the same for as long as the engine may need to optimise it. */
async function self_check(simd: SimdLevel): Promise<number> {
  const native = new Native(await instantiate(await artefact_module(`kiln-${simd}.wasm`)));
  await choose_tile(native, simd, 'auto'); // the tiles are optimised by now
  const first = native.exports.kiln_self_check() >>> 0;
  const end = performance.now() + kCheckMs;
  while (performance.now() < end) {
    if (native.exports.kiln_self_check() >>> 0 !== first) return 0;
  }
  return first;
}

async function try_flag(flag: Flag, base: Platform): Promise<string | undefined> {
  const before = capabilities();
  let reference: number;
  try {
    reference = await self_check(before.relaxed ? 'relaxed' : 'simd');
  } catch (error) {
    return `no ${flag.gain}: the check of its results cannot run: ${(error as Error).message}`;
  }
  v8.setFlagsFromString(`--${flag.name}`);
  let problem: string | undefined;
  try {
    set_platform(fresh_artefacts(base));
    forget_tiles();
    const after = capabilities();
    const hash = await self_check(after.relaxed ? 'relaxed' : 'simd');
    const same_artefact = before.relaxed === after.relaxed;
    if (flag.gain === 'relaxed SIMD' && !after.relaxed) problem = 'the engine does not take it';
    else if (hash === 0 || (same_artefact && hash !== reference)) problem = 'its results are wrong in this engine';
  } catch (error) {
    problem = (error as Error).message;
  }
  if (problem === undefined) return undefined;
  v8.setFlagsFromString(`--no-${flag.name}`);
  set_platform(fresh_artefacts(base));
  forget_tiles();
  return `no ${flag.gain}: ${problem}`;
}

let enabled: Promise<FastStatus> | undefined;

/**
 * Sets the V8 flags that make models run faster here, after a check that they do not change products and activations. They hold
 * for the whole process.
 */
export function enable_node_fast(): Promise<FastStatus> {
  enabled ??= (async () => {
    const base = platform();
    const version = v8_version();
    const flags: string[] = [];
    const notes: string[] = [];
    for (const flag of kFlags) {
      if (version >= flag.before) continue; // on by default
      if (version < flag.from) {
        notes.push(`no ${flag.gain}: V8 ${process.versions.v8} is too old`);
        continue;
      }
      const problem = await try_flag(flag, base);
      if (problem === undefined) flags.push(`--${flag.name}`);
      else notes.push(problem);
    }
    return { flags, notes };
  })();
  return enabled;
}
