// tilekiln compile: an ONNX file to a bundle.
import { basename } from 'node:path';
import { UsageError, print, say, write_user_file, type Command } from './command.ts';
import { compile_files } from './compiler_files.ts';

const kUsage = `MODEL.onnx [-o MODEL.kiln] [--input-shape NAME:DIMS[;NAME:DIMS]]…
    [--dynamic-batch N,N…] [--dynamic-size H,W;H,W…] [--input-layout NCHW|NHWC] [--output-layout NCHW|NHWC]
    [--labels FILE] [--task detect:yolov5|detect:yolov8|detect:yolox|detect:end2end|detect:tiny-yolov2|classify]
    [--preprocess ultralytics|yolox|torchvision|keras|raw|FILE.json] [--bind NAME=FILE.npy]…
    [--precision fp32] [--dump STAGE]`;

/** The model's path among a compiler command line: the first argument that is no option and no option's value. */
export function model_argument(args: readonly string[], flags_without_value: readonly string[]): string | undefined {
  for (let i = 0; i < args.length; ++i) {
    if (!args[i]!.startsWith('-')) return args[i];
    if (!flags_without_value.includes(args[i]!) && !args[i]!.includes('=')) ++i;
  }
  return undefined;
}

/** MODEL.kiln beside MODEL.onnx; in the current folder for a URL. */
function default_output(model: string): string {
  const path = /^https?:/i.test(model) ? basename(new URL(model).pathname) || 'model' : model;
  return `${path.replace(/\.onnx$/i, '')}.kiln`;
}

export const compile_command: Command = {
  name: 'compile',
  usage: kUsage,
  summary: 'compile an ONNX model to a bundle',
  run: async (args) => {
    const model = model_argument(args, []);
    if (model === undefined) throw new UsageError('compile needs a model file');
    const at = args.findIndex((arg) => arg === '-o' || arg === '--output');
    if (at >= 0 && at + 1 >= args.length) throw new UsageError('-o needs a file name');
    const output = at >= 0 ? args[at + 1]! : default_output(model);
    const line = at >= 0 ? ['compile', ...args] : ['compile', ...args, '-o', output];
    const job = await compile_files(line, model);
    if (job.stderr) say(job.stderr);
    if (job.stdout) print(job.stdout);
    if (job.exit_code !== 0) return job.exit_code;
    const bundle = job.result(output);
    if (bundle) {
      await write_user_file(output, bundle);
      say(`wrote ${output}: ${(bundle.length / 1e6).toFixed(2)} MB`);
    }
    return 0;
  },
};
