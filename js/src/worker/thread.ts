// A worker of a pool: one more instance of the runtime over the loading thread's memory, in which it stays.
import type { ThreadNews, ThreadStart } from './protocol.ts';

interface ThreadExports {
  readonly __stack_pointer: WebAssembly.Global;
  __wasm_init_tls(tls: number): void;
  kiln_thread_work(thread: number): void;
  kiln_thread_died(thread: number): void;
}

/** Takes tiles until the pool is stopped, and says so before; a trap is told to the pool first, since a run may wait for it. */
export function run_thread(
  { module, memory, thread, stack, tls }: ThreadStart,
  tell: (news: ThreadNews) => void,
): void {
  let exports: ThreadExports | undefined;
  try {
    const instance = new WebAssembly.Instance(module, { env: { memory } });
    exports = instance.exports as unknown as ThreadExports;
    exports.__stack_pointer.value = stack;
    exports.__wasm_init_tls(tls);
    tell({ state: 'ready' });
    exports.kiln_thread_work(thread);
  } catch (error) {
    if (exports) {
      exports.__stack_pointer.value = stack; // it may have run off
      exports.kiln_thread_died(thread);
    }
    tell({ state: 'failed', message: (error as Error).message });
  }
}
