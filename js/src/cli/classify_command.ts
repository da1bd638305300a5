// tilekiln classify: the likeliest classes of each image.
import { read_image } from '../targets/node_image.ts';
import { Classifier, type ClassScore } from '../vision/classifier.ts';
import {
  UsageError,
  number_option,
  parse_options,
  print,
  say,
  table,
  threads_option,
  type Command,
} from './command.ts';

export const classify_command: Command = {
  name: 'classify',
  usage: 'MODEL.kiln IMAGE… [--json] [--top 5] [--threads N|auto]',
  summary: 'tell what images show',
  run: async (args) => {
    const { values, positionals } = parse_options(args, {
      json: { type: 'boolean' },
      top: { type: 'string' },
      threads: { type: 'string' },
    });
    const [bundle, ...images] = positionals;
    if (bundle === undefined || images.length === 0)
      throw new UsageError('classify needs a bundle and at least one image');
    const top = number_option('top', values.top, 5, 1, 1_000_000, true);
    const threads = threads_option(values.threads);
    using classifier = await Classifier.load(bundle, { threads });
    const results: { image: string; classes: readonly ClassScore[] }[] = [];
    let failed = 0;
    for (const image of images) {
      try {
        const classes = await classifier.classify(await read_image(image), { top });
        results.push({ image, classes });
        const rows = classes.map(({ index, label, score }) => [String(index), score.toFixed(4), label]);
        if (!values.json) print(`${image}\n${table([['class', 'score', 'label'], ...rows])}`);
      } catch (error) {
        say(`error: ${(error as Error).message}`);
        ++failed;
      }
    }
    if (values.json) print(JSON.stringify(results, null, 2));
    return failed > 0 ? 1 : 0;
  },
};
