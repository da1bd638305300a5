// Writes what was measured into docs/performance.md, between markers, and docs/performance.svg.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { markdown_report } from './report.mjs';

/** Replaces what is between <!-- bench:NAME --> and <!-- /bench:NAME --> in a text. */
export function replace_section(text, name, content) {
  const [begin, end] = [`<!-- bench:${name} -->`, `<!-- /bench:${name} -->`];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`no markers ${begin} … ${end}`);
  return `${text.slice(0, from + begin.length)}\n\n${content.trim()}\n\n${text.slice(to)}`;
}

export function write_docs(results, folder) {
  const file = join(folder, 'performance.md');
  let text = readFileSync(file, 'utf8');
  if (results.races.length > 0) text = replace_section(text, 'races', markdown_report(results));
  writeFileSync(file, text);
}
