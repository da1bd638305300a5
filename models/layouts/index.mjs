// The layouts by name. Weights are random: outputs mean nothing, but sizes, operators and value ranges are real.
import { make_mobilenet_v2 } from './mobilenet_v2.mjs';
import { make_resnet } from './resnet.mjs';
import { make_yolov5 } from './yolov5.mjs';
import { make_yolov8 } from './yolov8.mjs';

/** Layout name → function(name, options) that returns the graph. */
export const kLayouts = {
  resnet18: make_resnet,
  resnet50: make_resnet,
  mobilenet_v2: make_mobilenet_v2,
  yolov5n: make_yolov5,
  yolov8n: make_yolov8,
};

/** The graph of a layout. Options, all optional: opset, size, batch (number or dim name), seed, bn, simplify (YOLOv8). */
export function make_layout(name, options = {}) {
  if (!kLayouts[name]) throw new Error(`unknown layout '${name}'; known: ${Object.keys(kLayouts).join(' ')}`);
  return kLayouts[name](name, options);
}
