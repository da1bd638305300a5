// Draws boxes, labels and points onto a picture in Node and writes it as PNG (or JPEG, WebP by the file's ending).
import { KilnError } from '../core/errors.ts';
import type { PixelImage } from '../vision/image.ts';
import { write_atomically } from './atomic_file.ts';
import { import_sharp } from './sharp.ts';

/** What is drawn: a box with a caption, and points. */
export interface Mark {
  readonly box?: readonly [number, number, number, number];
  readonly text?: string;
  readonly points?: readonly (readonly [number, number])[];
  /** Number that picks the colour, for instance the class. */
  readonly color?: number;
}

const kColors = [
  '#e6194b',
  '#3cb44b',
  '#4363d8',
  '#f58231',
  '#911eb4',
  '#008080',
  '#9a6324',
  '#800000',
  '#808000',
  '#000075',
];

const escape_xml = (text: string): string => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

/** The marks as an SVG document of the picture's size. */
export function marks_svg(width: number, height: number, marks: readonly Mark[]): string {
  const line = Math.max(1.5, Math.min(width, height) / 250);
  const font = Math.max(10, Math.min(width, height) / 32);
  const parts = marks.map(({ box, text, points, color }) => {
    const ink = kColors[(color ?? 0) % kColors.length]!;
    const dots = (points ?? []).map(
      ([x, y]) => `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${line.toFixed(1)}" fill="${ink}"/>`,
    );
    if (!box) return dots.join('');
    const [x1, y1, x2, y2] = box;
    const frame = `<rect x="${x1}" y="${y1}" width="${x2 - x1}" height="${y2 - y1}" fill="none" stroke="${ink}" stroke-width="${line}"/>`;
    if (!text) return frame + dots.join('');
    const top = y1 - font * 1.3 >= 0 ? y1 - font * 1.3 : y1;
    const plate = Math.min(text.length * font * 0.6 + font * 0.4, width);
    const left = Math.max(0, Math.min(x1, width - plate));
    const caption =
      `<rect x="${left}" y="${top}" width="${plate}" height="${font * 1.3}" fill="${ink}"/>` +
      `<text x="${left + font * 0.2}" y="${top + font}" font-family="sans-serif" font-size="${font}" fill="#fff">${escape_xml(text)}</text>`;
    return frame + caption + dots.join('');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${parts.join('')}</svg>`;
}

/**
 * Writes the picture with its marks.
 * @param path ending in .png, .jpg, .jpeg or .webp
 * @example
 * await writeAnnotated('out.png', await readImage('in.jpg'), [{ box: [10, 10, 50, 60], text: 'cat' }]);
 */
export async function write_annotated(path: string, image: PixelImage, marks: readonly Mark[]): Promise<void> {
  const sharp = await import_sharp();
  const { width, height, channels } = image;
  try {
    const picture = sharp(image.data, { raw: { width, height, channels } })
      .toColourspace('srgb')
      .removeAlpha() // as the models see it
      .composite([{ input: Buffer.from(marks_svg(width, height, marks)) }]);
    await write_atomically(path, (part) => picture.toFile(part));
  } catch (error) {
    throw new KilnError('INVALID_ARGUMENT', `'${path}' cannot be written: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
