// Entry point `tilekiln/node-fast`: the same API, with the V8 flags set that make models run faster (targets/node_fast.ts).
import { set_platform } from './core/platform.ts';
import { enable_node_fast, type FastStatus } from './targets/node_fast.ts';
import { node_platform } from './targets/node.ts';

set_platform(node_platform(import.meta.url));

/** Which V8 flags were set, and why not the others. */
export const fast: FastStatus = await enable_node_fast();

export type { FastStatus };
export * from './api.ts';
export { read_image as readImage } from './targets/node_image.ts';
export { write_annotated as writeAnnotated, type Mark } from './targets/annotate.ts';
