// Runs a detector or classifier over a folder of pictures and writes one CSV line a finding.
//
//   node examples/node-batch/score_folder.mjs MODEL.kiln FOLDER [--score 0.25] > findings.csv
//
// Exit codes: 0 all pictures were read, 1 some were not (they are named on standard error), 2 usage.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Classifier, Detector, KilnError, load, readImage } from 'tilekiln';

const kPicture = /\.(jpe?g|png|webp|gif|avif|tiff?)$/i;

function read_arguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { score: { type: 'string', default: '0.25' } },
  });
  if (positionals.length !== 2) throw new Error('a bundle and a folder are needed');
  return { bundle: positionals[0], folder: positionals[1], score: Number(values.score) };
}

const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Rows of one picture: label, score, and the box where there is one. */
async function score_picture(engine, image, score) {
  if (engine instanceof Classifier) {
    const [best] = await engine.classify(image, { top: 1 });
    return [[best.label, best.score.toFixed(4), '', '', '', '']];
  }
  const found = await engine.detect(image, { score });
  return found.map((one) => [one.label, one.score.toFixed(4), ...one.box.map((side) => side.toFixed(1))]);
}

async function score_folder({ bundle, folder, score }) {
  const model = await load(bundle);
  const engine = model.metadata.task === 'classify' ? new Classifier(model) : new Detector(model);
  const names = (await readdir(folder)).filter((name) => kPicture.test(name)).sort();
  let failed = 0;
  let milliseconds = 0;
  console.log('picture,label,score,x1,y1,x2,y2');
  for (const name of names) {
    try {
      const rows = await score_picture(engine, await readImage(join(folder, name)), score);
      for (const row of rows) console.log([quote(name), quote(row[0]), ...row.slice(1)].join(','));
      milliseconds += engine.times.pre_ms + engine.times.run_ms + engine.times.post_ms;
    } catch (error) {
      if (!(error instanceof KilnError)) throw error;
      console.error(error.message);
      ++failed;
    }
  }
  const done = names.length - failed;
  console.error(`${done} of ${names.length} pictures, ${(milliseconds / Math.max(1, done)).toFixed(1)} ms each`);
  engine.dispose();
  return failed > 0 ? 1 : 0;
}

let job;
try {
  job = read_arguments();
} catch (error) {
  console.error(`${error.message}\nusage: score_folder.mjs MODEL.kiln FOLDER [--score 0.25]`);
  process.exit(2);
}
try {
  process.exitCode = await score_folder(job);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
