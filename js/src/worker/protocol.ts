// What the loading thread and a worker of its pool tell each other.

/** To a worker, once: the runtime, and the place in its memory that is the worker's own. */
export interface ThreadStart {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  /** Number of the worker in the pool, from 1. */
  readonly thread: number;
  /** Where its stack begins, growing down, and its thread-local storage. */
  readonly stack: number;
  readonly tls: number;
}

/** From a worker: it takes tiles from now on, or it cannot any more. */
export type ThreadNews = { readonly state: 'ready' } | { readonly state: 'failed'; readonly message: string };

/** A worker as the platform starts it. */
export interface ThreadWorker {
  readonly post: (start: ThreadStart) => void;
  /** Ends it at once, whatever it does. */
  readonly terminate: () => void;
}

/** How a platform reports on a worker that it has started. */
export interface ThreadEvents {
  readonly on_news: (news: ThreadNews) => void;
  /** It could not be started, or ended without a word. */
  readonly on_failure: (message: string) => void;
}
