// Label files: one class name a line, in index order.
import { readFileSync } from 'node:fs';

/** The names in labels/NAME.txt. */
export function read_labels(name) {
  return readFileSync(new URL(`${name}.txt`, import.meta.url), 'utf8')
    .trimEnd()
    .split('\n');
}
