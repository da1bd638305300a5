// The tests, stage by stage: `npm test`, or `npm test -- native node` for some of them.
import { all_stages } from './stages/all_stages.mjs';
import { set_up } from './setup.mjs';

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !all_stages.some((stage) => stage.name === name));
if (unknown.length > 0) {
  console.error(`test: unknown stage '${unknown[0]}'; allowed: ${all_stages.map((stage) => stage.name).join(', ')}`);
  process.exit(2);
}

await set_up('all');
const stages = all_stages.filter((stage) => wanted.length === 0 || wanted.includes(stage.name));
const results = [];
for (const [index, stage] of stages.entries()) {
  console.log(`\n=== ${index + 1}/${stages.length} ${stage.name}: ${stage.what}`);
  const start = performance.now();
  const code = await stage.run();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`=== ${stage.name} ${code === 0 ? 'passed' : `FAILED (exit code ${code})`} in ${seconds} s`);
  results.push({ name: stage.name, code, seconds });
  if (code !== 0 && stage.needed_by_rest) break;
}

console.log('\nstage         seconds  result');
for (const { name, code, seconds } of results) {
  console.log(`${name.padEnd(12)} ${seconds.padStart(8)}  ${code === 0 ? 'passed' : 'FAILED'}`);
}
const failed = results.filter((result) => result.code !== 0).length;
console.log(`stages: ${results.length - failed} passed, ${failed} failed, ${stages.length - results.length} skipped`);
process.exit(failed === 0 && results.length === stages.length ? 0 : 1);
