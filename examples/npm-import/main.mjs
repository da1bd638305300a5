// An ONNX model compiled and run in the page, from the npm package through a bundler.
import { compile, KilnError, load } from 'tilekiln';

const say = (text) => (document.getElementById('status').textContent = text);

/** Compiles the model, runs it once on ones, and tells what came out. */
async function run_model(source) {
  say('Compiling …');
  const bundle = await compile(source, { onNotice: (notice) => console.info(notice) });
  const model = await load(bundle);
  const feeds = Object.fromEntries(
    model.inputs.map(({ name, shape }) => [name, new Float32Array(shape.reduce((n, dim) => n * dim, 1)).fill(1)]),
  );
  const start = performance.now();
  const outputs = await model.run(feeds);
  const time = performance.now() - start;
  const shapes = Object.entries(outputs).map(([name, { shape, data }]) => `${name} [${shape}] starts with ${data[0]}`);
  model.dispose();
  return `${shapes.join('; ')} (bundle ${bundle.length} bytes, ${time.toFixed(1)} ms)`;
}

document.getElementById('file').addEventListener('change', async ({ target }) => {
  try {
    say(await run_model(target.files[0]));
  } catch (error) {
    if (!(error instanceof KilnError)) throw error;
    say([error.message, ...error.problems.map(({ message }) => message)].join('\n'));
  }
});
say('Choose an ONNX model with float inputs');
