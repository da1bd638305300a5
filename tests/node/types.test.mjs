// The package's types under the module resolutions that users have, with library checks on: no `any`, no missing file.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../scripts/run_stage.mjs';
import { temp_folder } from '../support/files.mjs';

const kStrict = { strict: true, noEmit: true, skipLibCheck: false, exactOptionalPropertyTypes: true, target: 'es2022' };

const kSettings = [
  ['node16', { module: 'node16', moduleResolution: 'node16', lib: ['es2022', 'dom'], types: [] }],
  ['nodenext', { module: 'nodenext', moduleResolution: 'nodenext', lib: ['es2022', 'dom'], types: [] }],
  ['bundler', { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'], types: [] }],
  ['bundler, Node types, no DOM', { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022'], types: ['node'] }],
];

/** A project that has installed the package: its package.json, dist and nothing else of the repository. */
function make_project(t) {
  const folder = temp_folder(t);
  const installed = join(folder, 'node_modules/tilekiln');
  mkdirSync(installed, { recursive: true });
  copyFileSync(join(root, 'package.json'), join(installed, 'package.json'));
  symlinkSync(join(root, 'dist'), join(installed, 'dist'));
  mkdirSync(join(folder, 'node_modules/@types'));
  symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
  symlinkSync(join(root, 'node_modules/undici-types'), join(folder, 'node_modules/undici-types'));
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  for (const name of ['consumer.ts', 'node_consumer.ts']) {
    copyFileSync(join(root, 'tests/node/types', name), join(folder, name));
  }
  return folder;
}

function check_types(folder, compilerOptions, files) {
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...kStrict, preserveSymlinks: true, ...compilerOptions }, files }),
  );
  return spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', folder], { encoding: 'utf8' });
}

test('types_resolve_under_every_module_resolution', (t) => {
  const folder = make_project(t);
  for (const [name, options] of kSettings) {
    const { status, stdout } = check_types(folder, options, ['consumer.ts', 'node_consumer.ts']);
    assert.equal(status, 0, `${name}:\n${stdout}`);
  }
});

test('a_type_error_in_a_consumer_is_found', (t) => {
  const folder = make_project(t);
  writeFileSync(
    join(folder, 'wrong.ts'),
    "import { load } from 'tilekiln';\nexport const n: number = await load('m.kiln');\n",
  );
  const { status, stdout } = check_types(folder, kSettings[2][1], ['wrong.ts']);
  assert.notEqual(status, 0);
  assert.match(stdout, /wrong\.ts\(2,14\): error TS2322: Type 'Model'/);
});
