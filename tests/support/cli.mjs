// Runs the built command line, dist/cli.js, as a user's shell would.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { root } from '../../scripts/run_stage.mjs';

/**
 * @param {string[]} args after `tilekiln`
 * @param {{cwd?: string, node_args?: string[], env?: object}} options
 * @returns {Promise<{code: number | null, signal: string | null, stdout: string, stderr: string}>} after it ended by itself
 */
export function run_cli(args, { cwd, node_args = [], env = {} } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...node_args, join(root, 'dist/cli.js'), ...args], {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const texts = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'])
      child[name].setEncoding('utf8').on('data', (text) => (texts[name] += text));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, ...texts }));
  });
}
