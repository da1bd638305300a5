// Finds the recipes: every folder below models/ with a model.json is one.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const kModelsDir = dirname(fileURLToPath(import.meta.url));
const kNotRecipes = new Set(['cache', 'labels', 'layouts']);

function find_files(dir, matches) {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) return kNotRecipes.has(entry.name) && dir === kModelsDir ? [] : find_files(path, matches);
    return matches(entry.name) ? [path] : [];
  });
}

/** The recipes as { ...model.json, dir }, sorted by name. */
export function read_recipes() {
  return find_files(kModelsDir, (name) => name === 'model.json')
    .map((path) => ({ ...JSON.parse(readFileSync(path, 'utf8')), dir: dirname(path) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The recipe of that name, or an error that lists the names. */
export function find_recipe(name) {
  const recipes = read_recipes();
  const recipe = recipes.find((candidate) => candidate.name === name);
  if (!recipe) throw new Error(`unknown recipe '${name}'; known: ${recipes.map((r) => r.name).join(' ')}`);
  return recipe;
}

/** The code that makes graphs, as [path, bytes]; part of the key of the cache. */
export function read_builder_code() {
  const dirs = [kModelsDir, join(kModelsDir, 'layouts'), join(kModelsDir, 'labels')];
  return dirs
    .flatMap((dir) => find_files(dir, (name) => name.endsWith('.mjs')))
    .sort()
    .map((path) => [path.slice(kModelsDir.length), readFileSync(path)]);
}
