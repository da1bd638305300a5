// A net of five convolutions with one layer that int8 weights spoil, and a stand-in for the compiler's int8 half: weights
// rounded to 8 bits a tensor, everything else float.
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { api, random_tensor } from './api.mjs';

export const kLayers = 5;
const kChannels = 8;
const kSide = 6;

/** Sides of the kernel and input channels of a layer: deep enough for int8 to be worth its while. */
const kernel_of = (index) => (index === 0 ? [5, 3] : [3, kChannels]);

function weights_of(index, bad) {
  const [side, inputs] = kernel_of(index);
  const taps = side * side;
  const w = random_tensor([kChannels, inputs, side, side], 10 + index).data;
  for (let at = 0; at < w.length; ++at) {
    const output = Math.floor(at / (inputs * taps));
    const input = Math.floor(at / taps) % inputs;
    w[at] *= 0.3;
    if (index === bad && input === inputs - 1 && output < kChannels - 1) w[at] = 300;
  }
  return w;
}

function round_weights(w) {
  const scale = w.reduce((most, v) => Math.max(most, Math.abs(v)), 0) / 127;
  return w.map((v) => Math.round(v / scale) * scale);
}

/**
 * images [batch, 3, 6, 6] → five Convs and Relus → mean → logits [batch, 4]. The last channel of each is always 0; layer
 * `bad` has large weights on it, which nothing sees but the scale of its weights. `int8` names the layers whose
 * weights are rounded, `observe` makes all values outputs.
 */
export function planted_net({ bad = 2, int8 = [], observe = false, batch = 1, metadata = {} } = {}) {
  const g = graph('planted', { opset: 13, metadata });
  let x = g.input('images', [batch, 3, kSide, kSide]);
  for (let i = 0; i < kLayers; ++i) {
    const w = weights_of(i, bad);
    const used = int8.includes(`conv${i}`) ? round_weights(w) : w;
    const bias = new Float32Array(kChannels).fill(0.1);
    bias[kChannels - 1] = -10; // 0 after the Relu, and yet no channel that the compiler may remove
    const [side, channels] = kernel_of(i);
    const pads = new Array(4).fill(side >> 1);
    const inputs = [
      x,
      g.initializer(`w${i}`, 'float32', [kChannels, channels, side, side], used),
      g.initializer(`b${i}`, 'float32', [kChannels], bias),
    ];
    x = g.node('Relu', [g.node('Conv', inputs, { pads }, { name: `conv${i}` })], {}, { outputs: [`v${i}`] });
  }
  const mean = g.node('Flatten', [g.node('GlobalAveragePool', [x])]);
  const w = g.initializer('head', 'float32', [4, kChannels], random_tensor([4, kChannels], 99).data);
  g.node('Gemm', [mean, w], { transB: 1 }, { outputs: ['logits'], name: 'gemm' });
  g.output('logits', [batch, 4]);
  if (observe) for (let i = 0; i < kLayers; ++i) g.output(`v${i}`, [batch, kChannels, kSide, kSide]);
  return write_onnx(g);
}

const kNames = Array.from({ length: kLayers }, (_, i) => `conv${i}`);

/** A CompileWith for quantize(): the requests are kept in `requests`. */
export function stand_in_compiler({ bad = 2, options = {}, metadata = {} } = {}) {
  const requests = [];
  const compile = async (request) => {
    requests.push(request);
    const { precision, flags } = request;
    const kept = flags.includes('--keep-float') ? flags[flags.indexOf('--keep-float') + 1].split(',') : [];
    const int8 = precision === 'int8' ? kNames.filter((name) => !kept.includes(name)) : [];
    const onnx = planted_net({ bad, int8, observe: flags.includes('--observe'), metadata });
    const layers = kNames.map((name, i) => ({
      name,
      op: 'Conv',
      output: `v${i}`,
      macs: 100,
      precision: int8.includes(name) ? 'int8' : 'float',
      reason: int8.includes(name) ? '' : 'keep-float',
      input_scale: 0.1,
      scale: 0.1,
      zero_point: 0,
      clipped: 0,
      int8_us: 1,
      float_us: 2,
    }));
    const report = { precision: 'int8', layers, macs: 600, int8_macs: 100 * int8.length };
    const bytes = new TextEncoder().encode(JSON.stringify({ ...report, head: [], head_macs: 0, notices: [] }));
    const bundle = await api.compile(onnx, options);
    return { bundle, notices: [], file: (name) => (name === 'option:quant-report' ? bytes : undefined) };
  };
  return { compile, requests };
}

/** `count` inputs of the net, one tensor each, in [0, 1), each with channels of its own brightness. */
export function planted_samples(count, seed = 1000) {
  return Array.from({ length: count }, (_, i) => {
    const { shape, data } = random_tensor([1, 3, kSide, kSide], seed + i);
    const brightness = random_tensor([3], seed + 77 * i).data;
    const plane = kSide * kSide;
    const values = data.map((v, at) => 0.1 * Math.abs(v) + 0.9 * Math.abs(brightness[Math.floor(at / plane)]));
    return new api.Tensor('f32', shape, values);
  });
}
