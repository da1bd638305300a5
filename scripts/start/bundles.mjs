// Makes the demo's bundles: recipes of models/ to ONNX, ONNX to .kiln, each only when something changed.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { build_recipe, list_recipes, read_recipe_labels } from '../../models/index.mjs';
import { root } from '../run_stage.mjs';

const kFolder = join(root, 'build/start');
const kShared = join(root, '../shared/data/models');

/** Nets of the face pipeline. */
export const kFaceNets = ['tiny_face_detector', 'face_landmark_68', 'face_recognition'];

/** Folders where the user's own models may lie: TILEKILN_MODELS, and ../shared where it is present. */
function model_folders() {
  const named = (process.env.TILEKILN_MODELS ?? '').split(delimiter).filter(Boolean);
  return [...named, kShared].filter(existsSync);
}

/** A hash of the compiler: another one makes all bundles anew. */
function compiler_hash() {
  return createHash('sha256')
    .update(readFileSync(join(root, 'dist/compiler.wasm')))
    .digest('hex');
}

async function compile_recipe(api, recipe, made) {
  const bundle = join(kFolder, `${recipe.name}.kiln`);
  const stamp_file = join(kFolder, `${recipe.name}.compiled`);
  const stamp = `${made.sha256} ${compiler_hash()} ${JSON.stringify(recipe.preprocess)}`;
  if (existsSync(bundle) && existsSync(stamp_file) && readFileSync(stamp_file, 'utf8') === stamp) return bundle;
  const options = {
    task: recipe.task?.startsWith('detect:') || recipe.task === 'classify' ? recipe.task : undefined,
    preprocess: recipe.preprocess ?? undefined,
    labels: read_recipe_labels(recipe) ?? undefined,
  };
  writeFileSync(bundle, await api.compile(made.onnx, options));
  writeFileSync(stamp_file, stamp);
  return bundle;
}

/**
 * @param api the package
 * @param {(text: string) => void} say one line a step
 * @returns {Promise<{name, title, task, bundle}[]>} the face nets first, then the recipes whose files are there
 */
export async function make_bundles(api, say) {
  mkdirSync(kFolder, { recursive: true });
  const recipes = list_recipes();
  const wanted = recipes.filter((recipe) => kFaceNets.includes(recipe.name));
  const folders = model_folders();
  const found = recipes.filter(
    (recipe) => recipe.kind === 'file' && folders.some((folder) => existsSync(join(folder, recipe.file))),
  );
  const bundles = [];
  for (const recipe of [...wanted, ...found]) {
    const start = performance.now();
    const made = await build_recipe(recipe.name, kFolder, { search: folders });
    const bundle = await compile_recipe(api, recipe, made);
    say(`${recipe.name}: ${recipe.title} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    bundles.push({ name: recipe.name, title: recipe.title, task: recipe.task, bundle });
  }
  return bundles;
}
