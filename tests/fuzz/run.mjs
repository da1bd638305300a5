// Builds the libFuzzer targets and runs them side by side: node tests/fuzz/run.mjs [SECONDS] (default 60 each).
// The seed corpora are made by `make_corpus.mjs`; what a run finds new stays under build/fuzz/corpus.
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, run_all } from '../../scripts/run_stage.mjs';

const kTargets = ['onnx_reader', 'bundle_reader'];
const kPrograms = [...kTargets.map((name) => `fuzz_${name}`), 'make_bundle_seeds'];
const kMemoryMb = 2048; // a target that needs more than this on one input has a finding

const seconds = Number(process.argv[2] ?? 60);
if (!(seconds >= 1)) {
  console.error(`fuzz: ${process.argv[2]} seconds; allowed: 1 and more`);
  process.exit(2);
}

const commands = [
  ['cmake', ['--preset', 'dev']],
  ['cmake', ['--build', '--preset', 'dev', ...kPrograms.flatMap((name) => ['--target', name])]],
  ['node', ['tests/fuzz/make_corpus.mjs']],
];
const built = await run_all(commands);
if (built !== 0) process.exit(built);

async function fuzz(name) {
  const corpus = join(root, 'build/fuzz/corpus', name);
  const findings = join(root, 'build/fuzz/findings', `${name}-`);
  mkdirSync(corpus, { recursive: true });
  mkdirSync(join(root, 'build/fuzz/findings'), { recursive: true });
  const seeds = join(root, 'build/fuzz/seeds', name);
  if (!existsSync(seeds) || readdirSync(seeds).length === 0) {
    console.error(`fuzz: no seeds for ${name}`);
    return 1;
  }
  return run(join(root, 'build/dev', `fuzz_${name}`), [
    corpus,
    seeds,
    `-max_total_time=${seconds}`,
    `-rss_limit_mb=${kMemoryMb}`,
    '-timeout=10',
    '-print_final_stats=1',
    '-verbosity=0',
    `-artifact_prefix=${findings}`,
  ]);
}

const codes = await Promise.all(kTargets.map(fuzz));
kTargets.forEach((name, i) =>
  console.log(`fuzz ${name}: ${codes[i] === 0 ? 'no finding' : 'FINDING, see build/fuzz/findings'} in ${seconds} s`),
);
const failed = codes.filter((code) => code !== 0).length;
console.log(`${codes.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
