#!/usr/bin/env node
// The command line: finds the command, prints errors, sets the exit code (0 fine, 1 failed, 2 usage).
import { KilnError } from '../core/errors.ts';
import { set_platform } from '../core/platform.ts';
import { node_platform } from '../targets/node.ts';
import { enable_node_fast } from '../targets/node_fast.ts';
import { bench_command } from './bench_command.ts';
import { classify_command } from './classify_command.ts';
import { print, say, UsageError, type Command } from './command.ts';
import { compile_command } from './compile_command.ts';
import { detect_command } from './detect_command.ts';
import { fetch_command } from './fetch_command.ts';
import { inspect_command } from './inspect_command.ts';
import { run_command } from './run_command.ts';
import { kVersion } from './version.ts';

const kCommands: readonly Command[] = [
  compile_command,
  inspect_command,
  run_command,
  detect_command,
  classify_command,
  bench_command,
  fetch_command,
];

function help(): string {
  const lines = kCommands.map((command) => `  ${command.name.padEnd(9)} ${command.summary}`);
  return `tilekiln ${kVersion}: compiles ONNX models to bundles and runs them\n\nusage: tilekiln COMMAND …\n\n${lines.join('\n')}\n\ntilekiln COMMAND --help tells a command's options. --fast sets V8 flags that\nmake models run faster, once their results have been checked. Exit codes: 0 fine, 1 failed, 2 usage.`;
}

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    print(help());
    return name === undefined ? 2 : 0;
  }
  if (name === '--version' || name === '-v') {
    print(kVersion);
    return 0;
  }
  const command = kCommands.find((candidate) => candidate.name === name);
  if (!command) {
    say(`error: unknown command '${name}'; allowed: ${kCommands.map((candidate) => candidate.name).join(', ')}`);
    return 2;
  }
  const options = rest.includes('--') ? rest.slice(0, rest.indexOf('--')) : rest;
  if (options.includes('--help') || options.includes('-h')) {
    print(`tilekiln ${command.name}: ${command.summary}\n\nusage: tilekiln ${command.name} ${command.usage}`);
    return 0;
  }
  const fast_at = options.indexOf('--fast');
  if (fast_at >= 0) rest.splice(fast_at, 1);
  try {
    if (fast_at >= 0) (await enable_node_fast()).notes.forEach((note) => say(`notice: ${note}`));
    return await command.run(rest);
  } catch (error) {
    if (error instanceof UsageError) {
      say(`error: ${error.message}\nusage: tilekiln ${command.name} ${command.usage}`);
      return 2;
    }
    if (error instanceof KilnError) {
      say(`error: ${error.message}`);
      return 1;
    }
    throw error;
  }
}

// A reader that went away (head, less) has seen enough: the work goes on without printing, files are still written.
// Any other error means that results are lost. It may come while a command runs or after it.
let lost_output = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE' || lost_output) return;
  lost_output = true;
  process.exitCode ||= 1;
  say(`error: standard output cannot be written: ${error.message}`);
});
process.stderr.on('error', () => {}); // there is no place left to say it
set_platform(node_platform(import.meta.url));
const exit_code = await main(process.argv.slice(2));
process.exitCode = exit_code || (lost_output ? 1 : 0);
