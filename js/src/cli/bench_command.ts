// tilekiln bench: load, first run, median, p90 of a bundle, on an image end to end or on the run alone; with --vs of an ONNX
// model on our runtime and on another engine.
import { KilnError } from '../core/errors.ts';
import { load, type LoadOptions, type Model } from '../core/model.ts';
import { array_type, num_elements, Tensor } from '../core/tensor.ts';
import { wanted_threads } from '../core/threads.ts';
import { read_image } from '../targets/node_image.ts';
import { Classifier } from '../vision/classifier.ts';
import { Detector } from '../vision/detector.ts';
import { ImageModel } from '../vision/image_model.ts';
import type { StageTimes } from '../vision/stage.ts';
import { kRivals, load_rival, own_engine, race_engines, type Rival, type Timings } from './bench_rival.ts';
import {
  UsageError,
  number_option,
  parse_options,
  print,
  read_user_file,
  say,
  table,
  threads_option,
  type Command,
} from './command.ts';
import { compile_files } from './compiler_files.ts';

const kPauseMs = 10; // between runs of threaded engines: workers of the other poll for a while before they sleep
const kRaceWarmup = 10; // the engine's optimizing compiler replaces the code of the first runs

/** Value at a share of the sorted samples: 0.5 is the median. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const low = Math.floor(position);
  const high = Math.ceil(position);
  return sorted[low]! + (sorted[high]! - sorted[low]!) * (position - low);
}

/** Feeds of the model's own shapes with fixed pseudo-random numbers (a linear congruential generator). */
function random_feeds(model: Model): Record<string, Tensor> {
  let state = 12345;
  const next = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const entries = model.inputs.map((info): [string, Tensor] => {
    const data = new (array_type(info.dtype))(num_elements(info.shape));
    if (data instanceof Float32Array || data instanceof Float64Array) data.forEach((_, i) => (data[i] = next()));
    return [info.name, new Tensor(info.dtype, info.shape, data)];
  });
  return Object.fromEntries(entries);
}

type Frame = () => Promise<StageTimes>;

/** A detector, or undefined for a model that is none. */
function make_detector(model: Model): Detector | undefined {
  try {
    return new Detector(model);
  } catch (error) {
    const is_other = error instanceof KilnError && error.code === 'UNSUPPORTED';
    if (is_other && !model.metadata['task']?.startsWith('detect')) return undefined;
    throw error;
  }
}

async function frame_of(model: Model, image: string | undefined): Promise<Frame> {
  if (image === undefined) {
    const feeds = random_feeds(model);
    return async () => {
      const start = performance.now();
      await model.run(feeds);
      return { pre_ms: 0, run_ms: performance.now() - start, post_ms: 0 };
    };
  }
  const pixels = await read_image(image);
  const task = model.metadata['task'] ?? '';
  if (task === 'classify') {
    const classifier = new Classifier(model);
    return async () => {
      await classifier.classify(pixels);
      return classifier.times;
    };
  }
  const detector = make_detector(model);
  if (detector) {
    return async () => {
      await detector.detect(pixels);
      return detector.times;
    };
  }
  const net = new ImageModel(model);
  return async () => {
    await net.run(pixels);
    return net.times;
  };
}

const threads_text = (threads: number): string => `${threads} thread${threads === 1 ? '' : 's'}`;
const ms_text = (value: number): string => `${value.toFixed(2)} ms`;

/** What the options of `bench` come to. */
interface BenchOptions {
  readonly runs: number;
  readonly warmup: number;
  readonly threads: NonNullable<LoadOptions['threads']>;
  readonly simd: NonNullable<LoadOptions['simd']>;
  readonly json: boolean;
}

/** Times one bundle and prints the result. */
async function bench_bundle(file: string, image: string | undefined, options: BenchOptions): Promise<void> {
  const { runs, warmup, threads, simd, json } = options;
  const start = performance.now();
  using model = await load(file, { simd, threads });
  const load_ms = performance.now() - start;
  const frame = await frame_of(model, image);
  const first = await frame();
  const first_ms = first.pre_ms + first.run_ms + first.post_ms;
  for (let i = 0; i < warmup; ++i) await frame();
  const times: StageTimes[] = [];
  for (let i = 0; i < runs; ++i) times.push(await frame());

  const run_ms = times.map((time) => time.run_ms);
  const median_ms = quantile(run_ms, 0.5);
  const pre_ms = quantile(
    times.map((time) => time.pre_ms),
    0.5,
  );
  const post_ms = quantile(
    times.map((time) => time.post_ms),
    0.5,
  );
  const total_ms = quantile(
    times.map((time) => time.pre_ms + time.run_ms + time.post_ms),
    0.5,
  );
  const macs = model.steps().reduce((sum, step) => sum + step.macs, 0);
  const memory = model.memory();
  const result = {
    model: file,
    runs,
    threads: model.threads,
    simd: model.simd,
    load_ms,
    first_ms,
    median_ms,
    p90_ms: quantile(run_ms, 0.9),
    min_ms: Math.min(...run_ms),
    pre_ms,
    post_ms,
    total_ms,
    fps: 1000 / (image === undefined ? median_ms : total_ms),
    gflops: (2 * macs) / median_ms / 1e6,
    arena_bytes: memory.arena_bytes,
    weights_bytes: memory.weights_bytes,
  };
  if (json) {
    print(JSON.stringify(result));
    return;
  }
  print(
    table([
      [result.model, `${runs} runs, ${threads_text(result.threads)}, ${result.simd}`],
      ['load', ms_text(load_ms)],
      ['first run', ms_text(first_ms)],
      ['median', ms_text(median_ms)],
      ['p90', ms_text(result.p90_ms)],
      ['min', ms_text(result.min_ms)],
      ...(image === undefined
        ? []
        : [['pre / post / total', `${ms_text(pre_ms)} / ${ms_text(post_ms)} / ${ms_text(total_ms)}`]]),
      ['GFLOP/s', result.gflops.toFixed(1)],
      ['FPS', result.fps.toFixed(1)],
      ['arena, weights', `${(result.arena_bytes / 1e6).toFixed(1)} MB, ${(result.weights_bytes / 1e6).toFixed(1)} MB`],
    ]),
  );
}

/** The bundle of an ONNX file, as `tilekiln compile` makes it. */
async function compile_for_race(file: string, input_shapes: readonly string[]): Promise<Uint8Array<ArrayBuffer>> {
  const options = input_shapes.map((shape): [string, string] => ['--input-shape', shape]);
  const path = file.startsWith('-') ? `./${file}` : file;
  const line = ['compile', '-o', 'race.kiln', ...options.flat(), path];
  const job = await compile_files(line, { model: path, options, line }, path, undefined);
  const bundle = job.result('race.kiln');
  if (job.exit_code !== 0 || !bundle) {
    throw new KilnError('INVALID_MODEL', job.stderr.trim().replace(/^error: /, ''), { problems: job.problems });
  }
  if (job.stderr) say(job.stderr);
  return bundle;
}

function side_of({ first_ms, samples }: Timings, load_ms: number, macs: number): Record<string, number> {
  const median_ms = quantile(samples, 0.5);
  return {
    load_ms,
    first_ms,
    median_ms,
    p90_ms: quantile(samples, 0.9),
    min_ms: Math.min(...samples),
    gflops: (2 * macs) / median_ms / 1e6,
  };
}

/** Runs an ONNX file on our runtime and on a rival, in turn, and prints both and the ratio. */
async function bench_versus(
  file: string,
  name: Rival,
  input_shapes: readonly string[],
  tolerance: number,
  { runs, warmup, threads, simd, json }: BenchOptions,
): Promise<void> {
  const onnx = await read_user_file(file);
  const bundle = await compile_for_race(file, input_shapes);
  const { threads: num_threads } = wanted_threads(threads);
  const start = performance.now();
  const model = await load(bundle, { simd, threads: num_threads });
  const load_ms = performance.now() - start;
  const feeds = random_feeds(model);
  const macs = model.steps().reduce((sum, step) => sum + step.macs, 0);
  const ours = own_engine(model, load_ms, feeds);
  const rival = await load_rival(name, process.cwd(), onnx, feeds, num_threads);
  const race = await race_engines(ours, rival, name, {
    runs,
    warmup,
    tolerance,
    pause_ms: num_threads > 1 ? kPauseMs : 0,
  });
  const ratios = race.ours.samples.map((ms, run) => race.rival.samples[run]! / ms);
  const result = {
    model: file,
    vs: name,
    runs,
    threads: model.threads,
    simd: model.simd,
    difference: race.difference,
    ours: side_of(race.ours, ours.load_ms, macs),
    rival: side_of(race.rival, rival.load_ms, macs),
    ratio: quantile(ratios, 0.5),
    ratio_quartiles: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
  };
  for (const note of model.notes) say(`notice: ${note}`);
  await ours.dispose();
  await rival.dispose();
  if (json) return print(JSON.stringify(result));
  const row = (title: string, side: Record<string, number>): string[] => [
    title,
    ...['load_ms', 'first_ms', 'median_ms', 'p90_ms', 'min_ms', 'gflops'].map((key) => side[key]!.toFixed(2)),
  ];
  print(
    table([
      ['', 'load ms', 'first run ms', 'median ms', 'p90 ms', 'min ms', 'GFLOP/s'],
      row(`tilekiln (${model.simd})`, result.ours),
      row(name, result.rival),
    ]),
  );
  const [low, high] = result.ratio_quartiles;
  print(
    `${file}: tilekiln is ${result.ratio.toFixed(2)} x as fast as ${name} (quartiles ${low!.toFixed(2)} to ${high!.toFixed(2)}), ` +
      `${runs} runs in turn, ${threads_text(result.threads)}; outputs differ by ${result.difference.toExponential(1)} of the largest value`,
  );
}

export const bench_command: Command = {
  name: 'bench',
  usage: `MODEL.kiln [--image FILE] [OPTIONS]
       tilekiln bench MODEL.onnx --vs ${kRivals.join('|')} [--input-shape NAME:DIMS]… [--tolerance X] [OPTIONS]
    OPTIONS: [--runs N] [--warmup N] [--threads N|auto] [--simd auto|simd|relaxed] [--json]`,
  summary: 'time a bundle: first run, median, p90, GFLOP/s, FPS; or race a model against onnxruntime',
  run: async (args) => {
    const { values, positionals } = parse_options(args, {
      'runs': { type: 'string' },
      'warmup': { type: 'string' },
      'threads': { type: 'string' },
      'simd': { type: 'string' },
      'image': { type: 'string' },
      'json': { type: 'boolean' },
      'vs': { type: 'string' },
      'input-shape': { type: 'string', multiple: true },
      'tolerance': { type: 'string' },
    });
    const rival = kRivals.find((name) => name === values.vs);
    if (values.vs !== undefined && !rival) throw new UsageError(`--vs ${values.vs}; allowed: ${kRivals.join(', ')}`);
    if (positionals.length !== 1)
      throw new UsageError(`bench needs one ${rival ? 'ONNX file' : 'bundle'}, got ${positionals.length}`);
    const simd = values.simd ?? 'auto';
    if (simd !== 'auto' && simd !== 'simd' && simd !== 'relaxed')
      throw new UsageError(`--simd ${simd}; allowed: auto, simd, relaxed`);
    const options = {
      runs: number_option('runs', values.runs, 20, 1, 1_000_000, true),
      warmup: number_option('warmup', values.warmup, rival ? kRaceWarmup : 3, 0, 1_000_000, true),
      threads: threads_option(values.threads),
      simd,
      json: values.json ?? false,
    } as const;
    if (rival) {
      if (values.image !== undefined)
        throw new UsageError('--image and --vs do not go together: others read no images');
      const tolerance = number_option('tolerance', values.tolerance, 1e-3, 0, 1);
      await bench_versus(positionals[0]!, rival, values['input-shape'] ?? [], tolerance, options);
      return 0;
    }
    for (const name of ['input-shape', 'tolerance'] as const)
      if (values[name] !== undefined) throw new UsageError(`--${name} is for --vs`);
    await bench_bundle(positionals[0]!, values.image, options);
    return 0;
  },
};
