// One race: every engine at every thread count on one model in one host, in one interleaved run.
import { Skipped, kEngines } from './engines.mjs';
import { Silent } from './hosts.mjs';
import { native_peak } from './native_peak.mjs';
import { permute } from './permute.mjs';
import { median, quantile, race, speed_ratio } from './race.mjs';

const kTurnMs = 60; // timed runs of a turn last at least this long
const kWarmUpMs = 2000; // until V8 has put its optimizing compiler's code in place of the first
const kPauseMs = 40; // between turns: workers of the engine before, which spin for a while, have gone to sleep

const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const label_of = (engine, threads) => `${kEngines[engine].title}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;

/**
 * An engine's output in ONNX's order of axes.
 * @param channels_last how channels-last engines store it, {dims, order}, see lower_channels_last()
 */
export function in_onnx_order(output, engine, channels_last) {
  if (!kEngines[engine].is_channels_last || !channels_last) return output;
  const { dims, order } = channels_last;
  const back = dims.map((_, axis) => order.indexOf(axis));
  return permute(
    output,
    order.map((axis) => dims[axis]),
    back,
  );
}

/** A rival whose process never answers gets another: onnxruntime-web's threads do not always start in Node. */
async function open(engine, threads, model, host, native_host, attempts = kEngines[engine].is_ours ? 1 : 3) {
  const at = kEngines[engine].is_native ? native_host : host;
  const session = await at.open(label_of(engine, threads));
  try {
    const names = Object.entries(model.files).map(([what, path]) => [what, at.path_of(path)]);
    const job = { engine, files: Object.fromEntries(names), shape: model.shape, threads };
    return { engine, threads, session, ...(await session.call('open', job)) };
  } catch (error) {
    await session.close();
    if (error instanceof Skipped) return { engine, threads, skipped: error.message };
    if (error instanceof Silent && attempts > 1) return open(engine, threads, model, host, native_host, attempts - 1);
    if (kEngines[engine].is_ours) throw error;
    return { engine, threads, skipped: `it fails: ${error.message.split('\n')[0]}` };
  }
}

/**
 * GFLOP/s of the peak loops on `threads` threads at once, each in a session of its own.
 * @returns {Promise<{muladd: number, relaxed_madd: number | null, native: {bits: number, gflops: number} | null}>}
 */
export async function peak_of(host, threads, folder) {
  const sessions = [];
  try {
    for (let i = 0; i < threads; ++i) sessions.push(await host.open('peak loop'));
    const share = threads === 1 ? 0 : 0.5; // the fastest moments may be those when the others are done
    const peaks = await Promise.all(sessions.map((session) => session.call('peak', share)));
    const sum = (key) => peaks.reduce((total, peak) => total + peak[key], 0);
    const { relaxed_madd } = peaks[0];
    return {
      muladd: sum('muladd'),
      relaxed_madd: relaxed_madd === null ? null : sum('relaxed_madd'),
      native: await native_peak(folder, threads),
    };
  } finally {
    for (const session of sessions) await session.close();
  }
}

/** Runs for a while; then all threads must be there. */
async function warm_up(session, engine, threads) {
  await session.call('turn', kWarmUpMs);
  const running = await session.call('threads');
  if (running !== undefined && running !== threads)
    throw new Error(`${label_of(engine, threads)}: it runs on ${running}`);
}

/** Peaks by thread count. */
async function peaks_of(host, { threads, folder }) {
  const entries = [];
  for (const count of threads) entries.push([count, await peak_of(host, count, folder)]);
  return Object.fromEntries(entries);
}

/** Of two measurements of the same peaks the larger ones. */
function larger(a, b) {
  const pick = (key) => (a[key] === null ? null : Math.max(a[key], b[key]));
  const native = a.native && (a.native.gflops > b.native.gflops ? a.native : b.native);
  return { muladd: pick('muladd'), relaxed_madd: pick('relaxed_madd'), native };
}

/**
 * @param model prepare_model()'s result
 * @param host where engines run; native ones run in `native_host`
 * @param {{engines: string[], threads: number[], rounds: number, tolerance: number, folder: string, progress?: (text: string) =>
 *   void}} options `folder` is for temporary files
 * @returns {Promise<{peaks: Record<number, object>, entries: object[]}>} `peaks` by thread count, see peak_of(); an entry an engine and thread count: {engine, threads, skipped} or
 *   {engine, threads, load_ms, first_ms, median_ms, p90_ms, min_ms, gflops, difference, wasm_bytes, memory, download,
 *   faster_than: {[engine]: {ratio, quartiles}} for ours, speed_up: the same against one thread}
 */
export async function run_race(model, host, native_host, options) {
  const before = await peaks_of(host, options);
  const entries = [];
  try {
    for (const threads of options.threads) {
      for (const engine of options.engines) {
        options.progress?.(`loading ${label_of(engine, threads)}`);
        entries.push(await open(engine, threads, model, host, native_host));
      }
    }
    const running = entries.filter((entry) => entry.session);
    const results = await race(
      running.map(({ engine, threads, session, output }) => ({
        label: label_of(engine, threads),
        output: in_onnx_order(output, engine, model.channels_last),
        warm_up: () => warm_up(session, engine, threads),
        turn: async () => {
          await rest(kPauseMs);
          return session.call('turn', kTurnMs);
        },
      })),
      model.reference,
      options,
    );
    running.forEach((entry, i) => Object.assign(entry, results[i]));
  } finally {
    for (const { session } of entries) await session?.close();
  }
  const after = await peaks_of(host, options);
  return {
    peaks: Object.fromEntries(Object.keys(before).map((threads) => [threads, larger(before[threads], after[threads])])),
    entries: entries.map((entry) => summary(entry, entries, model.gflop)),
  };
}

function summary({ session, output, samples, ...entry }, entries, gflop) {
  if (!samples) return entry;
  const median_ms = median(samples);
  const result = {
    ...entry,
    median_ms,
    p90_ms: quantile(samples, 0.9),
    min_ms: Math.min(...samples),
    gflops: (gflop / median_ms) * 1000,
  };
  if (!kEngines[entry.engine].is_ours) return result;
  const rivals = entries.filter(
    (other) => other.samples && !kEngines[other.engine].is_ours && other.threads === entry.threads,
  );
  const alone = entries.find((other) => other.samples && other.engine === entry.engine && other.threads === 1);
  return {
    ...result,
    faster_than: Object.fromEntries(rivals.map((rival) => [rival.engine, speed_ratio(samples, rival.samples)])),
    ...(entry.threads > 1 && alone ? { speed_up: speed_ratio(samples, alone.samples) } : {}),
  };
}

/** The steps of `engine` on a model, slowest first, each with its shape if known; see layers.mjs. */
export async function run_layers(engine, threads, model, host, rounds) {
  const entry = await open(engine, threads, model, host, host);
  if (entry.skipped) throw new Skipped(entry.skipped);
  try {
    await warm_up(entry.session, engine, threads);
    const steps = await entry.session.call('layers', rounds);
    return steps
      .map((step) => ({ ...step, shape: model.shapes.get(step.name) ?? '', gflops: (2 * step.macs) / step.ms / 1e6 }))
      .sort((a, b) => b.ms - a.ms);
  } finally {
    await entry.session.close();
  }
}
