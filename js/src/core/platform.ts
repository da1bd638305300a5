// What differs between Node and browsers, behind one interface: reading files, finding the wasm artefacts, starting workers.
import type { ThreadEvents, ThreadWorker } from '../worker/protocol.ts';

/** Supplied once by each entry point (index.node.ts, index.browser.ts). */
export interface Platform {
  readonly name: 'node' | 'browser';
  /** Reads a local path; absent in browsers, where every string is a URL. */
  readonly read_file?: (path: string) => Promise<Uint8Array<ArrayBuffer>>;
  /** Bytes of (or a response with) an artefact that lies beside the module; `name` like "kiln-simd.wasm". */
  readonly open_artefact: (name: string) => Promise<Response | Uint8Array<ArrayBuffer>>;
  /** Where that artefact lies, for error messages. */
  readonly artefact_url: (name: string) => string;
  /** Threads that the machine runs at once. */
  readonly num_cores: () => number;
  readonly can_start_workers: () => boolean;
  /** Starts a pool's worker from its script beside the module; it keeps no process alive. May throw. */
  readonly start_worker: (events: ThreadEvents) => ThreadWorker;
}

let current: Platform | undefined;

/** Called by the entry points only. */
export function set_platform(platform: Platform): void {
  current = platform;
}

/** The platform of the entry point that was imported. */
export function platform(): Platform {
  if (!current) throw new Error('tilekiln: import the package, not its inner modules');
  return current;
}
