// One engine in a process or page of its own: loads it, runs it, times it. The same code in Node and in a page.
import { kEngines } from './engines.mjs';
import { layer_times } from './layers.mjs';
import { measure_peak } from './peak.mjs';
import { median } from './race.mjs';

/** Sees every wasm memory made from now on; the function tells their bytes. */
function watch_memories() {
  const seen = new Set();
  const { Memory, Instance } = WebAssembly;
  const note = (instance) => {
    for (const value of Object.values(instance.exports)) if (value instanceof Memory) seen.add(value);
    return instance;
  };
  WebAssembly.Memory = new Proxy(Memory, {
    construct(target, args) {
      const memory = new target(...args);
      seen.add(memory);
      return memory;
    },
  });
  WebAssembly.Instance = new Proxy(Instance, { construct: (target, args) => note(new target(...args)) });
  for (const name of ['instantiate', 'instantiateStreaming']) {
    const real = WebAssembly[name];
    WebAssembly[name] = async (...args) => {
      const result = await real.apply(WebAssembly, args);
      note(result.instance ?? result);
      return result;
    };
  }
  return () => [...seen].reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
}

/** What the bench asks of a session, one request at a time. */
export class Session {
  #io;
  #engine;
  #input;
  #wasm_bytes = watch_memories();

  constructor(io) {
    this.#io = io;
  }

  /**
   * Loads the engine and runs it once.
   * @param {{engine: string, files: object, shape: number[], threads: number}} job `files` are names for io.bytes()
   * @returns {Promise<{load_ms: number, first_ms: number, wasm_bytes: number, memory?: object, output: Float32Array}>}
   *   `load_ms` from the model's bytes to ready, the engine's own wasm included
   */
  async open({ engine, files, shape, threads }) {
    this.#input = new Float32Array((await this.#io.bytes(files.input)).buffer);
    this.#engine = await kEngines[engine].load({ io: this.#io, files, shape, threads });
    const start = performance.now();
    const output = Float32Array.from(await this.#engine.run(this.#input));
    const first_ms = performance.now() - start;
    const memory = this.#engine.memory?.();
    return { load_ms: this.#engine.load_ms, first_ms, wasm_bytes: this.#wasm_bytes(), memory, output };
  }

  /** A run untimed, which fills caches and wakes workers, then runs for `at_least_ms`; the median of their milliseconds. */
  async turn(at_least_ms) {
    await this.#engine.run(this.#input);
    const samples = [];
    const begin = performance.now();
    do {
      const start = performance.now();
      await this.#engine.run(this.#input);
      samples.push(performance.now() - start);
    } while (performance.now() - begin < at_least_ms);
    return median(samples);
  }

  /** Threads that runs have now, if the engine tells. */
  async threads() {
    return this.#engine.threads?.();
  }

  /** Each step of a tilekiln model and its median time; see layers.mjs. */
  async layers(rounds) {
    return layer_times(this.#engine.model, rounds);
  }

  /** GFLOP/s that one thread of this engine reaches without memory; see peak.mjs. */
  async peak(share) {
    return measure_peak(share);
  }
}
