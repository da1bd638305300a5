// tilekiln inspect: what a model or a bundle holds, what is wrong with it, or its graph as a picture.
import { KilnError, type Problem } from '../core/errors.ts';
import { UsageError, print, say, write_user_file, type Command } from './command.ts';
import { compile_files, option_value, read_compiler_args } from './compiler_files.ts';

// What --check --json prints for a file of which nothing else can be told.
function problems_json(problems: readonly Problem[]): string {
  return JSON.stringify({ problems }, null, 1);
}

function problem_of({ code, node, message }: KilnError): Problem {
  return { code, node, op: '', opset: 0, attribute: '', value: '', supported: '', message };
}

export const inspect_command: Command = {
  name: 'inspect',
  usage: 'MODEL.onnx|MODEL.kiln [--json] [--stage NAME] [--check] [--svg OUT.svg] [--input-shape NAME:DIMS]…',
  summary: 'print what a model or bundle holds; --check lists every problem',
  run: async (args) => {
    const parsed = read_compiler_args(args);
    if (!parsed.model) throw new UsageError('inspect needs a model or bundle file');
    const svg = option_value(parsed, '--svg');
    const lists_problems = ['--check', '--json'].every((flag) => parsed.line.includes(flag));
    const output = svg ? (['--svg', svg] as const) : undefined;
    const job = await compile_files(['inspect', ...parsed.line], parsed, parsed.model, output).catch((error) => {
      if (lists_problems && error instanceof KilnError) print(problems_json([problem_of(error)]));
      throw error;
    });
    if (job.stderr) say(job.stderr);
    if (job.stdout) print(job.stdout);
    else if (lists_problems && job.exit_code === 1) print(problems_json(job.problems));
    const picture = svg ? job.result(svg) : undefined;
    if (svg && picture) {
      await write_user_file(svg, picture);
      say(`wrote ${svg}`);
    }
    return job.exit_code;
  },
};
