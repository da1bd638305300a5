// tilekiln compile: an ONNX file to a bundle.
import { basename } from 'node:path';
import { UsageError, print, say, write_user_file, type Command } from './command.ts';
import { compile_files, option_value, read_compiler_args } from './compiler_files.ts';
import { check_sample_options, compile_quantized } from './quantize_files.ts';

const kUsage = `MODEL.onnx [-o MODEL.kiln] [--input-shape NAME:DIMS[;NAME:DIMS]]…
    [--dynamic-batch N,N…] [--dynamic-size H,W;H,W…] [--input-layout NCHW|NHWC] [--output-layout NCHW|NHWC]
    [--labels FILE] [--task detect:yolov5|detect:yolov8|detect:yolox|detect:end2end|detect:tiny-yolov2|classify]
    [--preprocess ultralytics|yolox|torchvision|keras|raw|FILE.json] [--sidecar FILE.json]
    [--bind NAME=FILE.npy|FILE.pb]… [--weights fp32|fp16] [--prune-threshold X]
    [--prepared-budget X] [--exact] [--dump STAGE]
    [--precision fp32|int8 --calibrate DIR|FILE.npy [--calib-count 1024]
    [--calib-method search|minmax|percentile|entropy|mse] [--keep-float NODE,NODE…] [--quantize-head]
    [--evaluate DIR|FILE.npy] [--accuracy-budget X] [--report DIR]]`;

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
    const parsed = read_compiler_args(args);
    const { model, line } = parsed;
    if (!model) throw new UsageError('compile needs a model file');
    const named = option_value(parsed, '-o', '--output');
    const output = named ?? default_output(model);
    if (check_sample_options(parsed)) return compile_quantized(parsed, model, output);
    const command = ['compile', ...(named === undefined ? ['-o', output] : []), ...line];
    const job = await compile_files(command, parsed, model, ['-o', output]);
    if (job.stderr) say(job.stderr);
    if (job.stdout) print(job.stdout);
    if (job.exit_code !== 0) return job.exit_code;
    const report = option_value(parsed, '--quant-report');
    const report_bytes = report === undefined ? undefined : job.result(report);
    if (report_bytes) await write_user_file(report!, report_bytes);
    const bundle = job.result(output);
    if (bundle) {
      await write_user_file(output, bundle);
      say(`wrote ${output}`);
    }
    return 0;
  },
};
