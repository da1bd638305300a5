// quantize() with a stand-in for the compiler: statistics in, report out, evaluation and roll-back between.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../support/api.mjs';
import { planted_net, planted_samples, stand_in_compiler } from '../support/quant_net.mjs';
import { quant } from '../support/quant_inner.mjs';

// Tensors of the inner modules: api.Tensor is another class, of the built package.
const inner = (tensors) => tensors.map(({ dtype, shape, data }) => new quant.Tensor(dtype, shape, data));
const kCalibration = inner(planted_samples(12));
const kEvaluation = inner(planted_samples(30, 5000));
const kRuntime = { threads: 1 };

async function quantized(options, { call = {}, compiler = stand_in_compiler(), calibration = kCalibration } = {}) {
  let report;
  const onReport = (made) => (report = made);
  const bundle = await quant.quantize(compiler.compile, calibration, { runtime: kRuntime, ...options, onReport }, call);
  return { bundle, report, requests: compiler.requests };
}

test('the_compiler_gets_statistics_of_every_value', async () => {
  const { requests, report } = await quantized({ keepFloat: ['conv4'], method: 'mse', quantizeHead: true });
  assert.deepEqual(
    requests.map(({ precision, single, flags }) => [precision, single, flags.includes('--observe')]),
    [
      ['float', false, false],
      ['float', true, true],
      ['int8', false, false],
      ['int8', true, true],
    ],
  );
  const { flags, files } = requests[2];
  assert.equal(
    flags.join(' '),
    '--precision int8 --calib-stats option:calib-stats --calib-method mse --keep-float conv4 --quantize-head --quant-report option:quant-report',
  );
  const stats = JSON.parse(new TextDecoder().decode(files['option:calib-stats']));
  assert.deepEqual([stats.version, stats.samples], [1, 12]);
  assert.deepEqual(Object.keys(stats.values).sort(), ['logits', 'v0', 'v1', 'v2', 'v3', 'v4']);
  for (const { min, max, histogram } of Object.values(stats.values)) {
    assert.ok(min <= max);
    assert.equal(histogram.length, 2048);
  }
  const elements = 12 * 8 * 6 * 6;
  assert.equal(
    stats.values.v0.histogram.reduce((sum, count) => sum + count),
    elements,
  );
  assert.deepEqual([report.samples, report.method, report.precision], [12, 'mse', 'int8']);
  assert.equal(report.int8_share, 400 / 600);
});

test('layers_are_compared_with_float_and_the_worst_is_the_planted_one', async () => {
  const { report } = await quantized({});
  const drops = quant.own_losses(report.layers, new Map(report.layers.map((layer) => [layer.output, layer])));
  assert.equal(drops[0].layer.name, 'conv2');
  assert.ok(report.layers[1].sqnr_db > 30 && report.layers[2].sqnr_db < 10);
  assert.deepEqual(
    report.outputs.map(({ name }) => name),
    ['logits'],
  );
  assert.match(report.notices.join('\n'), /12 calibration samples: /);
});

test('budget_rolls_back_a_planted_bad_layer_and_only_it', async () => {
  for (const bad of [1, 2, 3, 4]) {
    const compiler = stand_in_compiler({ bad });
    const { bundle, report } = await quantized({ evaluate: kEvaluation, accuracyBudget: 5 }, { compiler });
    assert.deepEqual(
      report.layers.filter(({ precision }) => precision === 'float').map(({ name, reason }) => [name, reason]),
      [[`conv${bad}`, 'roll-back']],
    );
    assert.deepEqual(
      report.roll_back.map(({ nodes, to }) => [...nodes, to]),
      [[`conv${bad}`, 'float']],
    );
    assert.ok(report.evaluation.loss <= 5);
    assert.equal(report.evaluation.metric, 'top-1 agreement');
    const model = await api.load(bundle);
    assert.equal(model.outputs.length, 1, 'the bundle that runs has no observed outputs');
    model.dispose();
  }
});

test('a_layer_that_went_without_need_comes_back', async () => {
  const layer = (name, inputs, output, precision = 'int8') => ({ name, inputs, output, precision });
  const likeness = new Map([
    ['a', { sqnr_db: 20 }],
    ['b', { sqnr_db: 10 }],
  ]);
  const make = (nodes) => {
    const is_float = (name) => (nodes.includes(name) ? 'float' : 'int8');
    const layers = [layer('first', [], 'a', is_float('first')), layer('second', ['a'], 'b', is_float('second'))];
    return { report: { layers }, evaluation: { loss: nodes.includes('second') ? 0 : 9 } };
  };
  const actions = { attempt: async (nodes) => make(nodes), compare: async () => likeness };
  const result = await quant.roll_back(make([]), 1, actions);
  assert.deepEqual(result.nodes, ['second']);
  assert.deepEqual(result.steps, [
    { nodes: ['first'], to: 'float', loss: 9, kept: true },
    { nodes: ['second'], to: 'float', loss: 0, kept: true },
    { nodes: ['first'], to: 'int8', loss: 0, kept: true },
  ]);
});

test('makers_of_a_float_layers_bad_inputs_are_the_culprits', () => {
  const layers = [
    { name: 'maker', inputs: ['x'], output: 'a', precision: 'int8' },
    { name: 'victim', inputs: ['a'], output: 'b', precision: 'float' },
    { name: 'other', inputs: ['b'], output: 'c', precision: 'int8' },
  ];
  const likeness = new Map([
    ['a', { sqnr_db: 45 }],
    ['b', { sqnr_db: 12 }],
    ['c', { sqnr_db: 5 }],
  ]);
  assert.deepEqual(quant.culprits(layers, likeness), ['maker', 'other']);
});

test('float_comes_out_where_int8_cannot_meet_the_budget', async () => {
  const { compile } = stand_in_compiler();
  // Whatever is float, this int8 is wrong: another net.
  const spoilt = async (request) => {
    const made = await compile(request);
    if (request.precision === 'float' || request.flags.includes('--observe')) return made;
    const names = [0, 1, 2, 3, 4].map((i) => `conv${i}`);
    return { ...made, bundle: await api.compile(planted_net({ bad: 1, int8: names })) };
  };
  const float = (await compile({ precision: 'float', flags: [], files: {} })).bundle;
  const compiler = { compile: spoilt, requests: [] };
  const options = { evaluate: kEvaluation, accuracyBudget: 0 };
  const { bundle, report } = await quantized(options, { compiler });
  assert.deepEqual(Buffer.from(bundle), Buffer.from(float));
  assert.deepEqual([report.precision, report.int8_macs, report.int8_share], ['float', 0, 0]);
  assert.match(report.notices.join('\n'), /int8 cannot meet the accuracy budget of 0: the bundle is float/);
  assert.ok(report.layers.every(({ precision }) => precision === 'float'));
});

test('labels_make_the_loss_points_of_accuracy', async () => {
  const labels = kEvaluation.map((_, i) => i % 4);
  const { report } = await quantized({ evaluate: kEvaluation, evaluateLabels: labels });
  const { metric, loss, accuracy, float_accuracy } = report.evaluation;
  assert.equal(metric, 'top-1 accuracy');
  assert.equal(loss, float_accuracy - accuracy);
  await assert.rejects(quantized({ evaluate: kEvaluation, evaluateLabels: [1] }), {
    code: 'INVALID_ARGUMENT',
    message: /evaluateLabels has 1 entries, the evaluation set 30 samples/,
  });
  await assert.rejects(quantized({ evaluate: kEvaluation.slice(0, 1), evaluateLabels: ['cat'] }), {
    code: 'INVALID_ARGUMENT',
    message: /'cat' is none of the bundle's/,
  });
});

test('pictures_go_through_the_bundles_recipe', async () => {
  const preprocess = { resize: 'stretch', scale: 255 };
  const compiler = stand_in_compiler({ options: { preprocess } });
  const pixels = (seed) => planted_samples(1, seed)[0].data.map((v) => 255 * v);
  const pictures = [1, 2, 3].map((seed) => {
    return { data: Uint8Array.from(pixels(seed)), width: 6, height: 6, channels: 3 };
  });
  const stacked = new Uint8Array(3 * 108);
  pictures.forEach(({ data }, i) => stacked.set(data, 108 * i));
  const from_pictures = await quantized({}, { compiler, calibration: pictures });
  const tensor = new quant.Tensor('u8', [3, 6, 6, 3], stacked);
  const from_tensor = await quantized(
    {},
    { compiler: stand_in_compiler({ options: { preprocess } }), calibration: tensor },
  );
  const stats = ({ requests }) =>
    Buffer.from(requests.find(({ precision }) => precision === 'int8').files['option:calib-stats']);
  assert.deepEqual(stats(from_pictures), stats(from_tensor));
  await assert.rejects(quantized({}, { calibration: pictures }), /the bundle says nothing of preprocessing/);
});

test('detections_are_matched_by_class_and_overlap', () => {
  const at = (x, id = 0) => ({ box: [x, 0, x + 10, 10], class: id });
  assert.equal(quant.count_matches([at(0), at(20)], [at(20), at(1)]), 2);
  assert.equal(quant.count_matches([at(0), at(1)], [at(0)]), 1);
  assert.equal(quant.count_matches([at(0, 1)], [at(0, 2)]), 0);
  assert.equal(quant.count_matches([at(0)], [at(4)]), 0);
  assert.equal(quant.count_matches([], [at(4)]), 0);
});

test('samples_that_do_not_fit_are_named', async () => {
  const wrong = new quant.Tensor('f32', [1, 3, 5, 6], new Float32Array(90));
  await assert.rejects(quantized({}, { calibration: [wrong] }), {
    code: 'SHAPE',
    message: /input 'images'.*\[1, 3, 5, 6\]/,
  });
  await assert.rejects(quantized({}, { calibration: [{ image: wrong }] }), /has no input 'image'/);
  const nan = new quant.Tensor('f32', [1, 3, 6, 6], new Float32Array(108).fill(NaN));
  await assert.rejects(
    quantized({}, { calibration: [...kCalibration, nan] }),
    /is not finite for calibration sample 13/,
  );
  let pass = 0;
  const shrinking = () => kCalibration.slice(pass++);
  await assert.rejects(quantized({}, { calibration: shrinking }), /12 samples in the first pass and 11 in the second/);
});

test('an_abort_ends_it_and_progress_tells_of_each_stage', async () => {
  const stages = new Map();
  const onProgress = ({ stage, loaded, total }) => stages.set(stage, [loaded, total]);
  await quantized({ evaluate: kEvaluation }, { call: { onProgress } });
  assert.deepEqual(stages.get('calibrate'), [24, 24]);
  assert.deepEqual(stages.get('compare'), [12, 12]);
  assert.deepEqual(stages.get('evaluate'), [30, 30]);
  for (const at of ['calibrate', 'compare', 'evaluate']) {
    const controller = new AbortController();
    const call = { signal: controller.signal, onProgress: ({ stage }) => stage === at && controller.abort() };
    await assert.rejects(quantized({ evaluate: kEvaluation }, { call }), { code: 'ABORTED' }, at);
  }
});

test('the_report_as_text_json_and_svg', async () => {
  const { report } = await quantized({ evaluate: kEvaluation, accuracyBudget: 5, keepFloat: ['conv0'] });
  const text = quant.quantization_text(report);
  assert.match(
    text,
    /^method search, 12 calibration samples\nint8: 50\.0 % of 600 MACs run in int8; 2 of 5 layers stay float\n/,
  );
  assert.match(text, /^roll-back: conv2 to float: loss /m);
  assert.match(text, /^notice: 12 calibration samples/m);
  for (const { name } of report.layers) assert.match(text, new RegExp(`^${name} +Conv +(int8|float) `, 'm'));
  assert.match(text, /^conv0 +Conv +float .* equal +1\.00000 .* keep-float$/m);
  const json = JSON.parse(JSON.stringify(report));
  assert.equal(json.layers[0].sqnr_db, null);
  const svg = quant.quantization_svg(report);
  assert.match(svg, /^<svg xmlns/);
  assert.match(svg, />SQNR \(dB\)</);
  assert.match(svg, /prefers-color-scheme: dark/);
  assert.equal(svg.match(/<title>/g).length, 5);
  assert.match(svg, /class="int8"/);
  assert.match(svg, /class="float equal"/);
  const odd = { ...report, layers: [{ ...report.layers[1], name: 'a<b>&"' }] };
  assert.match(quant.quantization_svg(odd), /a&lt;b&gt;&amp;&quot;/);
});
