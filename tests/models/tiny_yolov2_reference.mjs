// The tiny-yolov2 decoder and NMS, written plainly from the formula in the recipe's model.json.

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

function iou(a, b) {
  const width = Math.max(0, Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x));
  const height = Math.max(0, Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y));
  const inter = width * height;
  return inter / (a.width * a.height + b.width * b.height - inter);
}

/** Boxes { x, y, width, height, score } in pixels of the input, best first, from `data` of [1, rows, columns, 5 * anchors]. */
export function decode_tiny_yolov2(data, [, rows, columns], { stride, anchors, score_threshold, iou_threshold }) {
  const boxes = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      anchors.forEach(([anchor_w, anchor_h], anchor) => {
        const at = ((row * columns + column) * anchors.length + anchor) * 5;
        const [tx, ty, tw, th, to] = data.subarray(at, at + 5);
        const score = sigmoid(to);
        if (score <= score_threshold) return;
        const width = Math.exp(tw) * anchor_w * stride;
        const height = Math.exp(th) * anchor_h * stride;
        const x = (column + sigmoid(tx)) * stride - width / 2;
        const y = (row + sigmoid(ty)) * stride - height / 2;
        boxes.push({ x, y, width, height, score });
      });
    }
  }
  boxes.sort((a, b) => b.score - a.score);
  return boxes.reduce((kept, box) => (kept.some((k) => iou(k, box) > iou_threshold) ? kept : [...kept, box]), []);
}
