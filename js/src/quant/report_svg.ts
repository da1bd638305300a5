// The quantisation report as a plot: a bar of SQNR for each layer, as an SVG that follows the reader's light or dark scheme.
import { worst_layers, type LayerReport, type QuantizationReport } from './report.ts';

const kLeft = 62;
const kRight = 20;
const kTop = 78;
const kNamed = 3;
const kNameHeight = 16;
const kBottom = 58 + kNamed * kNameHeight;
const kPlotHeight = 260;
const kLeastPlotWidth = 620;
const kMostStep = 24; // from bar to bar
const kLeastStep = 6;
const kTickDb = 10;
const kLeastTopDb = 50;

const kStyle = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d0d7de; }
  .title { font-size: 15px; font-weight: 600; }
  .quiet { fill: #59636e; }
  .grid { stroke: #d0d7de; }
  .axis { stroke: #59636e; }
  .int8 { fill: #0969da; }
  .float { fill: #bf8700; }
  .mark { fill: #cf222e; stroke: #ffffff; }
  .equal { fill-opacity: 0.45; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #0d1117; stroke: #30363d; }
    .quiet { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .axis { stroke: #9198a1; }
    .int8 { fill: #58a6ff; }
    .float { fill: #d29922; }
    .mark { fill: #ff7b72; stroke: #0d1117; }
  }`;

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
const text = (x: number, y: number, content: string, attributes = ''): string =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${escape(content)}</text>`;
const line = (x1: number, y1: number, x2: number, y2: number, kind: string): string =>
  `<line class="${kind}" x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}"/>`;
const legend_item = (x: number, y: number, kind: string, content: string): string =>
  `<rect class="${kind}" x="${x}" y="${y - 10}" width="11" height="11" rx="2"/>${text(x + 17, y, content)}`;

const db_text = (db: number): string => (db === Infinity ? 'equal to float' : `${db.toFixed(1)} dB`);

function title_of({ name, op, precision, reason, sqnr_db, cosine }: LayerReport): string {
  const why = reason ? ` (${reason})` : '';
  const likeness = sqnr_db === undefined ? 'not compared' : `${db_text(sqnr_db)}, cosine ${cosine!.toFixed(5)}`;
  return `${name} ${op}, ${precision}${why}: ${likeness}`;
}

/**
 * A quantisation report as an SVG: the SQNR of each layer's output against float on the calibration set, int8 and float
 * layers in two colours, the worst ones named.
 * @example
 * await compile('resnet20.onnx', { precision: 'int8', calibration: pictures, quantization: {
 *   onReport: (report) => (document.body.innerHTML = quantizationSvg(report)),
 * } });
 */
export function quantization_svg(report: QuantizationReport): string {
  const { layers, samples, method, int8_share } = report;
  const finite = layers.flatMap(({ sqnr_db }) => (sqnr_db !== undefined && sqnr_db < Infinity ? [sqnr_db] : []));
  const top_db = Math.ceil(Math.max(kLeastTopDb, ...finite) / kTickDb) * kTickDb;
  const count = Math.max(1, layers.length);
  const step = Math.max(kLeastStep, Math.min(kMostStep, kLeastPlotWidth / count));
  const plot_width = Math.max(kLeastPlotWidth, count * step);
  const [width, height] = [kLeft + plot_width + kRight, kTop + kPlotHeight + kBottom];
  const bottom = kTop + kPlotHeight;
  const y_of = (db: number): number => bottom - (Math.max(0, Math.min(db, top_db)) / top_db) * kPlotHeight;
  const x_of = (index: number): number => kLeft + (index + 0.5) * step;

  const ticks = Array.from({ length: top_db / kTickDb + 1 }, (_, i) => i * kTickDb).flatMap((db) => [
    line(kLeft, y_of(db), kLeft + plot_width, y_of(db), 'grid'),
    text(kLeft - 8, y_of(db) + 4, String(db), 'class="quiet" text-anchor="end"'),
  ]);
  const number_step = [1, 2, 5, 10, 20, 50, 100].find((n) => n * step >= 28) ?? 100;
  const numbers = layers.flatMap((_, index) =>
    (index + 1) % number_step === 0
      ? [text(x_of(index), bottom + 17, String(index + 1), 'class="quiet" text-anchor="middle"')]
      : [],
  );
  const bars = layers.map((layer, index) => {
    if (layer.sqnr_db === undefined) return '';
    const y = y_of(layer.sqnr_db);
    const kind = layer.sqnr_db === Infinity ? `${layer.precision} equal` : layer.precision;
    const bar_width = step * 0.72;
    const shown = Math.max(bottom - y, 2); // 0 dB and less are seen too
    return `<rect class="${kind}" x="${(x_of(index) - bar_width / 2).toFixed(1)}" y="${(bottom - shown).toFixed(1)}" width="${bar_width.toFixed(1)}" height="${shown.toFixed(1)}"><title>${escape(title_of(layer))}</title></rect>`;
  });
  const worst = worst_layers(layers, kNamed).filter(({ sqnr_db }) => sqnr_db !== Infinity);
  const marks = worst.map((layer) => {
    const [x, y] = [x_of(layers.indexOf(layer)), Math.min(bottom - 2, y_of(layer.sqnr_db!)) - 3];
    return `<path class="mark" d="M${x.toFixed(1)} ${y.toFixed(1)}l-5 -9h10z"/>`;
  });
  const names = worst.map((layer, i) => {
    const number = layers.indexOf(layer) + 1;
    const content = `${i === 0 ? 'lowest: ' : ''}${number} ${layer.name}, ${db_text(layer.sqnr_db!)}`;
    return text(kLeft + plot_width, bottom + 62 + kNameHeight * i, content, 'text-anchor="end"');
  });
  const middle = kTop + kPlotHeight / 2;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width.toFixed(0)} ${height}" width="${width.toFixed(0)}" height="${height}" role="img">`,
    `<style>${kStyle}\n</style>`,
    `<rect class="page" x="0.5" y="0.5" width="${(width - 1).toFixed(0)}" height="${height - 1}" rx="6"/>`,
    text(kLeft, 28, 'SQNR of each layer against float', 'class="title"'),
    text(
      kLeft,
      47,
      `${(100 * int8_share).toFixed(1)} % of MACs in int8, method ${method}, ${samples} calibration sample${samples === 1 ? '' : 's'}. Higher is better.`,
      'class="quiet"',
    ),
    legend_item(kLeft, 66, 'int8', 'int8'),
    legend_item(kLeft + 62, 66, 'float', 'float'),
    legend_item(kLeft + 128, 66, 'int8 equal', 'pale: equal to float'),
    ...ticks,
    ...bars.filter(Boolean),
    line(kLeft, bottom, kLeft + plot_width, bottom, 'axis'),
    ...numbers,
    ...marks,
    ...names,
    text(kLeft + plot_width / 2, bottom + 40, 'layer (number in order of execution)', 'text-anchor="middle"'),
    `<text transform="translate(20 ${middle}) rotate(-90)" text-anchor="middle">SQNR (dB)</text>`,
    '</svg>',
    '',
  ].join('\n');
}
