// Type-checks js/ and bundles its entry points into dist/ (esbuild), with declarations beside them (tsc).
import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './run_stage.mjs';

const kEntryPoints = {
  'index': 'js/src/index.browser.ts',
  'index.node': 'js/src/index.node.ts',
  'index.node_fast': 'js/src/index.node_fast.ts',
  'cli': 'js/src/cli/main.ts',
  'kiln-thread': 'js/src/worker/thread.browser.ts',
  'kiln-thread.node': 'js/src/worker/thread.node.ts',
};

/** Builds dist/*.js and dist/types; exits with tsc's code if the types are wrong. */
export async function build_js() {
  const esbuild = await import('esbuild');
  const dist = join(root, 'dist');
  mkdirSync(dist, { recursive: true });
  rmSync(join(dist, 'types'), { recursive: true, force: true });
  const code = await run(join(root, 'node_modules/.bin/tsc'), ['-p', 'js/tsconfig.json']);
  if (code !== 0) process.exit(code);
  const entryPoints = Object.entries(kEntryPoints).map(([out, file]) => ({ in: join(root, file), out }));
  await esbuild.build({
    entryPoints: entryPoints.filter((entry) => existsSync(entry.in)),
    outdir: dist,
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    external: ['node:*', 'sharp'],
    sourcemap: true,
    logLevel: 'warning',
  });
  copyFileSync(join(root, 'LICENSE'), join(dist, 'LICENSE'));
}
