// Inner modules of js/src for tests, bundled together so that they share their state, as in the package.
import { mkdirSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../../scripts/run_stage.mjs';

/**
 * Everything that the modules export, in one object.
 * @param {string[]} modules paths below js/src, as 'core/source.ts'
 */
export async function import_inner(modules) {
  const { build } = await import('esbuild');
  const folder = join(root, 'build/test-inner');
  mkdirSync(folder, { recursive: true });
  const name = createHash('sha256').update(modules.join()).digest('hex').slice(0, 12);
  const outfile = join(folder, `${name}-${process.pid}.mjs`);
  await build({
    stdin: {
      contents: modules.map((module) => `export * from './${module}';`).join('\n'),
      resolveDir: join(root, 'js/src'),
      loader: 'ts',
    },
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    external: ['node:*', 'sharp'],
    sourcemap: 'inline',
    logLevel: 'error',
  });
  return import(pathToFileURL(outfile));
}
