// tilekiln compile --precision int8 --calibrate: quantises a model file with pictures or tensors from files.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { quantize } from '../quant/quantize.ts';
import type { CompileWith } from '../quant/quantize_job.ts';
import {
  check_quantization,
  kDefaultCount,
  kMethods,
  kMostSamples,
  type CalibrationMethod,
  type QuantizationOptions,
} from '../quant/quantize_options.ts';
import { quantization_text, summary_lines, type QuantizationReport } from '../quant/report.ts';
import { quantization_svg } from '../quant/report_svg.ts';
import { balance_notices } from '../quant/warnings.ts';
import { check_overwrites, make_folder, number_option, say, UsageError, write_user_file } from './command.ts';
import { open_model, option_value, without_options, type CompilerArgs } from './compiler_files.ts';
import { ProgressLine } from './progress_line.ts';
import { read_sample_files, type SampleFiles } from './sample_files.ts';

/** Options that only mean something where the CLI calibrates. */
const kNeedCalibrate = ['--calib-count', '--evaluate', '--accuracy-budget', '--report'];
/** Options of the compiler that this file sets itself, once a compilation. */
const kOwn = [
  '-o',
  '--output',
  '--precision',
  '--calibrate',
  '--calib-method',
  '--keep-float',
  '--quantize-head',
  '--weights',
  '--exact',
  ...kNeedCalibrate,
];
const kOfCompiler = ['--calib-stats', '--quant-report', '--observe', '--dump'];

/** The compiler refused the model; its own words have been printed. */
class CompilerFailed extends Error {
  readonly exit_code: number;
  constructor(exit_code: number) {
    super('the compiler failed');
    this.exit_code = exit_code;
  }
}

/**
 * Whether the command line asks for calibration.
 * @throws UsageError if its options do not go together
 */
export function check_sample_options(args: CompilerArgs): boolean {
  const is_int8 = option_value(args, '--precision') === 'int8';
  const calibrates = option_value(args, '--calibrate') !== undefined;
  if (is_int8 && !calibrates && option_value(args, '--calib-stats') === undefined) {
    throw new UsageError(
      "--precision int8 needs --calibrate DIR|FILE.npy: some hundred pictures, or tensors of the model's input, that show what the model will see",
    );
  }
  const misplaced = ['--calibrate', ...kNeedCalibrate].find((name) => option_value(args, name) !== undefined);
  if (misplaced !== undefined && !is_int8) throw new UsageError(`${misplaced} goes with --precision int8 only`);
  if (misplaced !== undefined && !calibrates) throw new UsageError(`${misplaced} needs --calibrate DIR|FILE.npy`);
  if (!calibrates) return false;
  const other = kOfCompiler.find((name) => option_value(args, name) !== undefined || args.line.includes(name));
  if (other !== undefined) throw new UsageError(`${other} does not go with --calibrate`);
  if (option_value(args, '--accuracy-budget') !== undefined && option_value(args, '--evaluate') === undefined)
    throw new UsageError('--accuracy-budget needs --evaluate DIR|FILE.npy: samples that were not calibrated on');
  return true;
}

/** Class folders as class indices: they are names of --labels, or numbers; undefined if they are neither. */
async function folder_labels(args: CompilerArgs, { folders }: SampleFiles): Promise<number[] | undefined> {
  if (!folders) return undefined;
  const file = option_value(args, '--labels');
  const lines = file === undefined ? [] : (await readFile(file, 'utf8')).split(/\r?\n/);
  const indices = folders.map((folder) => {
    const index = lines.indexOf(folder);
    return index >= 0 || !/^\d+$/.test(folder) ? index : Number(folder);
  });
  return indices.includes(-1) ? undefined : indices;
}

function count_folders({ folders }: SampleFiles): Map<string, number> {
  const counts = new Map<string, number>();
  for (const folder of folders ?? []) counts.set(folder, (counts.get(folder) ?? 0) + 1);
  return counts;
}

/** The options as those of the API. */
async function read_quantization(
  args: CompilerArgs,
  evaluation: SampleFiles | undefined,
): Promise<QuantizationOptions> {
  const method = option_value(args, '--calib-method') ?? 'search';
  if (!kMethods.includes(method as CalibrationMethod))
    throw new UsageError(`--calib-method ${method}; allowed: ${kMethods.join(', ')}`);
  const budget = option_value(args, '--accuracy-budget');
  return {
    method: method as CalibrationMethod,
    keepFloat: option_value(args, '--keep-float')?.split(',').filter(Boolean),
    quantizeHead: args.line.includes('--quantize-head'),
    evaluate: evaluation?.samples,
    evaluateLabels: evaluation && (await folder_labels(args, evaluation)),
    accuracyBudget: budget === undefined ? undefined : number_option('accuracy-budget', budget, 0, 0, 100),
  };
}

/** Compilations of the model for quantize(). */
async function make_compile(args: CompilerArgs, model: string, output: string): Promise<CompileWith> {
  const compiler = await open_model(args, model, ['-o', output]);
  const all = without_options(args, kOwn);
  const single_args = without_options({ ...args, line: all }, ['--dynamic-batch']);
  const has_batches = single_args.length < all.length;
  const weights = option_value(args, '--weights');
  const int8_flags = [
    ...(weights === undefined ? [] : ['--weights', weights]),
    ...(args.line.includes('--exact') ? ['--exact'] : []),
  ];
  return async ({ precision, flags, files, single }) => {
    const own = single ? [...single_args, ...(has_batches ? ['--dynamic-batch', '1'] : [])] : all;
    const more = precision === 'int8' ? int8_flags : [];
    const job = await compiler(['compile', ...own, ...more, ...flags, '-o', output], files);
    const bundle = job.result(output);
    if (job.exit_code !== 0 || !bundle) {
      say(job.stderr);
      throw new CompilerFailed(job.exit_code || 1);
    }
    const lines = job.stderr.split('\n').filter((line) => line.startsWith('notice: '));
    return { bundle, notices: lines.map((line) => line.slice('notice: '.length)), file: job.result };
  };
}

async function write_report(folder: string, report: QuantizationReport): Promise<void> {
  await make_folder(folder);
  const files = {
    'quantisation.json': `${JSON.stringify(report, null, 1)}\n`,
    'quantisation.txt': quantization_text(report),
    'quantisation.svg': quantization_svg(report),
  };
  for (const [name, content] of Object.entries(files)) {
    await write_user_file(join(folder, name), content);
    say(`wrote ${join(folder, name)}`);
  }
}

/** Quantises `model` into `output`; an exit code. */
export async function compile_quantized(args: CompilerArgs, model: string, output: string): Promise<number> {
  const count = number_option('calib-count', option_value(args, '--calib-count'), kDefaultCount, 1, kMostSamples, true);
  const calibrate = option_value(args, '--calibrate')!;
  const evaluate = option_value(args, '--evaluate');
  await check_overwrites('-o', output, [calibrate, ...(evaluate === undefined ? [] : [evaluate])]);
  const evaluation = evaluate === undefined ? undefined : await read_sample_files('--evaluate', evaluate, Infinity);
  const options = await read_quantization(args, evaluation);
  check_quantization('compile', options);
  const calibration = await read_sample_files('--calibrate', calibrate, count);
  const progress = new ProgressLine({
    calibrate: 2 * calibration.count,
    compare: calibration.count,
    evaluate: evaluation?.count ?? 0,
  });
  let report: QuantizationReport | undefined;
  const onReport = (made: QuantizationReport): void => void (report = made);
  try {
    const compile = await make_compile(args, model, output);
    const bundle = await quantize(
      compile,
      calibration.samples,
      { ...options, count, onReport },
      {
        onProgress: (news) => progress.show(news),
        sample_notices: balance_notices(count_folders(calibration)),
      },
    );
    progress.clear();
    report!.notices.forEach((notice) => say(`notice: ${notice}`));
    summary_lines(report!).forEach(say);
    await write_user_file(output, bundle);
    say(`wrote ${output}`);
    const folder = option_value(args, '--report');
    if (folder !== undefined) await write_report(folder, report!);
    return 0;
  } catch (error) {
    progress.clear();
    if (error instanceof CompilerFailed) return error.exit_code;
    throw error;
  }
}
