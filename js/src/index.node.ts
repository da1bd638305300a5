// Entry point of Node.
import { set_platform } from './core/platform.ts';
import { node_platform } from './targets/node.ts';

set_platform(node_platform(import.meta.url));

export * from './api.ts';
export { read_image as readImage } from './targets/node_image.ts';
export { write_annotated as writeAnnotated, type Mark } from './targets/annotate.ts';
