// Builds the wasm artefacts with the CMake preset `wasm` and copies them to dist/.
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { root, run_all } from './run_stage.mjs';

/** Largest raw size of a runtime artefact, bytes. */
export const kRuntimeBudget = 300 * 1024;

/** Configures once, builds, copies; exits with the build's code if it fails or a runtime artefact is over its budget. */
export async function build_wasm() {
  const commands = [];
  if (!existsSync(join(root, 'build/wasm/build.ninja'))) commands.push(['cmake', ['--preset', 'wasm']]);
  commands.push(['cmake', ['--build', '--preset', 'wasm', '--target', 'artefacts']]);
  const code = await run_all(commands);
  if (code !== 0) process.exit(code);

  const from = join(root, 'build/wasm/artefacts');
  const dist = join(root, 'dist');
  mkdirSync(dist, { recursive: true });
  let over = false;
  for (const name of readdirSync(from)
    .filter((file) => file.endsWith('.wasm'))
    .sort()) {
    copyFileSync(join(from, name), join(dist, name));
    const bytes = statSync(join(dist, name)).size;
    const gzip = gzipSync(readFileSync(join(dist, name)), { level: 9 }).length;
    const is_runtime = name.startsWith('kiln-');
    over ||= is_runtime && bytes > kRuntimeBudget;
    const budget = is_runtime ? ` of ${(kRuntimeBudget / 1024).toFixed(0)} KB allowed` : '';
    console.log(`${name}: ${(bytes / 1024).toFixed(1)} KB${budget}, ${(gzip / 1024).toFixed(1)} KB gzip`);
  }
  if (over) {
    console.error('build: a runtime artefact is larger than its budget');
    process.exit(1);
  }
}
