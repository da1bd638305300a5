// The results of races as text: tables for the terminal and Markdown tables.
import { kEngines } from './engines.mjs';

/** Threads in words, as headings want it. */
export const threads_text = (threads) =>
  threads === 1 ? 'one thread' : threads === 2 ? 'two threads' : `${threads} threads`;

/** GFLOP/s that an engine could reach at most, of what peak_of() measured; null if that kind was not. */
export function peak_for(engine, { relaxed_madd, muladd, native }) {
  if (kEngines[engine].is_native) return native && native.gflops;
  return engine === 'tilekiln-simd' ? muladd : (relaxed_madd ?? muladd);
}

const ms_text = (ms) => ms.toFixed(ms < 100 ? 1 : 0);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e6 ? 2 : 1)} MB`;
const ratio_text = ({ ratio, quartiles }) =>
  `${ratio.toFixed(2)} x [${quartiles.map((quartile) => quartile.toFixed(2)).join(' to ')}]`;

/** Columns padded to their widest cell. */
export function text_table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows
    .map((row) =>
      row
        .map((cell, c) => cell.padEnd(widths[c]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function markdown_table(rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(rows[0]), line(rows[0].map(() => '---')), ...rows.slice(1).map(line)].join('\n');
}

/** One race for the terminal. */
export function race_text(race) {
  const lines = [];
  const rows = [
    ['engine', 'threads', 'median', 'p90', 'GFLOP/s', 'of peak', 'first', 'load', 'memory', 'download', 'differs'],
  ];
  for (const entry of race.entries) {
    const { engine, threads } = entry;
    const { title } = kEngines[engine];
    if (entry.skipped) {
      lines.push(`${title}, ${threads_text(threads)}: skipped: ${entry.skipped}`);
      continue;
    }
    const peak = peak_for(engine, race.peaks[threads]);
    rows.push([
      title,
      String(threads),
      `${ms_text(entry.median_ms)} ms`,
      `${ms_text(entry.p90_ms)} ms`,
      entry.gflops.toFixed(1),
      peak ? `${((100 * entry.gflops) / peak).toFixed(0)} %` : '',
      `${ms_text(entry.first_ms)} ms`,
      `${ms_text(entry.load_ms)} ms`,
      kEngines[engine].is_native ? '' : megabytes(entry.wasm_bytes),
      entry.download ? `${megabytes(entry.download.gzip)} gzip` : '',
      entry.difference.toExponential(1),
    ]);
  }
  const comparisons = race.entries
    .filter((entry) => entry.faster_than)
    .flatMap(({ engine, threads, faster_than, speed_up }) => [
      ...Object.entries(faster_than).map(
        ([rival, times]) =>
          `${kEngines[engine].title} against ${kEngines[rival].title}, ${threads_text(threads)}: ${ratio_text(times)}`,
      ),
      ...(speed_up ? [`${kEngines[engine].title}, ${threads_text(threads)} against one: ${ratio_text(speed_up)}`] : []),
    ]);
  return [race_title(race), text_table(rows), ...lines, ...comparisons].join('\n');
}

/** "51.2 GFLOP/s in wasm (128 bits, fused), 50.1 unfused, 102.4 in native code (256 bits)". */
function peak_text({ relaxed_madd, muladd, native }) {
  const parts = [
    ...(relaxed_madd === null ? [] : [`${relaxed_madd.toFixed(1)} GFLOP/s in wasm (128 bits, fused)`]),
    `${muladd.toFixed(1)} unfused`,
    ...(native ? [`${native.gflops.toFixed(1)} in native code (${native.bits} bits)`] : []),
  ];
  return parts.join(', ');
}

function race_title(race) {
  const peaks = Object.entries(race.peaks).map(
    ([threads, peak]) => `peak of ${threads_text(Number(threads))}: ${peak_text(peak)}`,
  );
  return [`${race.model} (${race.gflop.toFixed(2)} GFLOP) in ${place_text(race)}`, ...peaks].join('\n');
}

/** "Chromium 156.0.1" or "Node 24.1.0, revectorized". */
export const place_text = ({ host_version, revectorize }) =>
  `${host_version}${revectorize ? ', V8 revectorizing' : ''}`;

/** Races by place and thread count: [{place, threads, races}]; a race is in as many as it has thread counts. */
export function group_races(races) {
  const groups = new Map();
  for (const race of races) {
    for (const threads of new Set(race.entries.map((entry) => entry.threads))) {
      const place = place_text(race);
      const key = `${place}\n${threads}`;
      if (!groups.has(key))
        groups.set(key, { place, threads, host: race.host, revectorize: race.revectorize, races: [] });
      groups.get(key).races.push(race);
    }
  }
  return [...groups.values()];
}

const engines_of = (races) =>
  Object.keys(kEngines).filter((name) => races.some((r) => r.entries.some((e) => e.engine === name)));

/** Speed table of a group: a row a model, a column an engine; the rival's ratio to the first of ours is in brackets. */
function speed_table({ races, threads }) {
  const engines = engines_of(races);
  const rows = [['', ...engines.map((engine) => kEngines[engine].title)]];
  for (const race of races) {
    const at = (engine) => race.entries.find((entry) => entry.engine === engine && entry.threads === threads);
    const ours = race.entries.find((entry) => entry.faster_than && entry.threads === threads);
    rows.push([
      race.model,
      ...engines.map((engine) => {
        const entry = at(engine);
        if (!entry || entry.skipped) return '–';
        const times = ours?.faster_than[engine];
        const speed = `${ms_text(entry.median_ms)} ms, ${entry.gflops.toFixed(0)} GFLOP/s`;
        if (!times) return `${entry === ours ? '**' : ''}${speed}${entry === ours ? '**' : ''}`;
        const [low, high] = times.quartiles.map((quartile) => quartile.toFixed(2));
        return `${speed}; ${times.ratio.toFixed(2)} × (${low}–${high})`;
      }),
    ]);
  }
  return markdown_table(rows);
}

/** Load, first run, memory, download of a group. */
function start_table({ races, threads }) {
  const engines = engines_of(races).filter((engine) => !kEngines[engine].is_native);
  const rows = [['', 'engine', 'load', 'first run', 'wasm memory', 'download, gzip', 'differs from onnxruntime by']];
  for (const race of races) {
    for (const engine of engines) {
      const entry = race.entries.find((e) => e.engine === engine && e.threads === threads);
      if (!entry || entry.skipped) continue;
      rows.push([
        race.model,
        kEngines[engine].title,
        `${ms_text(entry.load_ms)} ms`,
        `${ms_text(entry.first_ms)} ms`,
        megabytes(entry.wasm_bytes),
        entry.download ? megabytes(entry.download.gzip) : '–',
        entry.difference.toExponential(0),
      ]);
    }
  }
  return markdown_table(rows);
}

/** All races of a run as Markdown. */
export function races_report({ machine, versions, races }) {
  const parts = [`${machine}. ${versions_text(versions)}`, '![GFLOP/s of each engine and model](performance.svg)'];
  for (const group of group_races(races)) {
    const [{ peaks, rounds }] = group.races;
    parts.push(
      `### ${group.place}, ${threads_text(group.threads)}`,
      `Peak: ${peak_text(peaks[group.threads])}. ${rounds} rounds.`,
      speed_table(group),
    );
  }
  for (const group of group_races(races).filter(({ threads, revectorize }) => threads === 1 && !revectorize)) {
    parts.push(`### Start, memory and download in ${group.place}, ${threads_text(group.threads)}`, start_table(group));
  }
  return parts.join('\n\n');
}

const kStepsInDocs = 15;

/** All layer measurements of a run as Markdown: the kernels, and the steps that take longest. */
export function layers_report({ layers }) {
  const parts = layers.flatMap((result) => {
    const { kernels, steps } = layer_rows(result, kStepsInDocs);
    const { model, engine, threads, peak } = result;
    return [
      `### ${model}, ${kEngines[engine].title}, ${place_text(result)}, ${threads_text(threads)}`,
      `Peak ${peak.toFixed(1)} GFLOP/s; ${layer_summary(result)}.`,
      markdown_table(kernels),
      `The ${Math.min(kStepsInDocs, result.steps.length)} longest of ${result.steps.length} steps:`,
      markdown_table(steps),
    ];
  });
  return parts.join('\n\n');
}

const versions_text = (versions) =>
  `Versions: ${Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')}.`;

const is_convolution = ({ op, macs }) => macs > 0 && /Conv|Gemm|MatMul/.test(op);

/** Steps by kernel: [{kernel, count, ms, macs}], slowest first. */
export function by_kernel(steps) {
  const kernels = new Map();
  for (const { kernel, ms, macs } of steps) {
    const sum = kernels.get(kernel) ?? { kernel, count: 0, ms: 0, macs: 0 };
    kernels.set(kernel, { kernel, count: sum.count + 1, ms: sum.ms + ms, macs: sum.macs + macs });
  }
  return [...kernels.values()].sort((a, b) => b.ms - a.ms);
}

/** Rows of the two tables of --layers: by kernel, by step. `peak` is in GFLOP/s. */
export function layer_rows({ steps, peak }, limit = Infinity) {
  const total = steps.reduce((sum, { ms }) => sum + ms, 0);
  const rate = (macs, ms) => {
    const gflops = (2 * macs) / ms / 1e6;
    return macs === 0 ? ['', ''] : [gflops.toFixed(1), `${((100 * gflops) / peak).toFixed(0)} %`];
  };
  const share = (ms) => `${((100 * ms) / total).toFixed(1)} %`;
  return {
    kernels: [
      ['kernel', 'steps', 'ms', 'of time', 'GFLOP/s', 'of peak'],
      ...by_kernel(steps).map(({ kernel, count, ms, macs }) => [
        kernel,
        String(count),
        ms.toFixed(3),
        share(ms),
        ...rate(macs, ms),
      ]),
    ],
    steps: [
      ['step', 'kernel', 'shape', 'ms', 'of time', 'GFLOP/s', 'of peak'],
      ...steps
        .slice(0, limit)
        .map(({ name, kernel, shape, ms, macs }) => [name, kernel, shape, ms.toFixed(3), share(ms), ...rate(macs, ms)]),
    ],
  };
}

/** One sentence: what the convolutions and products reach, and what the rest takes. */
export function layer_summary({ steps, peak }) {
  const sum = (list, key) => list.reduce((total, step) => total + step[key], 0);
  const products = steps.filter(is_convolution);
  const ms = sum(products, 'ms');
  const total = sum(steps, 'ms');
  const gflops = (2 * sum(products, 'macs')) / ms / 1e6;
  return (
    `convolutions and products ${ms.toFixed(2)} of ${total.toFixed(2)} ms, ${gflops.toFixed(1)} GFLOP/s, ` +
    `${((100 * gflops) / peak).toFixed(0)} % of the peak; everything else ${((100 * (total - ms)) / total).toFixed(1)} % of the time`
  );
}
