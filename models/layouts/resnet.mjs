// ResNet in torchvision's layout (v1.5: a bottleneck's stride is on its 3x3 convolution).
import { Net } from './net.mjs';

const kVariants = {
  resnet18: { blocks: [2, 2, 2, 2], bottleneck: false },
  resnet50: { blocks: [3, 4, 6, 3], bottleneck: true },
};

function residual_block(net, x, path, { width, stride, bottleneck }) {
  const out = bottleneck ? 4 * width : width;
  // A damped branch keeps the sum's variance nearly level over the blocks of a stage.
  const last = { act: 'none', gain: 2.93, damp: 0.4 };
  let y = x;
  if (bottleneck) {
    y = net.conv(y, `${path}.conv1`, { out: width, kernel: 1 });
    y = net.conv(y, `${path}.conv2`, { out: width, kernel: 3, stride });
    y = net.conv(y, `${path}.conv3`, { out, kernel: 1, ...last });
  } else {
    y = net.conv(y, `${path}.conv1`, { out, kernel: 3, stride });
    y = net.conv(y, `${path}.conv2`, { out, kernel: 3, ...last });
  }
  const shortcut =
    stride !== 1 || x.c !== out
      ? net.conv(x, `${path}.downsample.0`, { out, kernel: 1, stride, act: 'none', gain: 2.6 })
      : x;
  return net.activate(net.add(y, shortcut, path), path, 'relu');
}

/** The graph of resnet18 or resnet50. Options: opset, size (224), batch, seed, bn. */
export function make_resnet(name, { opset = 13, size = 224, num_classes = 1000, ...options } = {}) {
  const { blocks, bottleneck } = kVariants[name];
  const net = new Net(name, { opset, input: { name: 'input', size: [size, size] }, act: 'relu', ...options });
  let x = net.conv(net.input, 'conv1', { out: 64, kernel: 7, stride: 2, gain: 2 });
  x = net.max_pool(x, 'maxpool', { kernel: 3, stride: 2, pad: 1 });
  blocks.forEach((count, stage) => {
    for (let i = 0; i < count; i++) {
      x = residual_block(net, x, `layer${stage + 1}.${i}`, {
        width: 64 << stage,
        stride: stage > 0 && i === 0 ? 2 : 1,
        bottleneck,
      });
    }
  });
  net.g.output(net.classifier(x, 'fc', { out: num_classes, spread: 4 }), [net.batch, num_classes]);
  return net.g;
}
