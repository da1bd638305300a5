// The demo page: a model, a picture, boxes or classes, and how long each part took.
import { Classifier, Detector } from './dist/index.js';
import { draw_detections } from './draw.mjs';

const element = (id) => document.getElementById(id);
const state = { engine: undefined, task: '', picture: undefined, turn: 0, load_turn: 0 };

function show_error(error) {
  element('error').hidden = !error;
  element('error').textContent = error ? error.message : '';
}

function show_status(text) {
  element('status').textContent = text;
}

function fill_table(heads, rows) {
  const table = element('results');
  const row_of = (tag, cells) => {
    const row = document.createElement('tr');
    cells.forEach((cell, i) => {
      const item = document.createElement(tag);
      item.textContent = cell;
      if (tag === 'th') item.scope = 'col';
      if (heads.length > 3 && i >= 2) item.className = 'wide';
      row.append(item);
    });
    return row;
  };
  table.tHead.replaceChildren(row_of('th', heads));
  table.tBodies[0].replaceChildren(...rows.map((cells) => row_of('td', cells)));
  table.hidden = rows.length === 0;
}

async function load_model({ name, url, task }) {
  const turn = ++state.load_turn;
  state.engine?.dispose();
  state.engine = undefined;
  show_status(`Loading ${name} …`);
  const start = performance.now();
  const onProgress = ({ stage, loaded, total }) => {
    if (turn === state.load_turn && stage === 'download' && total > 0)
      show_status(`Loading ${name}: ${Math.round((100 * loaded) / total)} %`);
  };
  const kind = task === 'classify' ? Classifier : Detector;
  const engine = await kind.load(new URL(url, document.baseURI), { onProgress });
  if (turn !== state.load_turn) return engine.dispose(); // another model was chosen meanwhile
  state.engine = engine;
  state.task = task;
  element('score-label').hidden = task === 'classify';
  show_status(`${name} is ready after ${Math.round(performance.now() - start)} ms`);
}

function describe_times({ pre_ms, run_ms, post_ms }) {
  const total = pre_ms + run_ms + post_ms;
  const part = (value) => `${value.toFixed(1)} ms`;
  return `${part(total)} in all: prepare ${part(pre_ms)}, run ${part(run_ms)}, decode ${part(post_ms)}`;
}

async function detect(engine, picture) {
  const detections = await engine.detect(picture, { score: Number(element('score').value) });
  draw_detections(element('canvas'), picture, detections);
  const rows = detections.map(({ label, score, box }) => [label, score.toFixed(3), ...box.map((v) => v.toFixed(0))]);
  fill_table(['object', 'score', 'x1', 'y1', 'x2', 'y2'], rows);
  return `${detections.length} ${detections.length === 1 ? 'object' : 'objects'}`;
}

async function classify(engine, picture) {
  const classes = await engine.classify(picture);
  draw_detections(element('canvas'), picture, []);
  fill_table(
    ['class', 'probability'],
    classes.map(({ label, score }) => [label, score.toFixed(4)]),
  );
  return classes[0].label;
}

async function run() {
  if (!state.picture || !state.engine) return;
  const turn = ++state.turn; // an older answer must not overwrite a newer one
  const { engine, picture } = state;
  const summary = await (state.task === 'classify' ? classify : detect)(engine, picture);
  if (turn !== state.turn) return;
  element('canvas').hidden = false;
  element('canvas').setAttribute('aria-label', `Picture with ${summary}`);
  element('hint').hidden = true;
  show_status(`${summary}; ${describe_times(engine.times)}`);
}

/** Runs a task of the page and shows what goes wrong where the user looks. */
function attempt(task) {
  show_error(undefined);
  return task().catch((error) => {
    show_error(error);
    show_status('');
  });
}

async function open_picture(blob) {
  let picture;
  try {
    picture = await createImageBitmap(blob);
  } catch {
    throw new Error(
      `${blob.name ?? 'The file'} is no picture that this browser can read (${blob.type || 'unknown type'})`,
    );
  }
  state.picture?.close();
  state.picture = picture;
  await run();
}

function add_samples(samples) {
  for (const [i, url] of samples.entries()) {
    const button = document.createElement('button');
    button.type = 'button';
    const image = document.createElement('img');
    image.src = url;
    image.alt = `Sample photo ${i + 1}`;
    image.loading = 'lazy';
    button.append(image);
    button.addEventListener('click', () => attempt(async () => open_picture(await (await fetch(url)).blob())));
    element('samples').append(button);
  }
}

function listen(models) {
  const drop = element('drop');
  const file = element('file');
  const choose = () => file.click();
  element('choose').addEventListener('click', choose);
  drop.addEventListener('click', choose);
  drop.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    choose();
  });
  file.addEventListener('change', () => {
    const [chosen] = file.files;
    file.value = ''; // so that the same file may be chosen again
    if (chosen) attempt(() => open_picture(chosen));
  });
  for (const name of ['dragover', 'dragleave', 'drop']) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle('over', name === 'dragover');
    });
  }
  document.addEventListener('drop', (event) => {
    const [dropped] = event.dataTransfer.files;
    attempt(async () => {
      if (!dropped) throw new Error('What was dropped is no file: drop a picture file');
      await open_picture(dropped);
    });
  });
  const score = element('score');
  score.addEventListener('input', () => {
    element('score-value').textContent = Number(score.value).toFixed(2);
    attempt(run);
  });
  const select = element('model');
  select.addEventListener('change', () =>
    attempt(async () => {
      await load_model(models[select.selectedIndex]);
      await run();
    }),
  );
}

async function start() {
  const { models, samples } = await (await fetch('models.json')).json();
  const select = element('model');
  select.append(...models.map(({ name, title }) => new Option(title, name)));
  select.disabled = false;
  add_samples(samples);
  listen(models);
  await load_model(models[0]);
  await run(); // a picture may have been dropped meanwhile
}

attempt(start);
