// sharp (libvips), loaded when a picture is first read or written. Apart, so that the package's types do not need its types.
import { KilnError } from '../core/errors.ts';

type Sharp = typeof import('sharp').default;

/** sharp, or an error that says how to get it. */
export async function import_sharp(): Promise<Sharp> {
  try {
    return (await import('sharp')).default;
  } catch (error) {
    throw new KilnError(
      'UNSUPPORTED',
      `reading images in Node needs the package sharp (npm install sharp): ${(error as Error).message}`,
      { cause: error },
    );
  }
}
