#!/usr/bin/env node
// Lists the model recipes, or makes a recipe's files: node models/build.mjs tiny_face_detector -o build/models
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build_recipe, list_recipes } from './index.mjs';

const kUsage = `usage: node models/build.mjs [NAME... | all] [-o DIR] [--search DIR]... [--random-weights] [--batch N|NAME] [--size N]
Without a name: lists the recipes. 'all' makes those that are built from npm packages.
  -o DIR            where the files go (default: models/cache below the project's folder)
  --search DIR      a folder with model files that you have, for recipes that need one
  --random-weights  a network of the same layout with random weights instead of the file`;

function print_recipes() {
  for (const { name, kind, task, licence, title } of list_recipes()) {
    console.log(`${name.padEnd(22)} ${kind.padEnd(6)} ${task.padEnd(19)} ${licence.padEnd(13)} ${title}`);
  }
}

function parse_build_options(values) {
  const options = { search: values.search, random_weights: values['random-weights'] };
  if (values.batch) options.batch = /^\d+$/.test(values.batch) ? Number(values.batch) : values.batch;
  if (values.size) options.size = Number(values.size);
  return options;
}

async function main() {
  const text = { type: 'string' };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'output': { ...text, short: 'o', default: fileURLToPath(new URL('cache', import.meta.url)) },
      'search': { ...text, multiple: true },
      'batch': text,
      'size': text,
      'random-weights': { type: 'boolean' },
      'help': { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return console.log(kUsage);
  if (positionals.length === 0) return print_recipes();
  const names =
    positionals[0] === 'all'
      ? list_recipes()
          .filter((r) => r.kind === 'built')
          .map((r) => r.name)
      : positionals;
  for (const name of names) {
    const made = await build_recipe(name, values.output, parse_build_options(values));
    console.log(`${made.onnx}${made.cached ? ' (was up to date)' : ''}${made.verified ? '' : ' (hash not checked)'}`);
  }
}

main().catch((error) => {
  console.error(`build: ${error.message}`);
  process.exitCode = 1;
});
