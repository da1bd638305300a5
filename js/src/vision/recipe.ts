// Preprocessing recipes: what a preset means, and the struct that the runtime reads (VisionRecipe, src/vision/preprocess.h).
import { KilnError } from '../core/errors.ts';
import type { TensorInfo } from '../core/model.ts';
import {
  check_options,
  is_list,
  is_number,
  is_object,
  is_one_of,
  is_whole,
  kFlag,
  type Check,
  type OptionTable,
} from '../core/options.ts';

/** How an image becomes a model's input: input = (pixel / scale - mean) / std, a channel at a time. */
export interface PreprocessRecipe {
  readonly resize: 'letterbox' | 'stretch' | 'resize-crop';
  /** [height, width]; default: the model's input. */
  readonly size?: readonly [number, number];
  /** The same, as recipes with resize-crop call it. */
  readonly crop?: readonly [number, number];
  /** resize-crop: length of the shorter side before the centre crop. */
  readonly resize_shorter?: number;
  /** letterbox: where the image lies. */
  readonly position?: 'center' | 'top-left';
  /** letterbox: whether the scaled size is rounded or cut off. */
  readonly rounding?: 'nearest' | 'floor';
  readonly pad_value?: number;
  readonly color?: 'RGB' | 'BGR';
  readonly scale?: number;
  /** One number, or one a channel. */
  readonly mean?: readonly number[] | number;
  readonly std?: readonly number[] | number;
  /** Triangle filter when shrinking (Pillow) instead of two taps (OpenCV). */
  readonly antialias?: boolean;
  /** Round resized pixels to whole numbers, as 8-bit image libraries do. */
  readonly round?: boolean;
}

/** Bytes of VisionRecipe. */
export const kRecipeBytes = 80;
/** Bytes of VisionPlacement. */
export const kPlacementBytes = 24;

/** `preprocess` of an option table. */
export const kPreprocess = [is_object, "a recipe, like {resize: 'letterbox'}; presets are for compile() only"] as const;

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

function three(values: readonly number[] | number | undefined, fallback: number): readonly number[] {
  const list = values === undefined ? [fallback] : typeof values === 'number' ? [values] : values;
  return list.length === 1 ? [list[0]!, list[0]!, list[0]!] : list;
}

const is_size = is_whole(1, 32768);
const is_pair: Check = (v) => is_list(is_size)(v) && (v as unknown[]).length === 2;
const is_one_or_three = (check: Check): Check => {
  return (v) => check(v) || (is_list(check)(v) && [1, 3].includes((v as unknown[]).length));
};
const is_mean: Check = (v) => typeof v === 'number' && Math.abs(v) < 1e6;
const is_std: Check = (v) => is_mean(v) && v !== 0;

// What each key may hold, as in src/compile/preprocess_presets.cc.
const kKeys: OptionTable<keyof PreprocessRecipe> = {
  resize: [is_one_of(...kResizeModes), kResizeModes.join(', ')],
  size: [is_pair, '[height, width], each 1 to 32768'],
  crop: [is_pair, '[height, width], each 1 to 32768'],
  resize_shorter: [is_size, 'a whole number, 1 to 32768'],
  position: [is_one_of('center', 'top-left'), 'center, top-left'],
  rounding: [is_one_of('nearest', 'floor'), 'nearest, floor'],
  pad_value: [is_number(0, 255), 'a number, 0 to 255'],
  color: [is_one_of('RGB', 'BGR'), 'RGB, BGR'],
  scale: [is_number(1e-6, 1e6), 'a number above 0'],
  mean: [is_one_or_three(is_mean), 'one or three numbers'],
  std: [is_one_or_three(is_std), 'one or three numbers that are not 0'],
  antialias: kFlag,
  round: kFlag,
};

/** A recipe from a bundle's metadata (JSON) or an option. Throws INVALID_ARGUMENT naming the key at fault. */
export function parse_recipe(value: string | PreprocessRecipe): PreprocessRecipe {
  const refuse = (what: string, cause?: unknown): never => {
    throw new KilnError('INVALID_ARGUMENT', `preprocessing recipe: ${what}`, cause === undefined ? {} : { cause });
  };
  let recipe: PreprocessRecipe;
  try {
    recipe = typeof value === 'string' ? (JSON.parse(value) as PreprocessRecipe) : value;
  } catch (error) {
    return refuse((error as Error).message, error);
  }
  if (is_object(recipe) && recipe.resize === undefined)
    refuse(`resize is missing; allowed: ${kResizeModes.join(', ')}`);
  check_options('preprocessing recipe', recipe, kKeys);
  const { resize, resize_shorter, size, crop } = recipe;
  if (resize_shorter !== undefined && resize !== 'resize-crop')
    refuse('resize_shorter goes with resize="resize-crop" only');
  for (const key of ['position', 'rounding'] as const) {
    if (recipe[key] !== undefined && resize !== 'letterbox') refuse(`${key} goes with resize="letterbox" only`);
  }
  if (size && crop && size.join() !== crop.join()) refuse(`size=[${size.join()}] and crop=[${crop.join()}] differ`);
  return recipe;
}

/** Fills a VisionRecipe for a model input. `view` covers kRecipeBytes. */
export function write_recipe(view: DataView, recipe: PreprocessRecipe, info: TensorInfo): void {
  const input = image_input(info);
  const [height, width] = recipe.size ?? recipe.crop ?? [input.height, input.width];
  if (height !== input.height || width !== input.width) {
    throw new KilnError(
      'SHAPE',
      `preprocessing recipe: size [${height}, ${width}] is not the model input's [${input.height}, ${input.width}]`,
    );
  }
  const { resize_shorter = 0 } = recipe;
  if (resize_shorter > 0 && resize_shorter < Math.min(height, width)) {
    throw new KilnError(
      'SHAPE',
      `preprocessing recipe: resize_shorter=${resize_shorter} is smaller than the model input's [${height}, ${width}], which is cut out of it`,
    );
  }
  const ints = [
    kResizeModes.indexOf(recipe.resize),
    width,
    height,
    input.channels,
    resize_shorter,
    recipe.position === 'top-left' ? 1 : 0,
    recipe.rounding === 'floor' ? 1 : 0,
    recipe.antialias ? 1 : 0,
    recipe.round ? 1 : 0,
    recipe.color === 'BGR' ? 1 : 0,
    input.nhwc ? 1 : 0,
    info.dtype === 'u8' ? 1 : 0,
  ];
  ints.forEach((value, i) => view.setInt32(4 * i, value, true));
  const floats = [recipe.pad_value ?? 114, recipe.scale ?? 255, ...three(recipe.mean, 0), ...three(recipe.std, 1)];
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
