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
  const found = outputs.findIndex((info) => decoder_of_shape(info.shape, height, width) !== undefined);
  if (named !== undefined) {
    if (!kDecoders.includes(named as DecoderName)) {
      throw new KilnError('INVALID_ARGUMENT', `decoder '${named}' is unknown; allowed: ${kDecoders.join(', ')}`);
    }
    const fits = outputs.findIndex((info) => decoder_of_shape(info.shape, height, width) === named);
    return { decoder: named as DecoderName, output: Math.max(0, fits >= 0 ? fits : found) };
  }
  if (found < 0) {
    const shapes = outputs.map((info) => `'${info.name}' [${info.shape.join(', ')}]`).join(', ');
    throw new KilnError(
      'UNSUPPORTED',
      `none of the outputs ${shapes} looks like a YOLO detector's; compile with --task detect:${kDecoders.join('|')}, or pass \`decoder\``,
    );
  }
  return { decoder: decoder_of_shape(outputs[found]!.shape, height, width)!, output: found };
}
