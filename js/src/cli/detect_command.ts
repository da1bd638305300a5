// tilekiln detect: boxes of each image.
import { extname } from 'node:path';
import { write_annotated } from '../targets/annotate.ts';
import { read_image } from '../targets/node_image.ts';
import { kDecoders, type DecoderName } from '../vision/decoder.ts';
import { Detector, type Detection } from '../vision/detector.ts';
import {
  UsageError,
  check_overwrites,
  number_option,
  parse_options,
  print,
  say,
  table,
  threads_option,
  type Command,
} from './command.ts';

interface ImageDetections {
  readonly image: string;
  readonly width: number;
  readonly height: number;
  readonly detections: readonly Detection[];
}

const kDigits = 1e6;
const rounded = (value: number): number => Math.round(value * kDigits) / kDigits;

function to_json(results: readonly ImageDetections[]): string {
  const plain = results.map((result) => ({
    ...result,
    detections: result.detections.map(({ box, score, class: class_id, label }) => ({
      box: box.map(rounded),
      score: rounded(score),
      class: class_id,
      label,
    })),
  }));
  return JSON.stringify(plain, null, 2);
}

function to_table({ image, width, height, detections }: ImageDetections): string {
  const head = `${image}: ${width} x ${height}, ${detections.length} ${detections.length === 1 ? 'object' : 'objects'}`;
  if (detections.length === 0) return head;
  const rows = detections.map(({ box, score, label }) => [label, score.toFixed(3), ...box.map((v) => v.toFixed(1))]);
  return `${head}\n${table([['label', 'score', 'x1', 'y1', 'x2', 'y2'], ...rows])}`;
}

// OUT.png for one image; OUT-1.png, OUT-2.png, … for several.
function annotated_path(path: string, index: number, count: number): string {
  if (count === 1) return path;
  const ending = extname(path);
  return `${path.slice(0, path.length - ending.length)}-${index + 1}${ending}`;
}

export const detect_command: Command = {
  name: 'detect',
  usage:
    'MODEL.kiln IMAGE… [--json] [--score 0.25] [--iou 0.45] [--max-det 300] [--decoder NAME] [--annotate OUT.png] [--threads N|auto]',
  summary: 'find objects in images',
  run: async (args) => {
    const { values, positionals } = parse_options(args, {
      'json': { type: 'boolean' },
      'score': { type: 'string' },
      'iou': { type: 'string' },
      'max-det': { type: 'string' },
      'decoder': { type: 'string' },
      'annotate': { type: 'string' },
      'threads': { type: 'string' },
    });
    const [bundle, ...images] = positionals;
    if (bundle === undefined || images.length === 0)
      throw new UsageError('detect needs a bundle and at least one image');
    const score = number_option('score', values.score, 0.25, 0, 1);
    const iou = number_option('iou', values.iou, 0.45, 0, 1);
    const maxDetections = number_option('max-det', values['max-det'], 300, 1, 100_000, true);
    if (values.decoder !== undefined && !kDecoders.includes(values.decoder as DecoderName)) {
      throw new UsageError(`--decoder ${values.decoder}; allowed: ${kDecoders.join(', ')}`);
    }
    if (values.annotate !== undefined && !/\.(png|jpe?g|webp)$/i.test(values.annotate)) {
      throw new UsageError(`--annotate ${values.annotate}; allowed endings: .png, .jpg, .webp`);
    }
    const threads = threads_option(values.threads);
    const drawings = images.map((_, index) => annotated_path(values.annotate ?? '', index, images.length));
    if (values.annotate !== undefined) {
      for (const path of drawings) await check_overwrites('--annotate', path, positionals);
    }
    const decoder = values.decoder as DecoderName | undefined;
    using detector = await Detector.load(bundle, { decoder, threads });
    const results: ImageDetections[] = [];
    let failed = 0;
    for (const [index, image] of images.entries()) {
      try {
        const pixels = await read_image(image);
        const detections = await detector.detect(pixels, { score, iou, maxDetections });
        const result = { image, width: pixels.width, height: pixels.height, detections };
        results.push(result);
        if (!values.json) print(to_table(result));
        if (values.annotate !== undefined) {
          const path = drawings[index]!;
          const marks = detections.map((d) => ({
            box: d.box,
            text: `${d.label} ${d.score.toFixed(2)}`,
            color: d.class,
          }));
          await write_annotated(path, pixels, marks);
          say(`wrote ${path}`);
        }
      } catch (error) {
        say(`error: ${(error as Error).message}`);
        ++failed;
      }
    }
    if (values.json) print(to_json(results));
    return failed > 0 ? 1 : 0;
  },
};
