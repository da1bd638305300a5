// Bundles main.mjs into public/, with the package's wasm files beside it: that is where the package looks for them.
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
for (const name of ['kiln-simd.wasm', 'kiln-relaxed.wasm', 'compiler.wasm']) {
  copyFileSync(fileURLToPath(import.meta.resolve(`tilekiln/${name}`)), join(out, name));
}
copyFileSync('index.html', join(out, 'index.html'));
