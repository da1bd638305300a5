// npm run bench: tilekiln against onnxruntime-web at equal threads, interleaved in one run, outputs compared first.
//   npm run bench -- [--models resnet50,yolov8n,…] [--rounds N] [--hosts node,chromium] [--simd simd,relaxed] [--json FILE]
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bench_in_chromium, bench_in_node } from '../tests/bench/hosts.mjs';
import { kBenchModels, prepare_model } from '../tests/bench/models.mjs';
import { root } from './run_stage.mjs';
import { set_up } from './setup.mjs';

const { values } = parseArgs({
  options: {
    models: { type: 'string', default: 'resnet50,yolov8n' },
    rounds: { type: 'string', default: '15' },
    hosts: { type: 'string', default: 'node,chromium' },
    simd: { type: 'string', default: 'simd' },
    json: { type: 'string' },
  },
});
const rounds = Number(values.rounds);
const names = values.models.split(',');
const unknown = names.find((name) => !kBenchModels.includes(name));
if (unknown !== undefined || !(rounds >= 1)) {
  console.error(
    unknown !== undefined
      ? `bench: unknown model '${unknown}'; allowed: ${kBenchModels.join(', ')}`
      : `bench: --rounds ${values.rounds}; allowed: 1 and more`,
  );
  process.exit(2);
}

await set_up('all');
const folder = join(root, 'build/bench');
mkdirSync(folder, { recursive: true });
const results = [];
for (const name of names) {
  const model = await prepare_model(name, folder);
  for (const host of values.hosts.split(',')) {
    for (const simd of values.simd.split(',')) {
      const options = { rounds, warmup: 3, tolerance: 1e-4, simd };
      const result = await (host === 'node' ? bench_in_node : bench_in_chromium)(model, options);
      if (!result) continue;
      results.push({ model: name, host, gflop: model.gflop, ...result });
      const [ours, rival] = result.sides;
      const gflops = (side) => (model.gflop / side.median_ms) * 1000;
      console.log(
        `${name} in ${host}, one thread: ${ours.name} ${ours.median_ms.toFixed(1)} ms (${gflops(ours).toFixed(1)} GFLOP/s), ` +
          `${rival.name} ${rival.median_ms.toFixed(1)} ms (${gflops(rival).toFixed(1)}): ${result.ratio.toFixed(2)} x ` +
          `[${result.ratio_quartiles.map((q) => q.toFixed(2)).join(' to ')}], outputs within ${result.difference.toExponential(1)}, ` +
          `first run ${ours.first_ms.toFixed(1)} / ${rival.first_ms.toFixed(1)} ms, load ${ours.load_ms.toFixed(0)} / ${rival.load_ms.toFixed(0)} ms`,
      );
    }
  }
}
if (values.json) writeFileSync(values.json, JSON.stringify(results, null, 2));
