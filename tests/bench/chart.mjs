// Bars of GFLOP/s, a row an engine, a column a thread count, as an SVG that follows the reader's light or dark scheme.
import { kEngines } from './engines.mjs';
import { group_races, peak_for, threads_text } from './report.mjs';

const kMargin = 20;
const kLabelWidth = 142;
const kColumnWidth = 300;
const kColumnGap = 28;
const kTextRoom = 92; // right of the longest bar
const kBarHeight = 13;
const kRowHeight = 17;
const kGroupGap = 14;
const kModelHeight = 20;
const kHeadHeight = 74;
const kFootHeight = 56;

const kStyle = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328; paint-order: stroke; stroke: #ffffff; stroke-width: 3; }
  .page { fill: #ffffff; stroke: #d0d7de; }
  .title { font-size: 15px; font-weight: 600; }
  .model, .head { font-weight: 600; }
  .quiet { fill: #59636e; }
  .ours { fill: #bc4c00; }
  .rival { fill: #8c959f; }
  .native { fill: none; stroke: #6e7781; stroke-width: 1.5; }
  .peak { stroke: #0969da; stroke-dasharray: 4 3; }
  .peak-text { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; stroke: #0d1117; }
    .page { fill: #0d1117; stroke: #30363d; }
    .quiet { fill: #9198a1; }
    .ours { fill: #f0883e; }
    .rival { fill: #7d8590; }
    .native { stroke: #9198a1; }
    .peak { stroke: #58a6ff; }
    .peak-text { fill: #58a6ff; }
  }`;

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
const text = (x, y, content, attributes = '') => `<text x="${x}" y="${y}" ${attributes}>${escape(content)}</text>`;

function bar(x, y, width, engine) {
  const { is_ours, is_native } = kEngines[engine];
  const kind = is_native ? 'native' : is_ours ? 'ours' : 'rival';
  return `<rect class="${kind}" x="${x}" y="${y}" width="${Math.max(width, 1).toFixed(1)}" height="${kBarHeight}" rx="2"/>`;
}

const number = (value) => (value < 100 ? value.toFixed(1) : value.toFixed(0));

/** Groups to show: Chromium's without special flags if there are, else the first place's. */
function groups_of(races) {
  const groups = group_races(races);
  const first = groups.find(({ host, revectorize }) => host === 'chromium' && !revectorize) ?? groups[0];
  return groups.filter(({ place }) => place === first.place).sort((a, b) => a.threads - b.threads);
}

/** Rows of the chart: [{model, engine}] with the height at which each model's begin. */
function rows_of(races) {
  let y = kHeadHeight;
  return races.map(({ model, entries }) => {
    const names = Object.keys(kEngines).filter((name) => entries.some((e) => e.engine === name && !e.skipped));
    const group = { model, y, engines: names.map((engine, i) => ({ engine, y: y + kModelHeight + i * kRowHeight })) };
    y += kModelHeight + names.length * kRowHeight + kGroupGap;
    return { ...group, end: y };
  });
}

function column({ races, threads }, rows, x) {
  const entry_of = (model, engine) =>
    races.find((race) => race.model === model)?.entries.find((e) => e.engine === engine && e.threads === threads);
  const ran = races.flatMap(({ entries }) => entries.filter((e) => e.threads === threads && !e.skipped));
  const peak = peak_for('tilekiln', races[0].peaks[threads]);
  const scale = (kColumnWidth - kTextRoom) / Math.max(peak, ...ran.map(({ gflops }) => gflops));
  const bottom = rows.at(-1).end - kGroupGap + 4;
  const at = (x + peak * scale).toFixed(1);
  const bars = rows.flatMap(({ model, engines }) =>
    engines.map(({ engine, y }) => {
      const entry = entry_of(model, engine);
      if (!entry || entry.skipped) return text(x, y + 11, entry ? 'does not run' : 'not measured', 'class="quiet"');
      const width = entry.gflops * scale;
      const label = text(x + width + 5, y + 11, `${number(entry.gflops)} · ${number(entry.median_ms)} ms`);
      return bar(x, y, width, engine) + label;
    }),
  );
  return [
    text(x, kHeadHeight - 16, threads_text(threads), 'class="head"'),
    `<line class="peak" x1="${at}" y1="${kHeadHeight}" x2="${at}" y2="${bottom}"/>`,
    ...bars,
    text(at, bottom + 14, `peak ${peak.toFixed(0)}`, 'class="peak-text" text-anchor="middle"'),
  ];
}

/** @param {object[]} races as bench.mjs collects them, at least one */
export function speed_chart(races) {
  const groups = groups_of(races);
  const rows = rows_of(groups[0].races);
  const width = 2 * kMargin + kLabelWidth + groups.length * kColumnWidth + (groups.length - 1) * kColumnGap;
  const height = rows.at(-1).end - kGroupGap + kFootHeight;
  const labels = rows.flatMap(({ model, y, engines }) => [
    text(kMargin, y + 12, model, 'class="model"'),
    ...engines.map(({ engine, y: at }) => text(kMargin + 8, at + 11, kEngines[engine].title)),
  ]);
  const columns = groups.flatMap((group, i) =>
    column(group, rows, kMargin + kLabelWidth + i * (kColumnWidth + kColumnGap)),
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<style>${kStyle}\n</style>`,
    `<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="6"/>`,
    text(kMargin, 28, `GFLOP/s · milliseconds a run, ${groups[0].place}`, 'class="title"'),
    ...labels,
    ...columns,
    text(
      kMargin,
      height - 14,
      'Longer is better. Peak: fused multiply-adds of 128 bits, measured in the same run.',
      'class="quiet"',
    ),
    '</svg>',
    '',
  ].join('\n');
}
