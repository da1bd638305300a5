// Layers with random weights on top of the ONNX builder; tracks shapes so that a layout reads as its architecture.
import { graph } from '../onnx_writer.mjs';
import { random_filters, random_normal, random_stream } from './random_weights.mjs';

// 1 / variance of act(x) for x ~ N(0, 1): the gain that keeps the variance through `centred` filters.
const kGains = { relu: 2.93, relu6: 2.93, silu: 3.2, none: 1 };

const half = (kernel) => (kernel - 1) >> 1;

/** A network under construction. A feature is { value, c, h, w }: the ONNX value's name and its size. */
export class Net {
  /**
   * Options: opset; input ({name, size}); batch (a number, or a name for a dynamic dim); seed; act (what conv()
   * applies unless told); bn (true: Conv without bias, then BatchNormalization; false: already folded); metadata.
   */
  constructor(name, { opset, input, batch = 1, seed = 1, act, bn = false, metadata }) {
    Object.assign(this, { batch, seed, act, bn });
    this.g = graph(name, { opset, metadata, producer: 'tilekiln-layouts' });
    this.num_constants = 0;
    const [h, w] = input.size;
    this.input = { value: this.g.input(input.name, [batch, 3, h, w]), c: 3, h, w };
  }

  constant(dtype, dims, data) {
    return this.g.initializer(`const_${this.num_constants++}`, dtype, dims, data);
  }

  i64(...values) {
    return this.constant('int64', [values.length], values);
  }

  f32(value) {
    return this.constant('float32', [], [value]);
  }

  /** A node named as exporters name them: module path, then operator. Returns output names like g.node(). */
  node(op, path, inputs, attributes, options) {
    let name = `/${path.replaceAll('.', '/')}/${op}`;
    for (let i = 1; this.g.defined.has(`${name}_output_0`); i++) name = `/${path.replaceAll('.', '/')}/${op}_${i}`;
    return this.g.node(op, inputs, attributes, { name, ...options });
  }

  /**
   * Convolution, its normalisation (folded or not) and activation.
   * `gain` scales the weights' variance, `damp` the output's deviation, `bias` is { mean, std }.
   */
  conv(
    x,
    path,
    {
      out,
      kernel,
      stride = 1,
      pad = half(kernel),
      group = 1,
      act = this.act,
      gain,
      damp = 1,
      bias = {},
      bn = this.bn,
      input_gain = 1,
    },
  ) {
    const { g, seed } = this;
    const fan_in = (x.c / group) * kernel * kernel;
    const weights = random_filters(`${path}.weight`, seed, out, fan_in, {
      gain: (gain ?? kGains[act]) * damp * damp * input_gain,
      centred: group === 1,
    });
    const biases = random_normal(`${path}.bias`, seed, out, bias.std ?? 0.2, bias.mean ?? 0);
    const h = Math.floor((x.h + 2 * pad - kernel) / stride) + 1;
    const w = Math.floor((x.w + 2 * pad - kernel) / stride) + 1;
    const attributes = {
      dilations: [1, 1],
      group,
      kernel_shape: [kernel, kernel],
      pads: [pad, pad, pad, pad],
      strides: [stride, stride],
    };
    const dims = [out, x.c / group, kernel, kernel];
    const value = bn
      ? this.unfused_conv(x.value, path, attributes, dims, weights, biases)
      : this.node(
          'Conv',
          path,
          [
            x.value,
            g.initializer(`${path}.weight`, 'float32', dims, weights),
            g.initializer(`${path}.bias`, 'float32', [out], biases),
          ],
          attributes,
        );
    return this.activate({ value, c: out, h, w }, path, act);
  }

  // The folded convolution (W, b) as Conv(W / s) and a BatchNormalization with scale / sqrt(var + eps) = s.
  unfused_conv(value, path, attributes, dims, weights, biases) {
    const { g } = this;
    const [out] = dims;
    const epsilon = 1e-5;
    const { uniform, normal } = random_stream(`${path}.bn`, this.seed);
    const per_channel = { weight: [], bias: [], running_mean: [], running_var: [] };
    const fan_in = weights.length / out;
    for (let channel = 0; channel < out; channel++) {
      const variance = 0.5 + uniform();
      const gamma = 0.75 + 0.5 * uniform();
      const mean = 0.3 * normal();
      const s = gamma / Math.sqrt(variance + epsilon);
      for (let i = channel * fan_in; i < (channel + 1) * fan_in; i++) weights[i] /= s;
      per_channel.weight.push(gamma);
      per_channel.bias.push(biases[channel] + mean * s);
      per_channel.running_mean.push(mean);
      per_channel.running_var.push(variance);
    }
    const y = this.node('Conv', path, [value, g.initializer(`${path}.weight`, 'float32', dims, weights)], attributes);
    const params = Object.entries(per_channel).map(([key, data]) =>
      g.initializer(`${path}.bn.${key}`, 'float32', [out], data),
    );
    return this.node('BatchNormalization', `${path}.bn`, [y, ...params], { epsilon, momentum: 0.9 });
  }

  activate(x, path, act) {
    const at = `${path}.act`;
    if (act === 'relu') return { ...x, value: this.node('Relu', at, [x.value]) };
    if (act === 'relu6') return { ...x, value: this.node('Clip', at, [x.value, this.f32(0), this.f32(6)]) };
    if (act === 'silu') {
      return { ...x, value: this.node('Mul', at, [x.value, this.node('Sigmoid', at, [x.value])]) };
    }
    return x;
  }

  add(a, b, path) {
    return { ...a, value: this.node('Add', path, [a.value, b.value]) };
  }

  concat(parts, path) {
    const value = this.node(
      'Concat',
      path,
      parts.map((part) => part.value),
      { axis: 1 },
    );
    return { ...parts[0], value, c: parts.reduce((sum, part) => sum + part.c, 0) };
  }

  /** Two halves of the channels. */
  split_half(x, path) {
    const c = x.c / 2;
    const values = this.node('Split', path, [x.value, this.i64(c, c)], { axis: 1 }, { outputs: 2 });
    return values.map((value) => ({ ...x, value, c }));
  }

  max_pool(x, path, { kernel, stride, pad }) {
    const value = this.node('MaxPool', path, [x.value], {
      ceil_mode: 0,
      kernel_shape: [kernel, kernel],
      pads: [pad, pad, pad, pad],
      strides: [stride, stride],
    });
    const size = (n) => Math.floor((n + 2 * pad - kernel) / stride) + 1;
    return { ...x, value, h: size(x.h), w: size(x.w) };
  }

  /** Nearest-neighbour enlargement by 2, in the form torch exports (empty roi). */
  upsample2(x, path) {
    const value = this.node('Resize', path, [x.value, '', this.constant('float32', [4], [1, 1, 2, 2])], {
      coordinate_transformation_mode: 'asymmetric',
      cubic_coeff_a: -0.75,
      mode: 'nearest',
      nearest_mode: 'floor',
    });
    return { ...x, value, h: 2 * x.h, w: 2 * x.w };
  }

  /** Global average pool, flatten and a fully connected layer; `spread` is about the logits' deviation. */
  classifier(x, path, { out, spread }) {
    const pooled = this.node('GlobalAveragePool', 'avgpool', [x.value]);
    const flat = this.node('Flatten', 'flatten', [pooled], { axis: 1 });
    const weights = random_filters(`${path}.weight`, this.seed, out, x.c, { gain: spread * spread });
    return this.g.node(
      'Gemm',
      [
        flat,
        this.g.initializer(`${path}.weight`, 'float32', [out, x.c], weights),
        this.g.initializer(`${path}.bias`, 'float32', [out], random_normal(`${path}.bias`, this.seed, out, 0.1)),
      ],
      { alpha: 1, beta: 1, transB: 1 },
      { name: `/${path}/Gemm`, outputs: ['output'] },
    );
  }
}
