// What ultralytics' exports have in common: blocks of YOLOv5 and YOLOv8, and the entries of metadata_props.
import { read_labels } from '../labels/read_labels.mjs';

/** Spatial pyramid pooling, fast form: three chained 5x5 max pools of a halved feature, concatenated. */
export function sppf(net, x, path, out) {
  const parts = [net.conv(x, `${path}.cv1`, { out: x.c / 2, kernel: 1 })];
  for (let i = 0; i < 3; i++) parts.push(net.max_pool(parts[i], `${path}.m`, { kernel: 5, stride: 1, pad: 2 }));
  return net.conv(net.concat(parts, path), `${path}.cv2`, { out, kernel: 1 });
}

/** Residual (if `shortcut`) pair of convolutions, the first with `kernel`, the second 3x3. */
export function bottleneck(net, x, path, { kernel, shortcut }) {
  const y = net.conv(x, `${path}.cv1`, { out: x.c, kernel });
  const z = net.conv(y, `${path}.cv2`, { out: x.c, kernel: 3, damp: shortcut ? 0.7 : 1 });
  return shortcut ? net.add(x, z, path) : z;
}

/** metadata_props as ultralytics writes them (Python literals); the export date is left out. */
export function export_metadata(name, size, batch) {
  const names = read_labels('coco').map((label, index) => `${index}: '${label}'`);
  return {
    description: `${name} layout with random weights`,
    author: 'tilekiln',
    stride: 32,
    task: 'detect',
    batch: typeof batch === 'number' ? batch : 1,
    imgsz: `[${size}, ${size}]`,
    names: `{${names.join(', ')}}`,
  };
}
