// Any image that a page or Node has, as 8-bit pixels.
import { KilnError } from '../core/errors.ts';
import { describe_value } from '../core/options.ts';

/** Decoded pixels: rows of `channels` interleaved bytes (1 grey, 3 RGB, 4 RGBA), top row first, no gaps. */
export interface PixelImage {
  readonly data: Uint8Array | Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 3 | 4;
}

/** What Detector and Classifier take. */
export type ImageSource =
  | PixelImage
  | ImageData
  | ImageBitmap
  | HTMLCanvasElement
  | OffscreenCanvas
  | HTMLImageElement
  | HTMLVideoElement
  | VideoFrame;

type Drawable = Exclude<ImageSource, PixelImage | ImageData>;

function drawable_size(image: Drawable): { readonly width: number; readonly height: number } {
  const media = image as { videoWidth?: number; naturalWidth?: number; displayWidth?: number };
  if (media.videoWidth !== undefined) {
    const video = image as HTMLVideoElement;
    return { width: video.videoWidth, height: video.videoHeight };
  }
  if (media.naturalWidth !== undefined) {
    const picture = image as HTMLImageElement;
    return { width: picture.naturalWidth, height: picture.naturalHeight };
  }
  if (media.displayWidth !== undefined) {
    const frame = image as VideoFrame;
    return { width: frame.displayWidth, height: frame.displayHeight };
  }
  return image as ImageBitmap;
}

const kNoImage =
  'this object is no image; allowed: ImageData, {data, width, height, channels}, and in pages ImageBitmap, image, canvas, video, VideoFrame';

let scratch: OffscreenCanvas | HTMLCanvasElement | undefined; // kept: a new canvas a frame would leak in camera loops

function draw(image: Drawable): ImageData {
  const { width, height } = drawable_size(image);
  if (!(width > 0 && height > 0)) {
    throw new KilnError(
      'INVALID_ARGUMENT',
      'the image has no size yet: wait until it (or the first video frame) is loaded',
    );
  }
  if (typeof OffscreenCanvas !== 'function' && typeof document === 'undefined')
    throw new KilnError('INVALID_ARGUMENT', kNoImage);
  scratch ??=
    typeof OffscreenCanvas === 'function' ? new OffscreenCanvas(width, height) : document.createElement('canvas');
  if (scratch.width !== width) scratch.width = width;
  if (scratch.height !== height) scratch.height = height;
  const context = scratch.getContext('2d', { willReadFrequently: true }) as CanvasRenderingContext2D | null;
  if (!context) throw new KilnError('UNSUPPORTED', 'this page cannot make a 2D canvas');
  context.clearRect(0, 0, width, height);
  try {
    context.drawImage(image, 0, 0, width, height);
  } catch (error) {
    throw new KilnError('INVALID_ARGUMENT', `${kNoImage} (${(error as Error).message})`, { cause: error });
  }
  try {
    return context.getImageData(0, 0, width, height);
  } catch (error) {
    throw new KilnError(
      'INVALID_ARGUMENT',
      `the image's pixels may not be read (${(error as Error).message}): serve it with CORS headers and crossOrigin set`,
      { cause: error },
    );
  }
}

/**
 * The pixels of an image.
 * @throws KilnError INVALID_ARGUMENT if it is no image, has no size, or its bytes do not match its size
 */
export function image_pixels(image: ImageSource): PixelImage {
  if (typeof image !== 'object' || image === null) {
    throw new KilnError('INVALID_ARGUMENT', `an image is needed, got ${image === null ? 'null' : typeof image}`);
  }
  if ('data' in image) {
    const { data, width, height } = image;
    const channels = 'channels' in image ? image.channels : 4;
    const whole = Number.isInteger(width) && Number.isInteger(height) && width > 0 && height > 0;
    if (!whole || ![1, 3, 4].includes(channels)) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `an image of ${width} x ${height} pixels and ${channels} channels; sides must be whole and positive, channels 1, 3 or 4`,
      );
    }
    if (
      !(data instanceof Uint8Array || data instanceof Uint8ClampedArray) ||
      data.length !== width * height * channels
    ) {
      throw new KilnError(
        'INVALID_ARGUMENT',
        `an image of ${width} x ${height} x ${channels} needs ${width * height * channels} bytes in a Uint8Array, got ${describe_value(data)}`,
      );
    }
    return { data, width, height, channels };
  }
  if (!('width' in image || 'displayWidth' in image)) {
    throw new KilnError('INVALID_ARGUMENT', kNoImage);
  }
  const drawn = draw(image as Drawable);
  return { data: drawn.data, width: drawn.width, height: drawn.height, channels: 4 };
}
