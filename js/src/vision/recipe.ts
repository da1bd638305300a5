// Preprocessing recipes: what a preset means, and the struct that the runtime reads (VisionRecipe, src/vision/preprocess.h).
import { KilnError } from '../core/errors.ts';
import type { TensorInfo } from '../core/model.ts';

/** How an image becomes a model's input: input = (pixel / scale - mean) / std, a channel at a time. */
export interface PreprocessRecipe {
  readonly resize: 'letterbox' | 'stretch' | 'resize-crop';
  /** [height, width]; default: the model's input. */
  readonly size?: readonly [number, number];
  /** resize-crop: length of the shorter side before the centre crop. */
  readonly resize_shorter?: number;
  /** letterbox: where the image lies. */
  readonly position?: 'center' | 'top-left';
  /** letterbox: whether the scaled size is rounded or cut off. */
  readonly rounding?: 'nearest' | 'floor';
  readonly pad_value?: number;
  readonly color?: 'RGB' | 'BGR';
  readonly scale?: number;
  readonly mean?: readonly number[];
  readonly std?: readonly number[];
  /** Triangle filter when shrinking (Pillow) instead of two taps (OpenCV). */
  readonly antialias?: boolean;
  /** Round resized pixels to whole numbers, as 8-bit image libraries do. */
  readonly round?: boolean;
}

/** Bytes of VisionRecipe. */
export const kRecipeBytes = 80;
/** Bytes of VisionPlacement. */
export const kPlacementBytes = 24;

const kResizeModes = ['stretch', 'letterbox', 'resize-crop'];

/** Height, width and layout of an image input. */
export function image_input(info: TensorInfo): {
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  readonly nhwc: boolean;
} {
  const [n, a, b, c] = info.shape;
  const nhwc = info.layout === 'NHWC';
  const channels = nhwc ? c : a;
  if (
    info.shape.length !== 4 ||
    n !== 1 ||
    (channels !== 1 && channels !== 3) ||
    (info.dtype !== 'f32' && info.dtype !== 'u8')
  ) {
    throw new KilnError(
      'UNSUPPORTED',
      `input '${info.name}' (${info.dtype}, [${info.shape.join(', ')}]) is no image: [1, 3, height, width] of f32 or u8 is needed; use model.run()`,
    );
  }
  return { height: nhwc ? a! : b!, width: nhwc ? b! : c!, channels, nhwc };
}

function three(values: readonly number[] | undefined, fallback: number, key: string): readonly number[] {
  const list = values ?? [fallback];
  if (
    !Array.isArray(list) ||
    (list.length !== 1 && list.length !== 3) ||
    !list.every((v) => typeof v === 'number' && Number.isFinite(v))
  ) {
    throw new KilnError(
      'INVALID_ARGUMENT',
      `preprocessing recipe: ${key} must be one or three numbers, got ${JSON.stringify(values)}`,
    );
  }
  return list.length === 1 ? [list[0]!, list[0]!, list[0]!] : list;
}

/** A recipe from a bundle's metadata (JSON) or an option. Throws INVALID_ARGUMENT naming the key at fault. */
export function parse_recipe(value: string | PreprocessRecipe): PreprocessRecipe {
  let recipe: PreprocessRecipe;
  try {
    recipe = typeof value === 'string' ? (JSON.parse(value) as PreprocessRecipe) : value;
  } catch (error) {
    throw new KilnError('INVALID_ARGUMENT', `preprocessing recipe: ${(error as Error).message}`, { cause: error });
  }
  if (!kResizeModes.includes(recipe.resize)) {
    throw new KilnError(
      'INVALID_ARGUMENT',
      `preprocessing recipe: resize=${JSON.stringify(recipe.resize)}; allowed: ${kResizeModes.join(', ')}`,
    );
  }
  return recipe;
}

/** Fills a VisionRecipe for a model input. `view` covers kRecipeBytes. */
export function write_recipe(view: DataView, recipe: PreprocessRecipe, info: TensorInfo): void {
  const input = image_input(info);
  const [height, width] = recipe.size ?? [input.height, input.width];
  if (height !== input.height || width !== input.width) {
    throw new KilnError(
      'SHAPE',
      `preprocessing recipe: size [${height}, ${width}] is not the model input's [${input.height}, ${input.width}]`,
    );
  }
  const ints = [
    kResizeModes.indexOf(recipe.resize),
    width,
    height,
    input.channels,
    recipe.resize_shorter ?? 0,
    recipe.position === 'top-left' ? 1 : 0,
    recipe.rounding === 'floor' ? 1 : 0,
    recipe.antialias ? 1 : 0,
    recipe.round ? 1 : 0,
    recipe.color === 'BGR' ? 1 : 0,
    input.nhwc ? 1 : 0,
    info.dtype === 'u8' ? 1 : 0,
  ];
  ints.forEach((value, i) => view.setInt32(4 * i, value, true));
  const floats = [
    recipe.pad_value ?? 114,
    recipe.scale ?? 255,
    ...three(recipe.mean, 0, 'mean'),
    ...three(recipe.std, 1, 'std'),
  ];
  floats.forEach((value, i) => view.setFloat32(48 + 4 * i, value, true));
}

/** The recipe of a model: the option, else what the bundle carries; never a guess. */
export function recipe_of(
  metadata: Readonly<Record<string, string>>,
  option: PreprocessRecipe | undefined,
): PreprocessRecipe {
  const value = option ?? metadata['preprocess'];
  if (value === undefined) {
    throw new KilnError(
      'INVALID_ARGUMENT',
      'the bundle says nothing of preprocessing: compile it with --preprocess PRESET|FILE.json, or pass `preprocess`',
    );
  }
  return parse_recipe(value);
}
