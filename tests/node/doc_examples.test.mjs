// The examples in doc comments: every public function and class has one, and they compile against the package's types.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../scripts/run_stage.mjs';
import { api } from '../support/api.mjs';
import { temp_folder } from '../support/files.mjs';

/** What the examples take as given. */
const kAround = `
import * as tilekiln from 'tilekiln';
import { capabilities, Classifier, compile, Detector, ImageModel, KilnError, load, quantizationSvg, quantizationText, readImage, readNpy, Tensor, writeAnnotated, writeNpy } from 'tilekiln';
declare const bar: { set(share: number): void };
declare const imageBitmap: ImageBitmap;
declare const detector: Detector;
declare const model: tilekiln.Model;
declare const pictures: readonly tilekiln.PixelImage[];
declare function draw(box: readonly number[], caption: string): void;
export const used = [capabilities, Classifier, compile, Detector, ImageModel, KilnError, load, quantizationSvg, quantizationText, readImage, readNpy, Tensor, writeAnnotated, writeNpy, bar, imageBitmap, detector, model, draw];
`;

// Names as exported, where they differ from those in the source.
const kRenamed = {
  read_npy: 'readNpy',
  write_npy: 'writeNpy',
  read_image: 'readImage',
  quantization_text: 'quantizationText',
  quantization_svg: 'quantizationSvg',
  write_annotated: 'writeAnnotated',
};

/** Doc comments of exported functions and classes: name and example, '' where there is none. */
function read_docs() {
  const files = readdirSync(join(root, 'js/src'), { recursive: true }).filter((file) => file.endsWith('.ts'));
  return files.flatMap((file) => {
    const source = readFileSync(join(root, 'js/src', file), 'utf8');
    const found = source.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\nexport (?:async )?(?:function|class) (\w+)/g);
    return [...found].map(([, comment, name]) => {
      const text = comment.replace(/^ *\* ?/gm, '');
      const example = /@example\n([\s\S]*?)(?=\n@|$)/.exec(text)?.[1] ?? '';
      return { name: kRenamed[name] ?? name, example: example.trim() };
    });
  });
}

const docs = read_docs();

test('every_public_function_and_class_has_an_example', () => {
  const of_name = Object.fromEntries(docs.map(({ name, example }) => [name, example]));
  const without = Object.keys(api).filter((name) => name !== 'Model' && !of_name[name]); // load()'s example makes a Model
  assert.deepEqual(without, []);
});

test('examples_compile', (t) => {
  const folder = temp_folder(t);
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/tilekiln'));
  const bodies = docs
    .filter(({ name, example }) => example && Object.hasOwn(api, name))
    .map(({ name, example }) => `export async function example_of_${name}(): Promise<void> {\n${example}\n}\n`);
  assert.ok(bodies.length >= 10);
  writeFileSync(join(folder, 'examples.ts'), kAround + bodies.join('\n'));
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: 'es2022',
    module: 'esnext',
    moduleResolution: 'bundler',
    lib: ['es2022', 'dom', 'dom.iterable', 'esnext.disposable'],
    types: [],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['examples.ts'] }));
  const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', folder], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});
