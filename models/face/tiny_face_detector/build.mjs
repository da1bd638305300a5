// Tiny Face Detector: a Tiny-YOLOv2 style detector with separable convolutions, one class, 5 anchors.
//
// images [batch, 3, size, size] → output [batch, size/32, size/32, 25], raw: last axis 5 * anchor + (tx, ty, tw, th, to).
import { graph } from '../../onnx_writer.mjs';
import { conv, same_pads, separable_conv } from '../face_layers.mjs';
import { read_face_weights } from '../face_weights.mjs';

const kStride = 32;

/** The ONNX graph. Options: size (a multiple of 32, default 416), batch (a number, or a name for a dynamic dim). */
export function build(recipe, { size = recipe.input.shape[2], batch = 1 } = {}) {
  if (size % kStride !== 0) throw new Error(`tiny_face_detector: size ${size} is not a multiple of ${kStride}`);
  const weights = read_face_weights('tiny_face_detector_model', recipe);
  const g = graph(recipe.name, { opset: 13 });
  const leaky = (x) => g.node('LeakyRelu', [x], { alpha: 0.1 });
  const pool = (x, from, stride) =>
    g.node('MaxPool', [x], { kernel_shape: [2, 2], pads: same_pads(from, 2, stride), strides: [stride, stride] });

  let x = leaky(conv(g, weights, g.input('images', [batch, 3, size, size]), 'conv0'));
  let side = size - 2; // the first convolution has no padding
  for (let index = 1; index <= 5; index++) {
    x = pool(x, side, 2);
    side = Math.ceil(side / 2);
    x = leaky(separable_conv(g, weights, x, `conv${index}`, { pads: [1, 1, 1, 1] }));
  }
  x = conv(g, weights, pool(x, side, 1), 'conv8');
  g.output(g.node('Transpose', [x], { perm: [0, 2, 3, 1] }, { outputs: ['output'] }), [batch, side, side, 25]);
  return g;
}
