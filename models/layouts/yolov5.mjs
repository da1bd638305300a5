// YOLOv5 (nano, version 6 and later) in ultralytics' layout, with the decode that its export has in the graph.
//
// Output [batch, anchors, 5 + classes]: centre x, centre y, width, height in pixels of the input, objectness, class
// scores (both through the sigmoid). Rows: stride 8, 16, 32; in a level anchor by anchor, each grid row-major.
import { Net } from './net.mjs';
import { bottleneck, export_metadata, sppf } from './ultralytics.mjs';

const kLevels = [
  {
    stride: 8,
    anchors: [
      [10, 13],
      [16, 30],
      [33, 23],
    ],
  },
  {
    stride: 16,
    anchors: [
      [30, 61],
      [62, 45],
      [59, 119],
    ],
  },
  {
    stride: 32,
    anchors: [
      [116, 90],
      [156, 198],
      [373, 326],
    ],
  },
];

function c3(net, x, path, { out, count, shortcut }) {
  let y = net.conv(x, `${path}.cv1`, { out: out / 2, kernel: 1 });
  for (let i = 0; i < count; i++) y = bottleneck(net, y, `${path}.m.${i}`, { kernel: 1, shortcut });
  const side = net.conv(x, `${path}.cv2`, { out: out / 2, kernel: 1 });
  return net.conv(net.concat([y, side], path), `${path}.cv3`, { out, kernel: 1 });
}

// Backbone and feature pyramid; the numbers are ultralytics' layer indices.
function features(net) {
  const conv = (x, index, out, kernel, stride, more) => net.conv(x, `model.${index}`, { out, kernel, stride, ...more });
  const block = (x, index, out, count, shortcut) => c3(net, x, `model.${index}`, { out, count, shortcut });
  const join = (a, b, index) => net.concat([a, b], `model.${index}`);
  let x = conv(net.input, 0, 16, 6, 2, { pad: 2, input_gain: 12 });
  x = block(conv(x, 1, 32, 3, 2), 2, 32, 1, true);
  const p3 = block(conv(x, 3, 64, 3, 2), 4, 64, 2, true);
  const p4 = block(conv(p3, 5, 128, 3, 2), 6, 128, 3, true);
  const p5 = sppf(net, block(conv(p4, 7, 256, 3, 2), 8, 256, 1, true), 'model.9', 256);
  const h10 = conv(p5, 10, 128, 1, 1);
  const n4 = block(join(net.upsample2(h10, 'model.11'), p4, 12), 13, 128, 1, false);
  const h14 = conv(n4, 14, 64, 1, 1);
  const n3 = block(join(net.upsample2(h14, 'model.15'), p3, 16), 17, 64, 1, false);
  const m4 = block(join(conv(n3, 18, 64, 3, 2), h14, 19), 20, 128, 1, false);
  const m5 = block(join(conv(m4, 21, 128, 3, 2), h10, 22), 23, 256, 1, false);
  return [n3, m4, m5];
}

// xy = (2 sigmoid(t) + cell - 0.5) * stride; wh = (2 sigmoid(t))^2 * anchor.
function decode_level(net, x, level, num_classes) {
  const path = 'model.24';
  const { stride, anchors } = kLevels[level];
  const { h, w } = x;
  const batch = typeof net.batch === 'number' ? net.batch : 0;
  const node = (op, inputs, attributes, options) => net.node(op, path, inputs, attributes, options);
  const per_cell = (value_of) =>
    net.constant(
      'float32',
      [1, 3, h, w, 2],
      Array.from({ length: 3 * h * w * 2 }, (_, i) =>
        value_of(Math.floor(i / (2 * h * w)), Math.floor(i / 2) % (h * w), i % 2),
      ),
    );

  const raw = net.conv(x, `${path}.m.${level}`, {
    out: 3 * (5 + num_classes),
    kernel: 1,
    act: 'none',
    bn: false,
    gain: 3.2,
    damp: 0.4,
    bias: { mean: -3.5, std: 0.5 },
  });
  const split_anchors = node('Reshape', [raw.value, net.i64(batch, 3, 5 + num_classes, h, w)]);
  const y = node('Sigmoid', [node('Transpose', [split_anchors], { perm: [0, 1, 3, 4, 2] })]);
  const [xy, wh, scores] = node('Split', [y, net.i64(2, 2, 1 + num_classes)], { axis: 4 }, { outputs: 3 });
  const grid = per_cell((_, cell, k) => (k === 0 ? cell % w : Math.floor(cell / w)) - 0.5);
  const centre = node('Mul', [node('Add', [node('Mul', [xy, net.f32(2)]), grid]), net.f32(stride)]);
  const size = node('Mul', [
    node('Pow', [node('Mul', [wh, net.f32(2)]), net.f32(2)]),
    per_cell((a, _, k) => anchors[a][k]),
  ]);
  const rows = node('Concat', [centre, size, scores], { axis: 4 });
  return { value: node('Reshape', [rows, net.i64(batch, 3 * h * w, 5 + num_classes)]), count: 3 * h * w };
}

/** The graph of yolov5n. Options: opset, size (640), batch, seed, bn. */
export function make_yolov5(name = 'yolov5n', { opset = 17, size = 640, num_classes = 80, ...options } = {}) {
  const net = new Net(name, {
    opset,
    input: { name: 'images', size: [size, size] },
    act: 'silu',
    metadata: export_metadata(name, size, options.batch ?? 1),
    ...options,
  });
  const levels = features(net).map((x, level) => decode_level(net, x, level, num_classes));
  const output = net.node(
    'Concat',
    'model.24',
    levels.map((level) => level.value),
    { axis: 1 },
    { outputs: ['output0'] },
  );
  net.g.output(output, [net.batch, levels.reduce((sum, level) => sum + level.count, 0), 5 + num_classes]);
  return net.g;
}
