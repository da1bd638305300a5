// tilekiln fetch: downloads a model that a recipe of models/ names, and verifies it.
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KilnError } from '../core/errors.ts';
import { read_source } from '../core/source.ts';
import { UsageError, parse_options, print, say, write_user_file, type Command } from './command.ts';

interface Recipe {
  readonly name: string;
  readonly licence?: string;
  /** Where the ONNX file is published; absent if it must be exported or built. */
  readonly url?: string | null;
  readonly sha256?: string | null;
  readonly export?: string;
  /** Builder script, for recipes that make their ONNX file from an npm package's weights. */
  readonly build?: string;
  readonly compile?: string;
}

const kRecipes = fileURLToPath(new URL('../models/', import.meta.url));

async function read_recipes(): Promise<readonly Recipe[]> {
  const files = await readdir(kRecipes, { recursive: true }).catch(() => [] as string[]);
  const recipes = files.filter((file) => basename(file) === 'model.json');
  return Promise.all(recipes.map(async (file) => JSON.parse(await readFile(join(kRecipes, file), 'utf8')) as Recipe));
}

async function read_recipe(name: string): Promise<Recipe> {
  const recipes = await read_recipes();
  const recipe = recipes.find((candidate) => candidate.name === name);
  if (recipe) return recipe;
  const known = recipes.map((candidate) => candidate.name).sort();
  throw new UsageError(
    `no recipe '${name}'; allowed: ${known.join(', ') || 'none (the package has no models folder)'}`,
  );
}

function why_not_published(recipe: Recipe): string {
  if (recipe.build)
    return `${recipe.name} is built from an npm package's weights: node models/build.mjs ${recipe.name}`;
  return `${recipe.name} is not published as ONNX; export it with: ${recipe.export ?? 'see models/README.md'}`;
}

export const fetch_command: Command = {
  name: 'fetch',
  usage: 'NAME [-o FILE.onnx] [--url URL]',
  summary: 'download and verify a model of models/',
  run: async (args) => {
    const { values, positionals } = parse_options(args, {
      output: { type: 'string', short: 'o' },
      url: { type: 'string' },
    });
    if (positionals.length !== 1) throw new UsageError('fetch needs one recipe name');
    const recipe = await read_recipe(positionals[0]!);
    const url = values.url ?? recipe.url;
    if (!url) {
      throw new KilnError('UNSUPPORTED', why_not_published(recipe));
    }
    if (recipe.licence) say(`licence: ${recipe.licence}`);
    let shown = -1;
    const bytes = await read_source(url, {
      onProgress: ({ loaded, total }) => {
        const percent = total > 0 ? Math.floor((loaded / total) * 10) * 10 : Math.floor(loaded / 1e7);
        if (percent !== shown)
          say(total > 0 ? `${percent} % of ${(total / 1e6).toFixed(1)} MB` : `${(loaded / 1e6).toFixed(0)} MB`);
        shown = percent;
      },
    });
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    if (recipe.sha256 && sha256 !== recipe.sha256) {
      throw new KilnError(
        'CORRUPT',
        `${url}: sha256 is ${sha256}, the recipe says ${recipe.sha256}; nothing was written`,
      );
    }
    if (!recipe.sha256) say(`sha256 ${sha256} (the recipe has none to compare with)`);
    const output = values.output ?? `${recipe.name}.onnx`;
    await write_user_file(output, bytes);
    print(`${output}: ${bytes.length} bytes${recipe.sha256 ? ', verified' : ''}`);
    if (recipe.compile) say(`next: ${recipe.compile}`);
    return 0;
  },
};
