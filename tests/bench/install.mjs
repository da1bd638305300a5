// The bench's own node_modules (tests/bench/package.json): rivals, FlatBuffers, and a current Node, which no test needs.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from '../../scripts/run_stage.mjs';

export const kBenchFolder = join(root, 'tests/bench');
const kModules = join(kBenchFolder, 'node_modules');

/** Whether a package of the bench is installed. */
export const is_installed = (name) => existsSync(join(kModules, name, 'package.json'));

/** Installs what package-lock.json says, unless that is there already; an exit code. */
export async function install_bench_packages() {
  const stamp = join(kModules, '.tilekiln-lock');
  const key = createHash('sha256')
    .update(readFileSync(join(kBenchFolder, 'package-lock.json')))
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === key) return 0;
  console.log('bench: installing rivals and a current Node into tests/bench/node_modules …');
  const code = await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: kBenchFolder });
  if (code === 0) writeFileSync(stamp, key);
  return code;
}

/** Version of an installed package, of the bench's or of the project's. */
export function package_version(name) {
  const file = [kModules, join(root, 'node_modules')]
    .map((folder) => join(folder, name, 'package.json'))
    .find(existsSync);
  return file ? JSON.parse(readFileSync(file, 'utf8')).version : undefined;
}

/**
 * The Node that Node-side engines run in: `wanted`, else the bench's own, else this one.
 * @throws Error if `wanted` does not run
 */
export function find_node(wanted) {
  const own = join(kModules, `node-${process.platform}-${process.arch}`, 'bin/node'); // there on Linux only
  const node = wanted ?? (existsSync(own) ? own : process.execPath);
  const { status, stdout } = spawnSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`--node ${node} does not run`);
  return { node, version: stdout.trim() };
}
