// The model recipes: list them, and make a recipe's ONNX file with its preprocessing and labels beside it.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { make_layout } from './layouts/index.mjs';
import { write_onnx } from './onnx_writer.mjs';
import { find_recipe, read_builder_code, read_recipes } from './recipe_files.mjs';
import { read_labels } from './labels/read_labels.mjs';

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/**
 * The recipes, sorted by name: the content of each model.json, and `kind`, how its ONNX file comes about:
 * 'built' from the weights of an npm package, or a 'file' that has to be there (see build_recipe).
 */
export function list_recipes() {
  return read_recipes().map(({ dir, ...recipe }) => ({ ...recipe, kind: recipe.build ? 'built' : 'file' }));
}

/** The class names of a recipe, or null: a file of models/labels/ by name, or the names themselves. */
export function read_recipe_labels({ labels }) {
  if (!labels) return null;
  return Array.isArray(labels) ? labels : read_labels(labels);
}

// What a bundle needs to know travels in the ONNX file too, in the entries that ultralytics' exports have.
function add_metadata(g, recipe, preprocess) {
  const labels = read_recipe_labels(recipe);
  g.metadata('description', recipe.title);
  g.metadata('license', recipe.licence);
  g.metadata('task', recipe.task);
  if (labels) g.metadata('names', `{${labels.map((label, i) => `${i}: '${label}'`).join(', ')}}`);
  if (preprocess) g.metadata('preprocess', JSON.stringify(preprocess));
  if (recipe.decode) g.metadata('decode', JSON.stringify(recipe.decode));
  if (recipe.decode?.anchors) g.metadata('anchors', JSON.stringify(recipe.decode.anchors));
}

async function make_built(recipe, preprocess, options) {
  const { build } = await import(pathToFileURL(join(recipe.dir, recipe.build)));
  const g = build(recipe, options);
  add_metadata(g, recipe, preprocess);
  return { bytes: write_onnx(g), verified: true };
}

function read_file_of(recipe, search) {
  const expected = recipe.sha256;
  const dirs = [...search, ...(process.env.TILEKILN_MODELS ?? '').split(delimiter).filter(Boolean)];
  const path = dirs.map((dir) => join(dir, recipe.file)).find((candidate) => existsSync(candidate));
  if (!path) {
    throw new Error(
      `recipe '${recipe.name}': ${recipe.file} not found${dirs.length ? ` in ${dirs.join(', ')}` : ''}; name its folder in ` +
        `the option 'search' or in TILEKILN_MODELS. To get it: ${recipe.url ?? recipe.export}`,
    );
  }
  const bytes = readFileSync(path);
  if (expected && sha256(bytes) !== expected) {
    throw new Error(`recipe '${recipe.name}': ${path} has sha256 ${sha256(bytes)}, expected ${expected}`);
  }
  return { bytes, verified: Boolean(expected) };
}

function make_key(recipe, options) {
  const hash = createHash('sha256').update(
    JSON.stringify([recipe, options], (key, value) => (key === 'dir' ? undefined : value)),
  );
  for (const [path, bytes] of read_builder_code()) hash.update(path).update(bytes);
  return hash.digest('hex');
}

// A stamp holds the key (source hashes, builder code, options) and the file's own hash, so that neither new sources
// nor a damaged file go unnoticed.
function read_cached(onnx, stamp_path, key) {
  if (!existsSync(onnx) || !existsSync(stamp_path)) return null;
  const stamp = JSON.parse(readFileSync(stamp_path, 'utf8'));
  return stamp.key === key && stamp.sha256 === sha256(readFileSync(onnx)) ? stamp : null;
}

function write_whole(path, data) {
  writeFileSync(`${path}.part`, data);
  renameSync(`${path}.part`, path);
}

/**
 * Makes OUT_DIR/NAME.onnx, and beside it NAME.preprocess.json (for `tilekiln compile --preprocess`) and
 * NAME.labels.txt where the recipe has them. A built file that is up to date is left as it is.
 *
 * A 'file' recipe copies a file that you have, looked for in `search` (a list of folders) and in the folders of the
 * environment variable TILEKILN_MODELS. `random_weights` makes a network of the same layout with random weights
 * instead, for the recipes that name a layout.
 *
 * Options: search, random_weights, on_progress ({ name, stage, share } with stage 'make', 'write', 'done'), and what
 * the recipe's builder takes (batch, size). Returns { name, onnx, preprocess, labels, sha256, cached, verified };
 * `verified` is false if the file was not checked against a known hash.
 */
export async function build_recipe(
  name,
  out_dir,
  { search = [], random_weights = false, on_progress = () => {}, ...options } = {},
) {
  const recipe = find_recipe(name);
  if (random_weights && !recipe.layout) throw new Error(`recipe '${name}' has no layout to fill with random weights`);
  const preprocess =
    recipe.preprocess && options.size
      ? { ...recipe.preprocess, size: [options.size, options.size] }
      : recipe.preprocess;
  const make = () => {
    if (random_weights) return { bytes: write_onnx(make_layout(recipe.layout, options)), verified: false };
    return recipe.build ? make_built(recipe, preprocess, options) : read_file_of(recipe, search);
  };
  mkdirSync(out_dir, { recursive: true });
  const at = (suffix) => join(out_dir, `${name}.${suffix}`);
  const key = make_key(recipe, { random_weights, ...options });
  const cached = recipe.build || random_weights ? read_cached(at('onnx'), at('stamp.json'), key) : null;
  let stamp = cached;
  if (!stamp) {
    on_progress({ name, stage: 'make', share: 0 });
    const { bytes, verified } = await make();
    on_progress({ name, stage: 'write', share: 0.9 });
    write_whole(at('onnx'), bytes);
    stamp = { key, sha256: sha256(bytes), verified };
    write_whole(at('stamp.json'), `${JSON.stringify(stamp)}\n`);
  }
  const labels = read_recipe_labels(recipe);
  if (preprocess) write_whole(at('preprocess.json'), `${JSON.stringify(preprocess)}\n`);
  if (labels) write_whole(at('labels.txt'), `${labels.join('\n')}\n`);
  on_progress({ name, stage: 'done', share: 1 });
  return {
    name,
    onnx: at('onnx'),
    preprocess: preprocess ? at('preprocess.json') : null,
    labels: labels ? at('labels.txt') : null,
    sha256: stamp.sha256,
    cached: Boolean(cached),
    verified: stamp.verified,
  };
}
