// The package's own C++ pre- and post-processing around another engine's run, and the comparison of two lists of boxes.
import { graph, write_onnx } from '../../models/onnx_writer.mjs';
import { api } from './api.mjs';

/** An ImageModel whose output is its input: -1 * (-1 * x). It shows what the C++ preprocessing makes of an image. */
export async function make_preprocessor(recipe, [height, width]) {
  const g = graph('preprocess', { opset: 13 });
  const x = g.input('x', [1, 3, height, width]);
  const minus = g.initializer('minus', 'float32', [1], [-1]);
  g.output(g.node('Mul', [g.node('Mul', [x, minus]), minus], {}, { outputs: ['y'] }), [1, 3, height, width]);
  const net = await api.ImageModel.load(await api.compile(write_onnx(g), { preprocess: recipe }));
  return {
    run: async (image) => {
      const { outputs, placement } = await net.run(image);
      return { tensor: outputs.y, placement };
    },
    dispose: () => net.dispose(),
  };
}

const kDecoders = ['yolov5', 'yolov8', 'yolox', 'end2end', 'tiny-yolov2']; // kiln::Decoder

/** kiln_detect (src/wasm/runtime_abi.h) on any output tensor, in the instance of `model`. */
export function decode_boxes(model, { decoder, data, dims, input, score, iou, placement, image, most = 300 }) {
  return model.exclusive(({ native }) => {
    const bytes = 216 + 24 * most + data.byteLength;
    const request = native.alloc(bytes, 'a test');
    const boxes = request + 216;
    const tensor = boxes + 24 * most;
    native.bytes(request, bytes).fill(0);
    new Float32Array(native.exports.memory.buffer, tensor, data.length).set(data);
    const view = native.view(request, 216);
    [kDecoders.indexOf(decoder), tensor, dims.length, ...dims].forEach((value, i) => view.setInt32(4 * i, value, true));
    view.setInt32(28, input[1], true);
    view.setInt32(32, input[0], true);
    view.setFloat32(36, score, true);
    view.setFloat32(40, iou, true);
    view.setInt32(44, most, true);
    const { scaleX, scaleY, offsetX, offsetY } = placement;
    [scaleX, scaleY, offsetX, offsetY].forEach((value, i) => view.setFloat32(188 + 4 * i, value, true));
    view.setInt32(204, image.width, true);
    view.setInt32(208, image.height, true);
    const count = native.exports.kiln_detect(request, 216, boxes, most);
    if (count < 0) throw native.last_error();
    const found = native.view(boxes, 24 * count);
    const result = Array.from({ length: count }, (_, i) => ({
      box: [0, 1, 2, 3].map((side) => found.getFloat32(24 * i + 4 * side, true)),
      score: found.getFloat32(24 * i + 16, true),
      class: found.getInt32(24 * i + 20, true),
    }));
    native.free(request);
    return result;
  });
}

/** Intersection over union of [x1, y1, x2, y2] boxes. */
export function box_iou(a, b) {
  const width = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  const height = Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const area = ([x1, y1, x2, y2]) => (x2 - x1) * (y2 - y1);
  const union = area(a) + area(b) - width * height;
  return union > 0 ? (width * height) / union : 0;
}

const kNmsMargin = 0.01;

/**
 * Why two lists of {box, score, class} are not the same, or undefined: each box needs a partner of its own of the same
 * class within the tolerances. A box may be on one side only if a tiny difference decides about it: its score is within
 * score_tolerance of `threshold`, or its overlap with a better box within 0.01 of `nms_iou`.
 */
export function differing_boxes(actual, expected, { iou, score_tolerance, threshold = -1, nms_iou = -1 }) {
  const left = new Set(actual);
  const text = ({ box, score, class: id }) =>
    `class ${id} ${score.toFixed(4)} [${box.map((v) => v.toFixed(1)).join(', ')}]`;
  const is_borderline = (one) =>
    one.score < threshold + score_tolerance ||
    [...actual, ...expected].some(
      (other) =>
        other.class === one.class &&
        other.score > one.score &&
        Math.abs(box_iou(other.box, one.box) - nms_iou) < kNmsMargin,
    );
  for (const wanted of expected) {
    const partner = [...left]
      .filter((one) => one.class === wanted.class && Math.abs(one.score - wanted.score) <= score_tolerance)
      .sort((a, b) => box_iou(b.box, wanted.box) - box_iou(a.box, wanted.box))[0];
    if (partner && box_iou(partner.box, wanted.box) >= iou) left.delete(partner);
    else if (!is_borderline(wanted))
      return `missing ${text(wanted)}; found ${[...left].map(text).join(' ') || 'nothing'}`;
  }
  const extra = [...left].find((one) => !is_borderline(one));
  return extra && `too many: ${text(extra)}`;
}
