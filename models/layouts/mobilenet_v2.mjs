// MobileNetV2 (width 1.0) in torchvision's layout.
import { Net } from './net.mjs';

// Inverted residual stages: expansion, channels, blocks, stride of the first block.
const kStages = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
];

function inverted_residual(net, x, path, { expansion, out, stride }) {
  const hidden = x.c * expansion;
  const has_shortcut = stride === 1 && x.c === out;
  let y = x;
  if (expansion !== 1) y = net.conv(y, `${path}.expand`, { out: hidden, kernel: 1, gain: 1.3 });
  y = net.conv(y, `${path}.depthwise`, { out: hidden, kernel: 3, stride, group: hidden, gain: 2 });
  y = net.conv(y, `${path}.project`, { out, kernel: 1, act: 'none', gain: 2.93, damp: has_shortcut ? 0.5 : 1 });
  return has_shortcut ? net.add(x, y, path) : y;
}

/** The graph of mobilenet_v2. Options: opset, size (224), batch, seed, bn. */
export function make_mobilenet_v2(
  name = 'mobilenet_v2',
  { opset = 13, size = 224, num_classes = 1000, ...options } = {},
) {
  const net = new Net(name, { opset, input: { name: 'input', size: [size, size] }, act: 'relu6', ...options });
  let x = net.conv(net.input, 'features.0', { out: 32, kernel: 3, stride: 2, gain: 2 });
  let index = 1;
  for (const [expansion, out, count, first_stride] of kStages) {
    for (let i = 0; i < count; i++, index++) {
      x = inverted_residual(net, x, `features.${index}`, { expansion, out, stride: i === 0 ? first_stride : 1 });
    }
  }
  x = net.conv(x, `features.${index}`, { out: 1280, kernel: 1, gain: 1.3 });
  net.g.output(net.classifier(x, 'classifier.1', { out: num_classes, spread: 4 }), [net.batch, num_classes]);
  return net.g;
}
