// YOLOv8 (nano) in ultralytics' layout, with the decode that its export has in the graph.
//
// Output [batch, 4 + classes, anchors]: centre x, centre y, width, height in pixels of the input, then the class
// scores (through the sigmoid). Anchors are the cells of the stride 8, 16 and 32 grids, row-major.
import { Net } from './net.mjs';
import { bottleneck, export_metadata, sppf } from './ultralytics.mjs';

const kStrides = [8, 16, 32];
const kRegMax = 16; // bins of the distribution over each side's distance

function c2f(net, x, path, { out, count, shortcut }) {
  const parts = net.split_half(net.conv(x, `${path}.cv1`, { out, kernel: 1 }), path);
  for (let i = 0; i < count; i++) parts.push(bottleneck(net, parts.at(-1), `${path}.m.${i}`, { kernel: 3, shortcut }));
  return net.conv(net.concat(parts, path), `${path}.cv2`, { out, kernel: 1 });
}

// Backbone and feature pyramid; the numbers are ultralytics' layer indices.
function features(net) {
  const down = (x, index, out, input_gain) => net.conv(x, `model.${index}`, { out, kernel: 3, stride: 2, input_gain });
  const block = (x, index, out, count, shortcut) => c2f(net, x, `model.${index}`, { out, count, shortcut });
  const join = (a, b, index) => net.concat([a, b], `model.${index}`);
  let x = down(net.input, 0, 16, 12); // pixels of 0..1 have a variance of about 1/12
  x = block(down(x, 1, 32), 2, 32, 1, true);
  const p3 = block(down(x, 3, 64), 4, 64, 2, true);
  const p4 = block(down(p3, 5, 128), 6, 128, 2, true);
  const p5 = sppf(net, block(down(p4, 7, 256), 8, 256, 1, true), 'model.9', 256);
  const n4 = block(join(net.upsample2(p5, 'model.10'), p4, 11), 12, 128, 1, false);
  const n3 = block(join(net.upsample2(n4, 'model.13'), p3, 14), 15, 64, 1, false);
  const m4 = block(join(down(n3, 16, 64), n4, 17), 18, 128, 1, false);
  const m5 = block(join(down(m4, 19, 128), p5, 20), 21, 256, 1, false);
  return [n3, m4, m5];
}

// One level of the head: [batch, 4 * kRegMax + classes, h, w].
function head_level(net, x, level, num_classes) {
  const branch = (name, width, out, last) => {
    const path = `model.22.${name}.${level}`;
    let y = net.conv(x, `${path}.0`, { out: width, kernel: 3 });
    y = net.conv(y, `${path}.1`, { out: width, kernel: 3 });
    return net.conv(y, `${path}.2`, { out, kernel: 1, act: 'none', bn: false, ...last });
  };
  const box = branch('cv2', Math.max(16, x.c / 4, 4 * kRegMax), 4 * kRegMax, {
    gain: 3.2,
    damp: 2,
    bias: { mean: 1, std: 1 },
  });
  const cls = branch('cv3', Math.max(64, Math.min(num_classes, 100)), num_classes, {
    gain: 3.2,
    damp: 0.6,
    bias: { mean: -6, std: 0.5 },
  });
  return net.concat([box, cls], 'model.22');
}

/** Cell centres [2, anchors] (x row, y row, in cells) and the stride of each anchor [anchors]. */
export function make_anchors(levels) {
  const points = levels.flatMap(({ h, w }, level) =>
    Array.from({ length: h * w }, (_, i) => [(i % w) + 0.5, Math.floor(i / w) + 0.5, kStrides[level]]),
  );
  return { centres: [...points.map((p) => p[0]), ...points.map((p) => p[1])], strides: points.map((p) => p[2]) };
}

// The halves of the box distances. Before simplification torch's chunk() exports as arithmetic on the shape.
function chunk_distances(net, distances, path, simplify) {
  if (simplify) {
    const axis = net.i64(1);
    const part = (from, to) => net.node('Slice', path, [distances, net.i64(from), net.i64(to), axis, net.i64(1)]);
    return [part(0, 2), part(2, 4)];
  }
  const size = net.node('Gather', path, [net.node('Shape', path, [distances]), net.i64(1)], { axis: 0 });
  const middle = net.node('Div', path, [net.node('Add', path, [size, net.i64(1)]), net.i64(2)]);
  const multiple = (k) => net.node('Mul', path, [middle, net.i64(k)]);
  const part = (from, to) => net.node('Slice', path, [distances, from, to, net.i64(1)]);
  return [part(net.i64(0), multiple(1)), part(multiple(1), multiple(2))];
}

function decode(net, levels, num_classes, simplify) {
  const path = 'model.22';
  const channels = 4 * kRegMax + num_classes;
  const batch = typeof net.batch === 'number' ? net.batch : 0;
  const node = (op, inputs, attributes, options) => net.node(op, path, inputs, attributes, options);
  const reshape = (x, ...dims) =>
    node('Reshape', [x, net.i64(batch, ...dims)], { allowzero: net.g.opset >= 14 ? 0 : undefined });

  const flat = node(
    'Concat',
    levels.map((level) => reshape(level.value, channels, -1)),
    { axis: 2 },
  );
  const [box, cls] = node('Split', [flat, net.i64(4 * kRegMax, num_classes)], { axis: 1 }, { outputs: 2 });

  // Distance of a side = expectation over the bins, written as a 1x1 convolution with weights 0..15.
  const dfl = `${path}.dfl`;
  const bins = net.node('Transpose', dfl, [reshape(box, 4, kRegMax, -1)], { perm: [0, 2, 1, 3] });
  const shares = net.node('Softmax', dfl, [bins], { axis: 1 });
  const weight = net.g.initializer(
    `${dfl}.conv.weight`,
    'float32',
    [1, kRegMax, 1, 1],
    Array.from({ length: kRegMax }, (_, i) => i),
  );
  const expected = net.node('Conv', dfl, [shares, weight], {
    dilations: [1, 1],
    group: 1,
    kernel_shape: [1, 1],
    pads: [0, 0, 0, 0],
    strides: [1, 1],
  });
  const [left_top, right_bottom] = chunk_distances(net, reshape(expected, 4, -1), path, simplify);

  const { centres, strides } = make_anchors(levels);
  const anchor = net.constant('float32', [1, 2, strides.length], centres);
  const from = node('Sub', [anchor, left_top]);
  const to = node('Add', [anchor, right_bottom]);
  const centre = node('Div', [node('Add', [from, to]), net.f32(2)]);
  const cells = node('Concat', [centre, node('Sub', [to, from])], { axis: 1 });
  const pixels = node('Mul', [cells, net.constant('float32', [1, strides.length], strides)]);
  const output = node('Concat', [pixels, node('Sigmoid', [cls])], { axis: 1 }, { outputs: ['output0'] });
  net.g.output(output, [net.batch, 4 + num_classes, strides.length]);
}

/** The graph of yolov8n. Options: opset, size (640), batch, seed, bn, simplify (false: chunk() as torch exports it). */
export function make_yolov8(
  name = 'yolov8n',
  { opset = 17, size = 640, num_classes = 80, simplify = true, ...options } = {},
) {
  const net = new Net(name, {
    opset,
    input: { name: 'images', size: [size, size] },
    act: 'silu',
    metadata: export_metadata(name, size, options.batch ?? 1),
    ...options,
  });
  const levels = features(net).map((x, level) => head_level(net, x, level, num_classes));
  decode(net, levels, num_classes, simplify);
  return net.g;
}
