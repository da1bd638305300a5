// npm run bench: tilekiln against its rivals, interleaved in one run, outputs compared first. See docs/performance.md.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { write_docs } from '../tests/bench/docs.mjs';
import { Skipped, kEngines } from '../tests/bench/engines.mjs';
import { chromium_host, node_host } from '../tests/bench/hosts.mjs';
import { find_node, install_bench_packages, package_version } from '../tests/bench/install.mjs';
import { kBenchModels, prepare_model } from '../tests/bench/models.mjs';
import {
  layer_rows,
  layer_summary,
  peak_for,
  place_text,
  race_text,
  text_table,
  threads_text,
} from '../tests/bench/report.mjs';
import { peak_of, run_layers, run_race } from '../tests/bench/run_race.mjs';
import { build_js } from './build_js.mjs';
import { build_wasm } from './build_wasm.mjs';
import { root } from './run_stage.mjs';
import { set_up } from './setup.mjs';

const kRivals = Object.keys(kEngines).filter((name) => !kEngines[name].is_ours);
const kOurs = Object.keys(kEngines).filter((name) => kEngines[name].is_ours);
const kHosts = ['node', 'chromium'];

const kUsage = `usage: npm run bench -- [options]
  --models NAMES    of ${kBenchModels.join(',')} (default: all)
  --hosts NAMES     of ${kHosts.join(',')} (default: both)
  --ours NAMES      of ${kOurs.join(',')} (default: tilekiln,tilekiln-simd)
  --rivals NAMES    of ${kRivals.join(',')}, or none (default: all)
  --threads LIST    thread counts, raced side by side (default: 1)
  --rounds N        turns that each engine gets (default: 15)
  --tolerance X     largest difference from onnxruntime, of its largest value (default: 1e-3)
  --revectorize     with V8's revectorizer on, for everybody
  --node PATH       Node that engines run in (default: the one of tests/bench/package.json)
  --layers          every step of ours beside the peak, instead of a race
  --json FILE       results as JSON
  --from FILES      no measuring: results of earlier runs, as --json wrote them
  --write-docs      tables and chart into docs/`;

class UsageError extends Error {}

function read_list(option, text, allowed) {
  const names = text.split(',');
  const unknown = names.find((name) => !allowed.includes(name));
  if (unknown !== undefined) throw new UsageError(`--${option} ${unknown}; allowed: ${allowed.join(', ')}`);
  return names;
}

function read_number(option, text, low, whole) {
  const value = Number(text);
  if (!(value >= low) || (whole && !Number.isInteger(value)))
    throw new UsageError(`--${option} ${text}; allowed: ${whole ? 'whole numbers' : 'numbers'} from ${low}`);
  return value;
}

function read_options(args) {
  const string = (value) => ({ type: 'string', ...(value === undefined ? {} : { default: value }) });
  const options = {
    'models': string(kBenchModels.join()),
    'hosts': string(kHosts.join()),
    'ours': string('tilekiln,tilekiln-simd'),
    'rivals': string(kRivals.join()),
    'threads': string('1'),
    'rounds': string('15'),
    'tolerance': string('1e-3'),
    'node': string(),
    'json': string(),
    'from': string(),
    'revectorize': { type: 'boolean', default: false },
    'layers': { type: 'boolean', default: false },
    'write-docs': { type: 'boolean', default: false },
    'help': { type: 'boolean', default: false },
  };
  let values;
  try {
    values = parseArgs({ args, options }).values;
  } catch (error) {
    throw new UsageError(error.message.split('. ')[0]);
  }
  const ours = read_list('ours', values.ours, kOurs);
  return {
    ...values,
    models: read_list('models', values.models, kBenchModels),
    hosts: read_list('hosts', values.hosts, kHosts),
    engines: [...ours, ...(values.rivals === 'none' ? [] : read_list('rivals', values.rivals, kRivals))],
    ours,
    threads: values.threads.split(',').map((text) => read_number('threads', text, 1, true)),
    rounds: read_number('rounds', values.rounds, 1, true),
    tolerance: read_number('tolerance', values.tolerance, 0, false),
  };
}

/** On a terminal a line that the next one replaces; nothing elsewhere. */
function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

async function open_hosts(options, folder) {
  const { node, version } = find_node(options.node);
  const flags = options.revectorize ? ['--experimental-wasm-revectorize'] : [];
  const hosts = { node: node_host({ node, version, flags }) };
  if (!options.hosts.includes('chromium')) return hosts;
  try {
    const js_flags = options.revectorize ? ['--js-flags=--wasm-revectorize'] : [];
    hosts.chromium = await chromium_host({ folder, flags: js_flags });
  } catch (error) {
    if (!(error instanceof Skipped)) throw error;
    console.log(`chromium: skipped: ${error.message}`);
  }
  return hosts;
}

async function race_on(model, host, hosts, options, folder) {
  const result = await run_race(model, host, hosts.node, {
    ...options,
    folder,
    progress: (text) => progress(`${model.name} in ${host.name}: ${text}`),
  });
  const race = {
    model: model.name,
    gflop: model.gflop,
    host: host.name,
    host_version: host.version,
    revectorize: options.revectorize,
    rounds: options.rounds,
    ...result,
  };
  progress('');
  console.log(`${race_text(race)}\n`);
  return race;
}

async function layers_on(model, host, options, folder) {
  const [engine] = options.ours;
  const results = [];
  for (const threads of options.threads) {
    const peak = peak_for(engine, await peak_of(host, threads, folder));
    const steps = await run_layers(engine, threads, model, host, options.rounds);
    const layers = { model: model.name, engine, threads, host: host.name, host_version: host.version, peak, steps };
    results.push({ ...layers, revectorize: options.revectorize });
    const { kernels, steps: rows } = layer_rows(layers);
    console.log(
      `${model.name} in ${place_text(results.at(-1))}, ${kEngines[engine].title}, ${threads_text(threads)}, ` +
        `peak ${peak.toFixed(1)} GFLOP/s\n${text_table(rows)}\n\n${text_table(kernels)}\n${layer_summary(layers)}\n`,
    );
  }
  return results;
}

async function measure(options) {
  await set_up('all');
  const code = await install_bench_packages();
  if (code !== 0) throw new Error('the packages of tests/bench could not be installed');
  await build_wasm();
  await build_js();
  const folder = join(root, 'build/bench');
  mkdirSync(folder, { recursive: true });
  const hosts = await open_hosts(options, folder);
  const [races, layers] = [[], []];
  try {
    for (const name of options.models) {
      try {
        progress(`${name}: writing its files`);
        const model = await prepare_model(name, folder);
        for (const host of options.hosts.map((host_name) => hosts[host_name]).filter(Boolean)) {
          if (options.layers) layers.push(...(await layers_on(model, host, options, folder)));
          else races.push(await race_on(model, host, hosts, options, folder));
        }
      } catch (error) {
        if (!(error instanceof Skipped)) throw error;
        progress('');
        console.log(`${name}: skipped: ${error.message}`);
      }
    }
  } finally {
    for (const host of Object.values(hosts)) await host.close();
  }
  const packages = options.engines.map((name) => kEngines[name].package).filter(Boolean);
  return {
    machine: `${cpus().length} × ${cpus()[0].model.trim()}`,
    versions: Object.fromEntries(packages.map((name) => [name, package_version(name)])),
    races,
    layers,
  };
}

function read_results(files) {
  const all = files.map((file) => JSON.parse(readFileSync(file, 'utf8')));
  return {
    machine: all[0].machine,
    versions: Object.assign({}, ...all.map(({ versions }) => versions)),
    races: all.flatMap(({ races }) => races),
    layers: all.flatMap(({ layers }) => layers),
  };
}

try {
  const options = read_options(process.argv.slice(2));
  if (options.help) {
    console.log(kUsage);
    process.exit(0);
  }
  const results = options.from ? read_results(options.from.split(',')) : await measure(options);
  if (options.json) writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
  if (options['write-docs']) write_docs(results, join(root, 'docs'));
} catch (error) {
  console.error(`bench: ${error.message}${error instanceof UsageError ? `\n${kUsage}` : ''}`);
  process.exit(error instanceof UsageError ? 2 : 1);
}
