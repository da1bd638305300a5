// The threads of a model: how many, the workers that are some of them, and what is said where there are fewer.
import { KilnError } from './errors.ts';
import type { Native } from './native.ts';
import { is_whole, type OptionTable } from './options.ts';
import { platform } from './platform.ts';
import type { ThreadWorker } from '../worker/protocol.ts';

/** Threads of a run: a number, or 'auto' for as many as the machine runs at once, at most 8. */
export type ThreadCount = number | 'auto';

export const kMostThreads = 64;
const kMostAutomatic = 8; // convolutions have work space for as many

export const kThreads: OptionTable[string] = [
  (v) => v === 'auto' || is_whole(1, kMostThreads)(v),
  `'auto', whole numbers from 1 to ${kMostThreads}`,
];

// (module (memory 1 1 shared) (func i32.const 0 i32.const 0 memory.atomic.notify drop))
const kThreadsProbe = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 5, 4, 1, 3, 1, 1, 10, 13, 1, 11, 0, 65, 0, 65, 0, 254, 0,
  2, 0, 26, 11,
];

const kIsolation =
  "the page is not cross-origin isolated: serve it with the headers 'Cross-Origin-Opener-Policy: same-origin' and " +
  "'Cross-Origin-Embedder-Policy: require-corp' (or 'credentialless')";

/** Why a run has one thread here, with the remedy where there is one; undefined if there can be more. */
export function single_thread_reason(): string | undefined {
  if (typeof WebAssembly !== 'object' || !WebAssembly.validate(new Uint8Array(kThreadsProbe)))
    return 'this JavaScript engine has no WebAssembly threads; needed: Chrome 74, Firefox 79, Safari 14.1 or newer';
  if (platform().name === 'browser' && globalThis.crossOriginIsolated === false) return kIsolation;
  if (typeof SharedArrayBuffer === 'undefined') return 'this JavaScript engine has no SharedArrayBuffer';
  if (!platform().can_start_workers()) return 'workers cannot be started from here';
  return undefined;
}

/** Threads that 'auto' means here. */
export function automatic_threads(): number {
  return single_thread_reason() ? 1 : Math.max(1, Math.min(platform().num_cores(), kMostAutomatic));
}

let has_hinted = false;

/** The threads to load a model with, and a note where that is fewer than was asked for. */
export function wanted_threads(wanted: ThreadCount): { readonly threads: number; readonly note?: string } {
  if (wanted === 1) return { threads: 1 };
  const reason = single_thread_reason();
  if (reason === undefined) return { threads: wanted === 'auto' ? automatic_threads() : wanted };
  const note = `one thread: ${reason}`;
  if (platform().name === 'browser' && !has_hinted) console.info(`tilekiln: ${note}`);
  has_hinted = true;
  return { threads: 1, note };
}

/** Whether this thread may block: a browser's main thread may not. */
function may_sleep(): boolean {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1, 0);
    return true;
  } catch {
    return false;
  }
}

const kPageBytes = 65536;
const kFirstPages = 32; // as the artefacts declare it
const kMostPages = [65536, 32768, 16384, 8192]; // 4 GB down to 512 MB: some systems reserve all of it

/** Memory for a threaded artefact, as large as the system allows. */
export function shared_memory(): WebAssembly.Memory {
  for (const maximum of kMostPages) {
    try {
      return new WebAssembly.Memory({ initial: kFirstPages, maximum, shared: true });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }
  const least = (kMostPages.at(-1)! * kPageBytes) / 2 ** 20;
  throw new KilnError('OUT_OF_MEMORY', `no address space for ${least} MB of shared memory`);
}

/** The workers of one model. They start at once, and take tiles after {@link ThreadTeam.attach}. */
export class ThreadTeam {
  /** A sentence for each worker that is not there. */
  readonly notes: string[] = [];
  readonly threads: number;
  readonly #workers: (ThreadWorker | undefined)[] = []; // of thread i + 1
  readonly #settled: Promise<void>;
  #native: Native | undefined;
  #is_stopped = false;

  /** @param threads with the loading thread among them */
  constructor(threads: number) {
    this.threads = threads;
    const starts = Array.from({ length: threads - 1 }, (_, i) => this.#start(i + 1));
    this.#settled = Promise.all(starts).then(() => {});
  }

  // Settles when the worker takes tiles or is lost.
  #start(thread: number): Promise<void> {
    return new Promise((resolve) => {
      const lost = (message: string): void => {
        resolve();
        if (this.#is_stopped || !this.#workers[thread - 1]) return;
        this.#workers[thread - 1] = undefined;
        this.#native?.exports.kiln_thread_died!(thread);
        this.notes.push(`worker thread ${thread} of ${this.threads} is missing: ${message}`);
      };
      try {
        this.#workers[thread - 1] = platform().start_worker({
          on_news: (news) => (news.state === 'ready' ? resolve() : lost(news.message)),
          on_failure: lost,
        });
      } catch (error) {
        this.notes.push(`worker thread ${thread} of ${this.threads} could not be started: ${(error as Error).message}`);
        resolve();
      }
    });
  }

  /**
   * Sets up the pool in a fresh instance and lets the workers in.
   * @throws KilnError OUT_OF_MEMORY
   */
  attach(native: Native, module: WebAssembly.Module, memory: WebAssembly.Memory): void {
    const { exports } = native;
    native.check(exports.kiln_threads_start!(this.threads, platform().num_cores(), may_sleep() ? 1 : 0));
    this.#native = native;
    this.#workers.forEach((worker, index) => {
      const thread = index + 1;
      const stack = exports.kiln_thread_stack!(thread) >>> 0;
      const tls = exports.kiln_thread_tls!(thread) >>> 0;
      worker?.post({ module, memory, thread, stack, tls });
    });
  }

  /** Waits until every worker takes tiles or is lost, but not for long: those that are late join later. */
  async ready(limit_ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, limit_ms)));
    await Promise.race([this.#settled, limit]);
    clearTimeout(timer);
  }

  /** Ends the workers; no run may be under way. */
  stop(): void {
    if (this.#is_stopped) return;
    this.#is_stopped = true;
    try {
      this.#native?.exports.kiln_threads_stop!();
    } catch {
      // an instance that has trapped may do so again: the workers end either way
    }
    for (const worker of this.#workers) worker?.terminate();
    this.#native = undefined;
  }
}
