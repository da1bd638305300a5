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
    const fits = speaks_for.indexOf(named as DecoderName);
    const output = Math.max(0, fits >= 0 ? fits : found);
    const { name, dtype } = outputs[output]!;
    if (dtype !== 'f32') throw new KilnError('UNSUPPORTED', `output '${name}' is ${dtype}, the decoder reads f32`);
    return { decoder: named as DecoderName, output };
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

/**
 * Refuses a YOLOv8 head with more rows than boxes and classes need: masks or key points, which are no scores.
 * @throws KilnError UNSUPPORTED
 */
export function check_classes(decoder: DecoderName, output: TensorInfo, labels: readonly string[]): void {
  const classes = output.shape.at(-2)! - 4;
  if (decoder !== 'yolov8' || labels.length === 0 || classes === labels.length) return;
  throw new KilnError(
    'UNSUPPORTED',
    `output '${output.name}' [${output.shape.join(', ')}] has room for ${classes} classes, but there are ${labels.length} labels; a segmentation or pose head is not supported`,
  );
}
