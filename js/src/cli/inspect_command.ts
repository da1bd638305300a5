// tilekiln inspect: what a model or a bundle holds, what is wrong with it, or its graph as a picture.
import { UsageError, print, say, write_user_file, type Command } from './command.ts';
import { compile_files, option_value, read_compiler_args } from './compiler_files.ts';

export const inspect_command: Command = {
  name: 'inspect',
  usage: 'MODEL.onnx|MODEL.kiln [--json] [--stage NAME] [--check] [--svg OUT.svg] [--input-shape NAME:DIMS]…',
  summary: 'print what a model or bundle holds; --check lists every problem',
  run: async (args) => {
    const parsed = read_compiler_args(args);
    if (parsed.model === undefined) throw new UsageError('inspect needs a model or bundle file');
    const svg = option_value(parsed, '--svg');
    const job = await compile_files(
      ['inspect', ...parsed.line],
      parsed,
      parsed.model,
      svg ? ['--svg', svg] : undefined,
    );
    if (job.stderr) say(job.stderr);
    if (job.stdout) print(job.stdout);
    const picture = svg ? job.result(svg) : undefined;
    if (svg && picture) {
      await write_user_file(svg, picture);
      say(`wrote ${svg}`);
    }
    return job.exit_code;
  },
};
