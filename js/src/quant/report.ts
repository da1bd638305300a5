// The quantisation report: what runs in int8, what it costs in accuracy, and as text.
import { KilnError } from '../core/errors.ts';
import type { Likeness } from './compare.ts';
import type { Evaluation } from './evaluate.ts';

/** A layer as the compiler's own report has it. */
export interface CompiledLayer {
  /** Node name in the ONNX graph. */
  readonly name: string;
  readonly op: string;
  /** Name of the value that it makes. */
  readonly output: string;
  /** Names of the values that it reads. */
  readonly inputs?: readonly string[];
  readonly macs: number;
  readonly precision: 'int8' | 'float';
  /** Why it is float: 'head', 'keep-float', 'roll-back', 'unsupported: …', 'slower in int8'; '' for int8. */
  readonly reason: string;
  readonly input_scale: number;
  /** Of its output: real = scale * (q - zero_point); 0 where that stays float. */
  readonly scale: number;
  readonly zero_point: number;
  /** Share of the output's elements that lie outside its int8 range on the calibration set, 0 to 1. */
  readonly clipped: number;
  /** Predicted microseconds a run on one thread. */
  readonly int8_us: number;
  readonly float_us: number;
}

/** What the compiler writes for `--quant-report`. */
export interface CompilerReport {
  readonly precision: 'int8';
  readonly layers: readonly CompiledLayer[];
  readonly macs: number;
  readonly int8_macs: number;
  /** Nodes kept float because they are the detection head. */
  readonly head: readonly string[];
  readonly head_macs: number;
  readonly notices: readonly string[];
}

/** A layer and its likeness to the float model on the calibration set, where its output could be observed. */
export interface LayerReport extends CompiledLayer, Partial<Likeness> {}

/** One step of the roll-back to float. */
export interface RollBackStep {
  /** Nodes that went to float, or back to int8. */
  readonly nodes: readonly string[];
  readonly to: 'float' | 'int8';
  /** Loss after the step. */
  readonly loss: number;
  /** Whether the step stayed: a return to int8 that breaks the budget does not. */
  readonly kept: boolean;
}

/** What `compile` with `precision: 'int8'` did. As JSON, `sqnr_db` of equal values is null. */
export interface QuantizationReport extends Omit<CompilerReport, 'layers' | 'precision'> {
  readonly version: 1;
  /** 'float' if int8 could not reach the accuracy budget and the float bundle is what came out. */
  readonly precision: 'int8' | 'float';
  readonly method: string;
  /** Calibration samples. */
  readonly samples: number;
  /** Share of all MACs that run in int8 kernels, 0 to 1. */
  readonly int8_share: number;
  readonly layers: readonly LayerReport[];
  /** The model's own outputs on the calibration set. */
  readonly outputs: readonly ({ readonly name: string } & Likeness)[];
  readonly bundle_bytes: number;
  readonly float_bundle_bytes: number;
  /** On the evaluation set, where there is one. */
  readonly evaluation?: Evaluation;
  readonly accuracy_budget?: number;
  readonly roll_back: readonly RollBackStep[];
}

/** The compiler's report from its bytes. */
export function read_compiler_report(bytes: Uint8Array | undefined): CompilerReport {
  if (!bytes) throw new KilnError('INTERNAL', 'the compiler gave no quantisation report');
  return JSON.parse(new TextDecoder().decode(bytes)) as CompilerReport;
}

/** 98.2 %, and never 100.0 % unless it is all. */
function percent(share: number): string {
  const text = (100 * share).toFixed(1);
  return `${text === '100.0' && share < 1 ? '99.9' : text} %`;
}

const decibels = (db: number): string => (db === Infinity ? 'equal' : db.toFixed(1));
const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(2)} MB`;
const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** The loss in words, with its unit. */
export function loss_text({ metric, samples, loss, float_accuracy, accuracy }: Evaluation): string {
  const on = `on ${plural(samples, 'evaluation sample')}`;
  switch (metric) {
    case 'top-1 accuracy':
      return `top-1 accuracy ${accuracy!.toFixed(2)} % against ${float_accuracy!.toFixed(2)} % of float: ${loss.toFixed(2)} points lost ${on}`;
    case 'top-1 agreement':
      return `another likeliest class than float for ${loss.toFixed(2)} % ${on}`;
    case 'detections':
      return `boxes differ from float's by ${loss.toFixed(2)} (100 (1 - F1)) ${on}`;
    case 'cosine':
      return `outputs differ from float's by ${loss.toFixed(4)} (100 (1 - cosine)) ${on}`;
  }
}

/** Layers by rising SQNR, those that were compared. */
export function worst_layers(layers: readonly LayerReport[], count: number): LayerReport[] {
  const compared = layers.filter(({ sqnr_db }) => sqnr_db !== undefined);
  return compared.sort((a, b) => a.sqnr_db! - b.sqnr_db!).slice(0, count);
}

/** A few lines: the int8 share, the worst layers, the outputs, the evaluation, the roll-back, the size. */
export function summary_lines(report: QuantizationReport): string[] {
  const { layers, head, head_macs, macs, bundle_bytes, float_bundle_bytes } = report;
  const beside_head = macs - head_macs;
  const of_rest = beside_head > 0 ? report.int8_macs / beside_head : 0;
  const in_head = head.length > 0 ? ` (${percent(of_rest)} beside the float head, ${plural(head.length, 'node')})` : '';
  const num_float = layers.filter(({ precision }) => precision === 'float').length;
  const lines = [
    `${report.precision}: ${percent(report.int8_share)} of ${macs} MACs run in int8${in_head}; ${num_float} of ${plural(layers.length, 'layer')} stay float`,
  ];
  const worst = worst_layers(layers, 3).filter(({ sqnr_db }) => sqnr_db !== Infinity);
  if (worst.length > 0) {
    const list = worst.map(({ name, sqnr_db }) => `${name} ${decibels(sqnr_db!)}`);
    lines.push(`worst layers by SQNR in dB: ${list.join(', ')}`);
  }
  for (const { name, sqnr_db, cosine } of report.outputs) {
    lines.push(
      `output '${name}' on ${plural(report.samples, 'calibration sample')}: SQNR ${decibels(sqnr_db)}${sqnr_db === Infinity ? '' : ' dB'}, cosine similarity ${cosine.toFixed(5)}`,
    );
  }
  if (report.evaluation) {
    const budget = report.accuracy_budget;
    lines.push(loss_text(report.evaluation) + (budget === undefined ? '' : `; budget ${budget}`));
  }
  for (const { nodes, to, loss, kept } of report.roll_back) {
    lines.push(`roll-back: ${nodes.join(', ')} to ${to}: loss ${loss.toFixed(3)}${kept ? '' : ', taken back'}`);
  }
  const ratio = percent(bundle_bytes / float_bundle_bytes);
  lines.push(`bundle: ${megabytes(bundle_bytes)}, ${ratio} of float's ${megabytes(float_bundle_bytes)}`);
  return lines;
}

/** Columns padded to their widest cell; all but the first two to the right. */
function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, c) => Math.max(...rows.map((row) => row[c]!.length)));
  const cell = (text: string, c: number): string => (c < 2 ? text.padEnd(widths[c]!) : text.padStart(widths[c]!));
  return rows.map((row) => row.map(cell).join('  ').trimEnd()).join('\n');
}

/**
 * A quantisation report as text: a summary, the notices, a line a layer.
 * @example
 * await compile('resnet20.onnx', { precision: 'int8', calibration: pictures, quantization: {
 *   onReport: (report) => console.log(quantizationText(report)),
 * } });
 */
export function quantization_text(report: QuantizationReport): string {
  const head = [
    'layer',
    'op',
    'precision',
    'MACs',
    'scale',
    'zero',
    'clipped %',
    'SQNR dB',
    'cosine',
    'int8 us',
    'float us',
    'why',
  ];
  const rows = report.layers.map((layer) => [
    layer.name,
    layer.op,
    layer.precision,
    String(layer.macs),
    layer.scale > 0 ? layer.scale.toPrecision(4) : '',
    layer.scale > 0 ? String(layer.zero_point) : '',
    layer.scale > 0 ? (100 * layer.clipped).toFixed(3) : '',
    layer.sqnr_db === undefined ? '' : decibels(layer.sqnr_db),
    layer.cosine === undefined ? '' : layer.cosine.toFixed(5),
    layer.int8_us.toFixed(1),
    layer.float_us.toFixed(1),
    layer.reason,
  ]);
  const notices = report.notices.map((notice) => `notice: ${notice}`);
  const method = `method ${report.method}, ${plural(report.samples, 'calibration sample')}`;
  return [method, ...summary_lines(report), ...notices, '', columns([head, ...rows]), ''].join('\n');
}
