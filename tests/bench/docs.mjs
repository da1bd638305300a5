// Writes what was measured into docs/performance.md, between markers, and docs/performance.svg.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { speed_chart } from './chart.mjs';
import { layers_report, races_report } from './report.mjs';

/**
 * A text with what is between <!-- bench:NAME --> and <!-- /bench:NAME --> replaced.
 * @throws Error without the markers
 */
export function replace_section(text, name, content) {
  const [begin, end] = [`<!-- bench:${name} -->`, `<!-- /bench:${name} -->`];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`no markers ${begin} and ${end}`);
  return `${text.slice(0, from + begin.length)}\n\n${content.trim()}\n\n${text.slice(to)}`;
}

/** Writes the sections that `results` has something for into `folder`/performance.md, and the chart of races. */
export function write_docs(results, folder) {
  const file = join(folder, 'performance.md');
  let text = readFileSync(file, 'utf8');
  if (results.races.length > 0) {
    text = replace_section(text, 'races', races_report(results));
    writeFileSync(join(folder, 'performance.svg'), speed_chart(results.races));
  }
  if (results.layers.length > 0) text = replace_section(text, 'layers', layers_report(results));
  writeFileSync(file, text);
}
