// Images in Node: files and encoded bytes to pixels, by sharp (libvips).
import { stat } from 'node:fs/promises';
import { KilnError } from '../core/errors.ts';
import type { PixelImage } from '../vision/image.ts';
import { import_sharp } from './sharp.ts';

/**
 * Decodes an image file (JPEG, PNG, WebP, …) to RGB pixels, turned as its EXIF orientation says.
 * @param source path or encoded bytes
 * @throws KilnError NOT_FOUND, INVALID_ARGUMENT (no image, or damaged)
 * @example
 * const boxes = await detector.detect(await readImage('street.jpg'));
 */
export async function read_image(source: string | Uint8Array): Promise<PixelImage> {
  const sharp = await import_sharp();
  const name = typeof source === 'string' ? `'${source}'` : 'the image bytes';
  try {
    const decoded = await sharp(source, { failOn: 'error' })
      .rotate()
      .toColourspace('srgb')
      .removeAlpha()
      .raw({ depth: 'uchar' })
      .toBuffer({ resolveWithObject: true });
    const { width, height, channels } = decoded.info;
    if (channels !== 1 && channels !== 3) throw new Error(`${channels} channels`);
    return {
      data: new Uint8Array(decoded.data.buffer, decoded.data.byteOffset, decoded.data.length),
      width,
      height,
      channels,
    };
  } catch (error) {
    const is_folder = typeof source === 'string' && (await stat(source).catch(() => undefined))?.isDirectory();
    const message = is_folder ? 'it is a folder' : (error as Error).message;
    const missing = !is_folder && /missing|no such file/i.test(message);
    throw new KilnError(missing ? 'NOT_FOUND' : 'INVALID_ARGUMENT', `${name} cannot be read as an image: ${message}`, {
      cause: error,
    });
  }
}
