// js/src/quant for tests, with the artefacts of the built package.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../../scripts/run_stage.mjs';
import { import_inner } from './inner.mjs';

export const quant = await import_inner([
  'quant/samples.ts',
  'quant/sampled_model.ts',
  'quant/statistics.ts',
  'quant/compare.ts',
  'quant/evaluate.ts',
  'quant/roll_back.ts',
  'quant/report.ts',
  'quant/report_svg.ts',
  'quant/warnings.ts',
  'quant/quantize.ts',
  'core/tensor.ts',
  'core/platform.ts',
  'targets/node.ts',
]);
quant.set_platform(quant.node_platform(pathToFileURL(join(root, 'dist/index.node.js')).href));
