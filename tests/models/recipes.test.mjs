// The recipes: complete, and what build_recipe() makes, keeps and refuses.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build_recipe, list_recipes, read_recipe_labels } from '../../models/index.mjs';
import { read_labels } from '../../models/labels/read_labels.mjs';
import { decode_model } from '../../models/onnx_proto.mjs';

const kSharedModels = fileURLToPath(new URL('../../../shared/data/models', import.meta.url));
const kResizes = ['letterbox', 'stretch', 'resize-crop'];

const make_dir = (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'recipes_'));
  t.after(() => rmSync(dir, { recursive: true }));
  return dir;
};

const shape_of = ({ type }) => type.tensor_type.shape.dim.map((d) => d.dim_param ?? Number(d.dim_value));

test('every_recipe_tells_source_licence_preprocessing_and_compile_line', () => {
  for (const recipe of list_recipes()) {
    const { name, kind, source, preprocess } = recipe;
    for (const key of ['title', 'licence', 'input', 'output', 'preprocess', 'task', 'decode', 'compile']) {
      assert.ok(recipe[key], `${name}: ${key}`);
    }
    const hashes = kind === 'file' ? [recipe.sha256] : Object.values(source.sha256);
    for (const hash of hashes)
      assert.ok(hash === null ? recipe.sha256_note : /^[0-9a-f]{64}$/.test(hash), `${name}: sha256`);
    if (kind === 'file') assert.ok(recipe.file && recipe.export && recipe.url !== undefined, name);
    assert.ok(kResizes.includes(preprocess.resize), name);
    assert.deepEqual(preprocess.size, recipe.input.shape.slice(2), name);
    assert.ok(
      [preprocess.mean, preprocess.std].every((list) => list.length === 3),
      name,
    );
    assert.match(recipe.compile, new RegExp(`^tilekiln compile ${name}\\.onnx -o ${name}\\.kiln `));
  }
});

test('label_files_have_their_counts', () => {
  assert.equal(read_labels('coco').length, 80);
  assert.equal(read_labels('imagenet').length, 1000);
  assert.equal(read_labels('cifar10').length, 10);
  assert.equal(read_recipe_labels({ labels: null }), null);
});

test('built_recipe_matches_its_description_and_is_kept', async (t) => {
  const dir = make_dir(t);
  for (const recipe of list_recipes().filter((r) => r.kind === 'built')) {
    const stages = [];
    const made = await build_recipe(recipe.name, dir, { on_progress: ({ stage }) => stages.push(stage) });
    assert.deepEqual(stages, ['make', 'write', 'done']);
    assert.ok(made.verified && !made.cached);
    const { graph, metadata_props } = decode_model(readFileSync(made.onnx));
    assert.equal(graph.input[0].name, recipe.input.name);
    assert.deepEqual(shape_of(graph.input[0]), recipe.input.shape);
    assert.equal(graph.output[0].name, recipe.output.name);
    assert.deepEqual(shape_of(graph.output[0]), recipe.output.shape);
    const metadata = Object.fromEntries(metadata_props.map(({ key, value }) => [key, value]));
    assert.deepEqual(JSON.parse(metadata.decode), recipe.decode);
    assert.deepEqual(JSON.parse(readFileSync(made.preprocess, 'utf8')), recipe.preprocess);

    const { mtimeMs } = statSync(made.onnx);
    assert.ok((await build_recipe(recipe.name, dir)).cached);
    assert.equal(statSync(made.onnx).mtimeMs, mtimeMs);
  }
});

test('damaged_file_and_other_options_are_made_anew', async (t) => {
  const dir = make_dir(t);
  const made = await build_recipe('face_landmark_68_tiny', dir);
  writeFileSync(made.onnx, 'damaged');
  assert.equal((await build_recipe('face_landmark_68_tiny', dir)).sha256, made.sha256);
  const batched = await build_recipe('face_landmark_68_tiny', dir, { batch: 4 });
  assert.ok(!batched.cached && batched.sha256 !== made.sha256);
});

test('size_option_reaches_graph_and_preprocessing', async (t) => {
  const dir = make_dir(t);
  const made = await build_recipe('tiny_face_detector', dir, { size: 224 });
  assert.deepEqual(JSON.parse(readFileSync(made.preprocess, 'utf8')).size, [224, 224]);
  assert.deepEqual(shape_of(decode_model(readFileSync(made.onnx)).graph.output[0]), [1, 7, 7, 25]);
  await assert.rejects(build_recipe('tiny_face_detector', dir, { size: 200 }), /size 200 is not a multiple of 32/);
});

test('random_weights_stand_in_for_a_file', async (t) => {
  const made = await build_recipe('yolov8n', make_dir(t), { random_weights: true, size: 64 });
  assert.ok(!made.verified);
  assert.equal(read_labels('coco').join('\n'), readFileSync(made.labels, 'utf8').trimEnd());
  await assert.rejects(build_recipe('yolox_nano', make_dir(t), { random_weights: true }), /no layout/);
});

test('file_recipe_copies_a_file_of_the_right_hash', { skip: !existsSync(kSharedModels) }, async (t) => {
  for (const { name } of list_recipes().filter((r) => r.kind === 'file' && r.sha256)) {
    const made = await build_recipe(name, make_dir(t), { search: [kSharedModels] });
    assert.ok(made.verified);
  }
});

test('bad_name_missing_file_and_wrong_hash_are_refused', async (t) => {
  const dir = make_dir(t);
  await assert.rejects(build_recipe('nothing', dir), /unknown recipe 'nothing'; known: face_landmark_68 /);
  await assert.rejects(build_recipe('resnet50', dir), /resnet50\.onnx not found.*pip install torch/s);
  const other = join(dir, 'other');
  mkdirSync(other);
  writeFileSync(join(other, 'yolox_nano.onnx'), 'not the model');
  await assert.rejects(build_recipe('yolox_nano', dir, { search: [other] }), /has sha256 .*, expected 695e750a/);
});
