// Bundles main.mjs into public/, with the package's wasm files and its workers' script beside it: that is where the package
// looks for them.
//
//   npm install && npm run build, then serve public/ with any static server
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const out = 'public';
mkdirSync(out, { recursive: true });
await build({ entryPoints: ['main.mjs'], outfile: join(out, 'main.js'), bundle: true, format: 'esm', minify: true });
// Vite and webpack 5 copy these by themselves, since the package names them by `new URL('…', import.meta.url)`.
const kNames = ['kiln-simd', 'kiln-relaxed', 'kiln-simd-mt', 'kiln-relaxed-mt', 'compiler'].map(
  (name) => `${name}.wasm`,
);
for (const name of [...kNames, 'kiln-thread.js']) {
  copyFileSync(fileURLToPath(import.meta.resolve(`tilekiln/${name}`)), join(out, name));
}
copyFileSync('index.html', join(out, 'index.html'));
