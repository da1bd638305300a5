// The shared first step of `npm start`, `npm test` and the rest: scripts/setup.sh, silent when there is nothing to do.
import { run } from './run_stage.mjs';

/** Sets up what `part` needs ("native", "wasm", "node", "browser" or "all"); exits with the script's code if it fails. */
export async function set_up(part = 'all') {
  const code = await run('bash', ['scripts/setup.sh', part]);
  if (code !== 0) process.exit(code);
}
