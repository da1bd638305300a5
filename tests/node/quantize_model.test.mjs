// compile({ precision: 'int8' }) and `tilekiln compile --precision int8` end to end, on small nets.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import sharp from 'sharp';
import { api, relative_error } from '../support/api.mjs';
import { run_cli } from '../support/cli.mjs';
import { temp_folder } from '../support/files.mjs';
import { planted_net, planted_samples } from '../support/quant_net.mjs';

const kSamples = planted_samples(20);
const kPreprocess = { resize: 'stretch', scale: 255 };

async function quantised(onnx, { calibration = kSamples, quantization = {}, ...options } = {}) {
  let report;
  const onReport = (made) => (report = made);
  const all = { ...options, precision: 'int8', calibration, quantization: { ...quantization, onReport } };
  return { bundle: await api.compile(onnx, all), report };
}

test('an_int8_model_is_close_to_float_and_nearly_all_of_it_is_int8', async () => {
  const onnx = planted_net({ bad: -1 });
  const { bundle, report } = await quantised(onnx);
  assert.ok(report.int8_share >= 0.95, `${report.int8_share}`);
  assert.equal(report.samples, kSamples.length);
  assert.deepEqual(
    report.outputs.map(({ name, sqnr_db }) => [name, sqnr_db > 25]),
    [['logits', true]],
  );
  for (const { name, sqnr_db, cosine } of report.layers) assert.ok(sqnr_db > 25 && cosine > 0.99, `${name} ${sqnr_db}`);
  const model = await api.load(bundle);
  assert.deepEqual(
    model.outputs.map(({ name }) => name),
    ['logits'],
  );
  assert.equal(model.metadata.precision, 'int8');
  model.dispose();
  const again = await quantised(onnx, { calibration: () => kSamples });
  assert.deepEqual(Buffer.from(again.bundle), Buffer.from(bundle), 'the same samples give the same bytes');
});

test('a_model_of_which_nothing_is_int8_says_so', async () => {
  const keepFloat = [...[0, 1, 2, 3, 4].map((i) => `conv${i}`), 'gemm'];
  const { report } = await quantised(planted_net(), { quantization: { keepFloat } });
  assert.equal(report.int8_macs, 0);
  assert.match(report.notices.join('\n'), /no convolution or product runs in int8: the report says why of each/);
  assert.ok(report.layers.every(({ reason }) => reason !== ''));
});

test('every_method_quantises', async () => {
  for (const method of ['search', 'minmax', 'percentile', 'entropy', 'mse']) {
    const { report } = await quantised(planted_net({ bad: -1 }), { quantization: { method } });
    assert.equal(report.method, method);
    const least = method === 'entropy' ? 8 : 25; // entropy gives the tails up
    assert.ok(report.outputs[0].sqnr_db > least, `${method} ${report.outputs[0].sqnr_db}`);
  }
});

test('budget_rolls_back_a_planted_bad_layer_and_only_it', async () => {
  const evaluate = planted_samples(30, 5000);
  const { report } = await quantised(planted_net({ bad: 2 }), { quantization: { evaluate, accuracyBudget: 5 } });
  const floats = report.layers.filter(({ reason }) => reason === 'roll-back').map(({ name }) => name);
  assert.deepEqual(floats, ['conv2'], JSON.stringify(report.roll_back));
  assert.ok(report.evaluation.loss <= 5);
  const without = await quantised(planted_net({ bad: 2 }), { quantization: { evaluate } });
  assert.ok(without.report.evaluation.loss > 5, 'the layer is bad in int8');
  assert.equal(without.report.roll_back.length, 0);
});

test('layers_kept_float_are_named_and_an_unknown_one_is_refused', async () => {
  const { report } = await quantised(planted_net({ bad: -1 }), { quantization: { keepFloat: ['conv1', 'conv3'] } });
  const kept = report.layers.filter(({ reason }) => reason === 'keep-float').map(({ name }) => name);
  assert.deepEqual(kept, ['conv1', 'conv3']);
  await assert.rejects(quantised(planted_net(), { quantization: { keepFloat: ['conv9'] } }), {
    name: 'KilnError',
    message: /conv9/,
  });
});

test('a_free_batch_is_calibrated_at_one_and_keeps_its_profiles', async () => {
  const { bundle } = await quantised(planted_net({ bad: -1, batch: 'N' }), { dynamicBatch: [1, 4] });
  const model = await api.load(bundle);
  assert.deepEqual(
    model.inputs[0].profiles.map(([n]) => n),
    [1, 4],
  );
  const four = new api.Tensor(
    'f32',
    [4, 3, 6, 6],
    Float32Array.from(kSamples.slice(0, 4).flatMap(({ data }) => [...data])),
  );
  const { logits } = await model.run({ images: four });
  for (let i = 0; i < 4; ++i) {
    const one = await model.run({ images: kSamples[i] });
    assert.ok(relative_error(logits.data.subarray(4 * i, 4 * i + 4), one.logits.data) < 1e-5);
  }
  model.dispose();
});

/** A folder with class folders of small pictures. */
async function picture_folder(folder, counts) {
  for (const [name, count] of Object.entries(counts)) {
    mkdirSync(join(folder, name), { recursive: true });
    for (const [i, { data }] of planted_samples(count, 7 * name.length).entries()) {
      const pixels = Buffer.from(
        Uint8Array.from({ length: 108 }, (_, at) => 255 * data[(at % 3) * 36 + Math.floor(at / 3)]),
      );
      const png = sharp(pixels, { raw: { width: 6, height: 6, channels: 3 } }).png();
      writeFileSync(join(folder, name, `${i}.png`), await png.toBuffer());
    }
  }
}

test('the_command_line_quantises_with_a_folder_and_writes_the_report', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), planted_net({ bad: -1 }));
  writeFileSync(join(cwd, 'recipe.json'), JSON.stringify(kPreprocess));
  await picture_folder(join(cwd, 'calib'), { cat: 8, dog: 2 });
  await picture_folder(join(cwd, 'eval'), { 0: 3, 1: 3 });
  const args = ['--preprocess', 'recipe.json', '--precision', 'int8', '--calibrate', 'calib', '--calib-method=mse'];
  const evaluate = ['--evaluate', 'eval', '--accuracy-budget', '50', '--report', 'out', '--keep-float', 'conv4'];
  const { code, stdout, stderr } = await run_cli(['compile', 'net.onnx', ...args, ...evaluate], { cwd });
  assert.deepEqual([code, stdout], [0, ''], stderr);
  assert.match(stderr, /^calibrating: 20 runs$/m);
  assert.match(stderr, /^comparing with float/m);
  assert.match(stderr, /^evaluating/m);
  assert.match(stderr, /^notice: 10 calibration samples: ranges from fewer than 100/m);
  assert.match(stderr, /^notice: the calibration set is unbalanced: class folder 'cat' gives 8 pictures, 'dog' 2/m);
  assert.match(stderr, /^int8: \d+\.\d % of \d+ MACs run in int8.*; \d+ of \d+ layers stay float$/m);
  assert.match(stderr, /^worst layers by SQNR in dB: /m);
  assert.match(stderr, /^output 'logits' on 10 calibration samples: SQNR /m);
  assert.match(stderr, /^top-1 accuracy .* points lost on 6 evaluation samples; budget 50$/m);
  assert.match(stderr, /^bundle: .* of float's /m);
  assert.match(stderr, /^wrote net\.kiln$/m);
  const report = JSON.parse(readFileSync(join(cwd, 'out/quantisation.json'), 'utf8'));
  assert.deepEqual([report.method, report.samples, report.evaluation.metric], ['mse', 10, 'top-1 accuracy']);
  assert.match(readFileSync(join(cwd, 'out/quantisation.txt'), 'utf8'), /^conv4 .* keep-float$/m);
  assert.match(readFileSync(join(cwd, 'out/quantisation.svg'), 'utf8'), /^<svg /);
  const classify = await run_cli(['classify', 'net.kiln', 'eval/0/0.png'], { cwd });
  assert.equal(classify.code, 0, classify.stderr);
});

test('the_command_line_quantises_with_a_npy_file_and_fails_as_the_compiler_does', async (t) => {
  const cwd = temp_folder(t);
  writeFileSync(join(cwd, 'net.onnx'), planted_net({ bad: -1 }));
  const rows = Float32Array.from(kSamples.flatMap(({ data }) => [...data]));
  writeFileSync(join(cwd, 'x.npy'), api.writeNpy(new api.Tensor('f32', [20, 3, 6, 6], rows)));
  const int8 = ['--precision', 'int8', '--calibrate', 'x.npy'];
  const { code, stderr } = await run_cli(['compile', 'net.onnx', ...int8, '--calib-count', '5', '-o', 'q.kiln'], {
    cwd,
  });
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^calibrating: 10 runs$/m);
  const { bundle } = await quantised(planted_net({ bad: -1 }), { quantization: { count: 5 } });
  assert.deepEqual(readFileSync(join(cwd, 'q.kiln')), Buffer.from(bundle), 'the same bytes as compile() makes');
  for (const [more, message] of [
    [['--keep-float', 'conv9'], /^error: .*conv9/m],
    [['--task', 'paint'], /^error: .*paint/m],
    [['-o', 'x.npy'], /would overwrite the input x\.npy/],
  ]) {
    const failed = await run_cli(['compile', 'net.onnx', ...int8, ...more], { cwd });
    assert.ok(failed.code > 0, failed.stderr);
    assert.match(failed.stderr, message);
    assert.ok(!existsSync(join(cwd, 'net.kiln')));
  }
});
