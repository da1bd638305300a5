// tilekiln bench: load, first run, median, p90 of a bundle, on an image end to end or on the run alone.
import { KilnError } from '../core/errors.ts';
import type { Feed } from '../core/feed.ts';
import { load, type Model } from '../core/model.ts';
import { array_type, num_elements, Tensor } from '../core/tensor.ts';
import { read_image } from '../targets/node_image.ts';
import { Classifier } from '../vision/classifier.ts';
import { Detector } from '../vision/detector.ts';
import { ImageModel } from '../vision/image_model.ts';
import type { StageTimes } from '../vision/stage.ts';
import { UsageError, number_option, parse_options, print, table, threads_option, type Command } from './command.ts';

/** Value at a share of the sorted samples: 0.5 is the median. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const low = Math.floor(position);
  const high = Math.ceil(position);
  return sorted[low]! + (sorted[high]! - sorted[low]!) * (position - low);
}

/** Feeds of the model's own shapes with fixed pseudo-random numbers (a linear congruential generator). */
function random_feeds(model: Model): Record<string, Feed> {
  let state = 12345;
  const next = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const entries = model.inputs.map((info): [string, Feed] => {
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

export const bench_command: Command = {
  name: 'bench',
  usage: 'MODEL.kiln [--runs N] [--warmup N] [--threads N|auto] [--simd auto|simd|relaxed] [--image FILE] [--json]',
  summary: 'time a bundle: first run, median, p90, GFLOP/s, FPS',
  run: async (args) => {
    const { values, positionals } = parse_options(args, {
      runs: { type: 'string' },
      warmup: { type: 'string' },
      threads: { type: 'string' },
      simd: { type: 'string' },
      image: { type: 'string' },
      json: { type: 'boolean' },
    });
    if (positionals.length !== 1) throw new UsageError(`bench needs one bundle, got ${positionals.length}`);
    const runs = number_option('runs', values.runs, 20, 1, 1_000_000, true);
    const warmup = number_option('warmup', values.warmup, 3, 0, 1_000_000, true);
    const threads = threads_option(values.threads);
    const simd = values.simd ?? 'auto';
    if (simd !== 'auto' && simd !== 'simd' && simd !== 'relaxed')
      throw new UsageError(`--simd ${simd}; allowed: auto, simd, relaxed`);

    const start = performance.now();
    using model = await load(positionals[0]!, { simd, threads });
    const load_ms = performance.now() - start;
    const frame = await frame_of(model, values.image);
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
      model: positionals[0]!,
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
      fps: 1000 / (values.image === undefined ? median_ms : total_ms),
      gflops: (2 * macs) / median_ms / 1e6,
      arena_bytes: memory.arena_bytes,
      weights_bytes: memory.weights_bytes,
    };
    if (values.json) {
      print(JSON.stringify(result));
      return 0;
    }
    const ms = (value: number): string => `${value.toFixed(2)} ms`;
    print(
      table([
        [result.model, `${runs} runs, ${result.threads} thread${result.threads === 1 ? '' : 's'}, ${result.simd}`],
        ['load', ms(load_ms)],
        ['first run', ms(first_ms)],
        ['median', ms(median_ms)],
        ['p90', ms(result.p90_ms)],
        ['min', ms(result.min_ms)],
        ...(values.image === undefined
          ? []
          : [['pre / post / total', `${ms(pre_ms)} / ${ms(post_ms)} / ${ms(total_ms)}`]]),
        ['GFLOP/s', result.gflops.toFixed(1)],
        ['FPS', result.fps.toFixed(1)],
        [
          'arena, weights',
          `${(result.arena_bytes / 1e6).toFixed(1)} MB, ${(result.weights_bytes / 1e6).toFixed(1)} MB`,
        ],
      ]),
    );
    return 0;
  },
};
