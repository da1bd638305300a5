// Runs the commands of a stage in sight of the user: a headline, the command's own output, the seconds it took.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The environment with the toolchain of scripts/setup.sh on PATH, or the plain one before it has run. */
export function toolchain_env() {
  const script = join(root, '.toolchain', 'env.sh');
  if (!existsSync(script)) return process.env;
  const printed = spawnSync('bash', ['-c', `source "$0" && env -0`, script], { encoding: 'utf8' });
  const entries = printed.stdout.split('\0').filter((line) => line.includes('='));
  return Object.fromEntries(
    entries.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

/** What scripts/setup.sh wrote about the machine: paths of Chromium, Emscripten, ONNX test data; {} before it has run. */
export function toolchain_info() {
  const file = join(root, '.toolchain', 'env.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
}

/**
 * Runs a command with its output shown.
 * @param {string} command program name
 * @param {string[]} args its arguments
 * @param {{env?: object, cwd?: string}} options more environment, another folder
 * @returns {Promise<number>} its exit code
 */
export function run(command, args, options = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: options.cwd ?? root,
      env: { ...toolchain_env(), ...options.env },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    child.on('error', (error) => {
      console.error(`${command}: ${error.message}`);
      resolve(127);
    });
    child.on('close', (code, signal) => resolve(signal ? 128 : (code ?? 1)));
  });
}

/** Runs commands one after the other; the exit code of the first that fails, else 0. */
export async function run_all(commands) {
  for (const [command, args, options] of commands) {
    const code = await run(command, args, options);
    if (code !== 0) return code;
  }
  return 0;
}
