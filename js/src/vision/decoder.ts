// Which decoder a detector's output needs, from metadata or from its shape.
import { KilnError } from '../core/errors.ts';
import type { TensorInfo } from '../core/model.ts';

/** Names of kiln::Decoder (src/vision/detect.h), in its order. */
export const kDecoders = ['yolov5', 'yolov8', 'yolox', 'end2end', 'tiny-yolov2'] as const;
export type DecoderName = (typeof kDecoders)[number];

/** Cells of the grids of strides 8, 16 and 32. */
function grid_cells(height: number, width: number): number {
  return [8, 16, 32].reduce((sum, stride) => sum + Math.floor(height / stride) * Math.floor(width / stride), 0);
}

// Whether `n` is the cells of neighbouring grids, strides 4 to 128: P2 and P6 heads and tiny ones have others than three.
function are_cells(n: number, height: number, width: number): boolean {
  for (let first = 4; first <= 128; first *= 2) {
    let sum = 0;
    for (let stride = first; stride <= 128; stride *= 2) {
      sum += Math.floor(height / stride) * Math.floor(width / stride);
      if (sum === n) return true;
    }
  }
  return false;
}

// What each decoder needs of its output's shape, in words.
const kNeeds: Readonly<Record<DecoderName, string>> = {
  'yolov5': '[1, boxes, 5 + classes] with one or three boxes a grid cell',
  'yolov8': '[1, 4 + classes, boxes] with a box a grid cell',
  'yolox': '[1, boxes, 5 + classes] with a box a cell of strides 8, 16, 32',
  'end2end': '[1, boxes, 6]',
  'tiny-yolov2': '[1, rows, columns, anchors * (5 + classes)]',
};

/** Whether a decoder that is named can read an output of this shape. */
function fits_decoder(decoder: DecoderName, shape: readonly number[], height: number, width: number): boolean {
  const rank = shape.length;
  if (decoder === 'tiny-yolov2') return rank === 4 && shape[0] === 1;
  const [rows, columns] = shape.slice(-2) as [number, number];
  if (rank < 2 || rank > 4 || shape.slice(0, -2).some((dim) => dim !== 1)) return false;
  if (decoder === 'end2end') return columns === 6;
  const is_yolov8 = decoder_of_shape([1, rows, columns], height, width) === 'yolov8';
  if (decoder === 'yolov8') return is_yolov8 || (rows >= 5 && are_cells(columns, height, width));
  if (columns < 6 || is_yolov8) return false;
  if (decoder === 'yolox') return rows === grid_cells(height, width);
  return are_cells(rows, height, width) || are_cells(rows / 3, height, width);
}

/** The decoder that an output's shape speaks for, or undefined. */
export function decoder_of_shape(shape: readonly number[], height: number, width: number): DecoderName | undefined {
  const [rows, columns] = shape.slice(-2);
  if (shape.length !== 3 || shape[0] !== 1 || rows === undefined || columns === undefined) return undefined;
  const cells = grid_cells(height, width);
  if (columns === 6 && rows !== cells && rows !== 3 * cells) return 'end2end';
  if (columns >= 6 && rows === cells) return 'yolox';
  if (columns >= 6 && rows === 3 * cells) return 'yolov5';
  if (rows >= 5 && columns === cells) return 'yolov8';
  return undefined;
}

/**
 * The decoder and the output it reads.
 * @param task the bundle's task ("detect:yolox"), or ''
 * @throws KilnError UNSUPPORTED when neither option, task nor shape tells
 */
export function choose_decoder(
  outputs: readonly TensorInfo[],
  height: number,
  width: number,
  task: string,
  option: DecoderName | undefined,
): { readonly decoder: DecoderName; readonly output: number } {
  const named = option ?? (task.startsWith('detect:') ? task.slice('detect:'.length) : undefined);
  const speaks_for = outputs.map(({ dtype, shape }) =>
    dtype === 'f32' ? decoder_of_shape(shape, height, width) : undefined,
  );
  const found = speaks_for.findIndex((decoder) => decoder !== undefined);
  if (named !== undefined) {
    if (!kDecoders.includes(named as DecoderName)) {
      throw new KilnError('INVALID_ARGUMENT', `decoder '${named}' is unknown; allowed: ${kDecoders.join(', ')}`);
    }
    const decoder = named as DecoderName;
    const fits = outputs.map(({ shape }) => fits_decoder(decoder, shape, height, width));
    const candidates = [speaks_for.indexOf(decoder), fits.indexOf(true), found, 0];
    const output = candidates.find((index) => index >= 0)!;
    const { name, dtype, shape } = outputs[output]!;
    if (dtype !== 'f32') throw new KilnError('UNSUPPORTED', `output '${name}' is ${dtype}, the decoder reads f32`);
    if (!fits[output]) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `decoder '${decoder}' does not fit output '${name}' [${shape.join(', ')}]: for an input of ${height} x ${width} it needs ${kNeeds[decoder]}`,
      );
    }
    return { decoder, output };
  }
  if (found < 0) {
    const shapes = outputs.map((info) => `'${info.name}' ${info.dtype} [${info.shape.join(', ')}]`).join(', ');
    throw new KilnError(
      'UNSUPPORTED',
      `none of the outputs ${shapes} looks like a YOLO detector's; compile with --task detect:${kDecoders.join('|')}, or pass \`decoder\``,
    );
  }
  return { decoder: speaks_for[found]!, output: found };
}

/** Classes that an output has room for; a detector without classes has one. Undefined where the shape does not tell. */
function num_classes(decoder: DecoderName, shape: readonly number[], num_anchors: number): number | undefined {
  if (decoder === 'end2end') return undefined;
  if (decoder === 'yolov8') return shape.at(-2)! - 4;
  return Math.max(1, (decoder === 'tiny-yolov2' ? shape[3]! / num_anchors : shape.at(-1)!) - 5);
}

/**
 * Refuses labels of another number than the output's classes. More rows of a YOLOv8 head than the bundle's own labels are
 * masks or key points.
 * @param from whose labels they are
 * @throws KilnError INVALID_ARGUMENT, UNSUPPORTED
 */
export function check_classes(
  decoder: DecoderName,
  output: TensorInfo,
  labels: readonly string[],
  from: 'bundle' | 'options' = 'bundle',
  num_anchors = 0,
): void {
  const classes = num_classes(decoder, output.shape, num_anchors);
  if (labels.length === 0 || classes === undefined || classes === labels.length) return;
  const is_other_head = decoder === 'yolov8' && from === 'bundle' && classes > labels.length;
  throw new KilnError(
    is_other_head ? 'UNSUPPORTED' : 'INVALID_ARGUMENT',
    `output '${output.name}' [${output.shape.join(', ')}] has room for ${classes} classes, but there are ${labels.length} labels` +
      (is_other_head ? '; a segmentation or pose head is not supported' : ` in the ${from}`),
  );
}
