// Fails on files that clang-format or prettier would change; `npm run format` mends them.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root, run } from '../run_stage.mjs';

const files_of = (...patterns) =>
  spawnSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate', '--', ...patterns], {
    cwd: root,
    encoding: 'utf8',
  })
    .stdout.split('\n')
    .filter(Boolean);

/** Checks (or with `mend` rewrites) the format of all C++ and JS/TS files; an exit code. */
export async function check_format(mend = false) {
  const cpp = files_of('*.cc', '*.h');
  const js = files_of('*.ts', '*.mjs', '*.css', '*.html');
  const prettier = join(root, 'node_modules/.bin/prettier');
  const cpp_code =
    cpp.length === 0 ? 0 : await run('clang-format', [...(mend ? ['-i'] : ['--dry-run', '-Werror']), ...cpp]);
  const js_code =
    js.length === 0 ? 0 : await run(prettier, [mend ? '--write' : '--check', '--log-level', 'warn', ...js]);
  if (cpp_code || js_code) console.error('format: run `npm run format`');
  else console.log(`${cpp.length} C++ and ${js.length} JS/TS files are formatted`);
  return cpp_code || js_code;
}
