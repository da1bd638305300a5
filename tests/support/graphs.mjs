// Small ONNX graphs that API tests run.
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { random_tensor } from './api.mjs';

const weights = (g, name, shape, seed) => g.initializer(name, 'float32', shape, random_tensor(shape, seed).data);

/** images [batch, 3, height, width] → Conv 3×3, Relu, Conv 3×3 stride 2 → features; and → mean → logits [batch, 5]. */
export function conv_net({ batch = 1, height = 8, width = 8, ...options } = {}) {
  const g = graph('conv_net', { opset: 13, ...options });
  const x = g.input('images', [batch, 3, height, width]);
  const a = g.node('Conv', [x, weights(g, 'w1', [4, 3, 3, 3], 1), weights(g, 'b1', [4], 2)], { pads: [1, 1, 1, 1] });
  const b = g.node('Relu', [a]);
  const c = g.node(
    'Conv',
    [b, weights(g, 'w2', [6, 4, 3, 3], 3)],
    { pads: [1, 1, 1, 1], strides: [2, 2] },
    { outputs: ['features'] },
  );
  const d = g.node('Flatten', [g.node('GlobalAveragePool', [c])]);
  g.node('Gemm', [d, weights(g, 'w3', [5, 6], 4)], { transB: 1 }, { outputs: ['logits'] });
  g.output('features', [batch, 6, null, null]);
  g.output('logits', [batch, 5]);
  return write_onnx(g);
}

/** a + b, elementwise, of any dtype. */
export function add_net(dtype = 'float32', shape = [2, 3]) {
  const g = graph('add', { opset: 13 });
  g.output(
    g.node('Add', [g.input('a', shape, dtype), g.input('b', shape, dtype)], {}, { outputs: ['sum'] }),
    shape,
    dtype,
  );
  return write_onnx(g);
}

/** table[indices]: an int64 input. */
export function gather_net() {
  const g = graph('gather', { opset: 13 });
  const table = g.initializer('table', 'float32', [5, 2], [0, 1, 10, 11, 20, 21, 30, 31, 40, 41]);
  const indices = g.input('indices', [3], 'int64');
  g.output(g.node('Gather', [table, indices], { axis: 0 }, { outputs: ['rows'] }), [3, 2]);
  return write_onnx(g);
}

/** A long chain of 3×3 convolutions: a run that lasts, in many steps. */
export function deep_net({ steps = 40, channels = 32, side = 64 } = {}) {
  const g = graph('deep', { opset: 13 });
  let x = g.input('x', [1, channels, side, side]);
  for (let i = 0; i < steps; ++i) {
    const w = random_tensor([channels, channels, 3, 3], 100 + i).data.map((v) => v / (3 * Math.sqrt(channels)));
    x = g.node('Conv', [x, g.initializer(`w${i}`, 'float32', [channels, channels, 3, 3], w)], { pads: [1, 1, 1, 1] });
  }
  g.output(g.node('Relu', [x], {}, { outputs: ['y'] }), [1, channels, side, side]);
  return write_onnx(g);
}
