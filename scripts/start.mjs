// npm start: builds, compiles the face nets from an npm package's weights, finds faces on a sample photo, serves the page.
//   npm start -- [--once] [--port N] [--photo FILE]
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build_js } from './build_js.mjs';
import { build_wasm } from './build_wasm.mjs';
import { root } from './run_stage.mjs';
import { set_up } from './setup.mjs';

let values;
try {
  ({ values } = parseArgs({
    options: { once: { type: 'boolean' }, port: { type: 'string', default: '8080' }, photo: { type: 'string' } },
  }));
} catch (error) {
  console.error(`start: ${error.message}\nusage: npm start -- [--once] [--port N] [--photo FILE]`);
  process.exit(2);
}
const port = Number(values.port);
if (!Number.isInteger(port) || port < 0 || port > 65535) {
  console.error(`start: --port ${values.port}; allowed: 0 to 65535`);
  process.exit(2);
}

console.log('1/4 set-up');
await set_up('all');
console.log('2/4 building the package');
await build_wasm();
await build_js();
console.log('3/4 compiling models');
const api = await import(join(root, 'dist/index.node.js'));
const { make_bundles } = await import('./start/bundles.mjs');
const { sample_photos, show_faces } = await import('./start/faces.mjs');
try {
  const bundles = await make_bundles(api, (line) => console.log(`  ${line}`));
  console.log('4/4 finding faces');
  await show_faces(api, bundles, values.photo ?? sample_photos()[0]);
  if (!values.once) {
    const { serve_page } = await import('./start/serve_page.mjs');
    const server = await serve_page(bundles, port).catch((error) => {
      if (error.code !== 'EADDRINUSE') throw error;
      console.log(`port ${port} is taken, another one is used (choose with --port)`);
      return serve_page(bundles, 0);
    });
    console.log(`\nopen http://127.0.0.1:${server.address().port}/ and drop a picture on it (Ctrl+C ends)`);
  }
} catch (error) {
  console.error(`start: ${error.message}`);
  process.exitCode = 1;
}
