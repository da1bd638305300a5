// tilekiln inspect: what a model or a bundle holds, what is wrong with it, or its graph as a picture.
import { UsageError, print, say, write_user_file, type Command } from './command.ts';
import { model_argument } from './compile_command.ts';
import { compile_files } from './compiler_files.ts';

export const inspect_command: Command = {
  name: 'inspect',
  usage: 'MODEL.onnx|MODEL.kiln [--json] [--stage NAME] [--check] [--svg OUT.svg] [--input-shape NAME:DIMS]…',
  summary: 'print what a model or bundle holds; --check lists every problem',
  run: async (args) => {
    const model = model_argument(args, ['--json', '--check']);
    if (model === undefined) throw new UsageError('inspect needs a model or bundle file');
    const job = await compile_files(['inspect', ...args], model);
    if (job.stderr) say(job.stderr);
    if (job.stdout) print(job.stdout);
    const svg = args.indexOf('--svg');
    const picture = svg >= 0 && args[svg + 1] ? job.result(args[svg + 1]!) : undefined;
    if (picture) {
      await write_user_file(args[svg + 1]!, picture);
      say(`wrote ${args[svg + 1]}`);
    }
    return job.exit_code;
  },
};
