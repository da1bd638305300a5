// The 68-point face landmark nets: dense blocks of separable convolutions, an average pool, one fully connected layer.
//
// input [batch, 3, 112, 112] → output [batch, 136]: x0, y0, x1, y1, … as shares of the square input's side.
import { graph } from '../onnx_writer.mjs';
import { conv, fully_connected, same_pads, separable_conv } from './face_layers.mjs';
import { read_face_weights } from './face_weights.mjs';

const kSize = 112;

// x1 = relu(conv0(x)), stride 2; x_k = conv_(k-1)(relu(x1 + … + x_(k-1))); result relu(x1 + … + x_n).
function dense_block(g, weights, x, { name, is_first, side, num_convs }) {
  const relu = (value) => g.node('Relu', [value]);
  const first = is_first ? conv : separable_conv;
  let y = relu(first(g, weights, x, `${name}/conv0`, { stride: 2, pads: same_pads(side, 3, 2) }));
  let sum = y;
  for (let i = 1; i < num_convs; i++) {
    const next = separable_conv(g, weights, y, `${name}/conv${i}`, { pads: [1, 1, 1, 1] });
    sum = g.node('Add', [sum, next]);
    y = relu(sum);
  }
  return y;
}

/** The graph of a landmark net of `num_blocks` dense blocks with `num_convs` convolutions each. */
export function build_landmark_net(recipe, { model, num_blocks, num_convs, batch = 1 }) {
  const weights = read_face_weights(model, recipe);
  const g = graph(recipe.name, { opset: 13 });
  let x = g.input('input', [batch, 3, kSize, kSize]);
  let side = kSize;
  for (let block = 0; block < num_blocks; block++) {
    x = dense_block(g, weights, x, { name: `dense${block}`, is_first: block === 0, side, num_convs });
    side = Math.ceil(side / 2);
  }
  x = g.node('AveragePool', [x], { kernel_shape: [side, side], pads: [0, 0, 0, 0], strides: [2, 2] });
  x = g.node('Flatten', [x], { axis: 1 });
  g.output(fully_connected(g, x, 'fc', weights.get('fc/weights'), weights.get('fc/bias')), [batch, 136]);
  return g;
}
