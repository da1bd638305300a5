// Face recognition: a ResNet of 29 convolutions (dlib's layout) that maps a 150x150 face to a 128-value descriptor.
//
// input [batch, 3, 150, 150] → output [batch, 128]; faces are compared by the Euclidean distance of descriptors.
import { graph } from '../../onnx_writer.mjs';
import { fully_connected, scaled_conv } from '../face_layers.mjs';
import { read_face_weights } from '../face_weights.mjs';

const kSize = 150;
// Blocks in order; a `_down` block halves the size, and doubles the channels unless it is the last.
const kBlocks = [
  'conv32_1',
  'conv32_2',
  'conv32_3',
  'conv64_down',
  'conv64_1',
  'conv64_2',
  'conv64_3',
  'conv128_down',
  'conv128_1',
  'conv128_2',
  'conv256_down',
  'conv256_1',
  'conv256_2',
  'conv256_down_out',
];

const relu = (g, x) => g.node('Relu', [x]);

// Zeros appended after the channels, the rows and the columns.
function pad_after(g, x, name, channels, rows, columns) {
  if (!channels && !rows && !columns) return x;
  const amounts = g.initializer(`${name}.pads`, 'int64', [8], [0, 0, 0, 0, 0, channels, rows, columns]);
  return g.node('Pad', [x, amounts], { mode: 'constant' }, { name: `${name}.Pad` });
}

function residual(g, weights, x, name) {
  const y = relu(g, scaled_conv(g, weights, x, `${name}/conv1`, { pads: [1, 1, 1, 1] }));
  return relu(g, g.node('Add', [scaled_conv(g, weights, y, `${name}/conv2`, { pads: [1, 1, 1, 1] }), x]));
}

// The shortcut is a 2x2 average pool with zero channels appended; the first convolution has no padding, so where the
// branch comes out smaller than the shortcut (even sizes), a row and a column of zeros are appended to it.
function residual_down(g, weights, x, name, side) {
  const out = Math.floor((side - 3) / 2) + 1;
  const pooled_side = Math.floor(side / 2);
  let y = relu(g, scaled_conv(g, weights, x, `${name}/conv1`, { stride: 2 }));
  y = scaled_conv(g, weights, y, `${name}/conv2`, { pads: [1, 1, 1, 1] });
  y = pad_after(g, y, `${name}.branch`, 0, pooled_side - out, pooled_side - out);
  const [, , channels, width] = weights.get(`${name}/conv1/conv/filters`).shape;
  const pooled = g.node('AveragePool', [x], { kernel_shape: [2, 2], pads: [0, 0, 0, 0], strides: [2, 2] });
  return relu(g, g.node('Add', [pad_after(g, pooled, `${name}.shortcut`, width - channels, 0, 0), y]));
}

/** The ONNX graph. Options: batch (a number, or a name for a dynamic dim). */
export function build(recipe, { batch = 1 } = {}) {
  const weights = read_face_weights('face_recognition_model', recipe);
  const g = graph(recipe.name, { opset: 13 });
  let x = relu(g, scaled_conv(g, weights, g.input('input', [batch, 3, kSize, kSize]), 'conv32_down', { stride: 2 }));
  x = g.node('MaxPool', [x], { kernel_shape: [3, 3], pads: [0, 0, 0, 0], strides: [2, 2] });
  let side = 35; // 150 → 72 → 35
  for (const name of kBlocks) {
    if (name.includes('_down')) {
      x = residual_down(g, weights, x, name, side);
      side = Math.floor(side / 2);
    } else {
      x = residual(g, weights, x, name);
    }
  }
  x = g.node('Flatten', [g.node('GlobalAveragePool', [x])], { axis: 1 });
  g.output(fully_connected(g, x, 'fc', weights.get('fc'), null), [batch, 128]);
  return g;
}
