// Checks the include arrows between folders of src/ (ARCHITECTURE.md, "Layers"): who may include whom.
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from '../run_stage.mjs';

/** Layer → layers it may include. `ops-definition` is the compile side of src/ops, `ops-kernel` the run-time side. */
export const kArrows = {
  'base': [],
  'cpu': ['base'],
  'ops-kernel': ['base', 'cpu'],
  'bundle': ['base', 'plan-types'],
  'tilekiln': [], // include/tilekiln: the public C++ header
  'runtime': ['base', 'cpu', 'ops-kernel', 'bundle', 'plan-types', 'tilekiln'],
  'vision': ['base', 'cpu'],
  'graph': ['base'],
  'onnx': ['base', 'graph', 'compile-types'],
  'ops-definition': ['base', 'cpu', 'graph', 'ops-kernel'],
  'passes': ['base', 'graph', 'ops-definition', 'ops-kernel', 'compile-types'],
  'quant-types': [],
  'quant': ['base', 'graph', 'ops-definition', 'passes', 'quant-types'],
  'plan-types': ['base'],
  'plan': ['base', 'graph', 'ops-definition', 'ops-kernel', 'plan-types', 'bundle'],
  'compile-types': ['base', 'graph', 'ops-definition', 'plan-types', 'quant-types'],
  'compile': [
    'base',
    'graph',
    'onnx',
    'ops-definition',
    'ops-kernel',
    'passes',
    'quant',
    'quant-types',
    'plan',
    'plan-types',
    'bundle',
    'compile-types',
  ],
  'wasm': ['*'],
  'tools': ['*'],
};

// Headers that are the contract between layers, wherever they lie.
const kContracts = {
  'plan/plan.h': 'plan-types',
  'compile/compile.h': 'compile-types',
  'quant/quant_job.h': 'quant-types',
};
const kDefinitionFiles = [
  /^ops\/definition\.(h|cc)$/,
  /^ops\/activation\.h$/,
  /^ops\/constants\.h$/,
  /^ops\/shape\/shape\.h$/,
  /^ops\/[^/]+\/(define|lower|fold)[^/]*\.(cc|h)$/,
];

/** The layer of a file of src/, by its path below src/. */
export function layer_of(path) {
  if (kContracts[path]) return kContracts[path];
  if (!path.startsWith('ops/')) return path.split('/')[0];
  return kDefinitionFiles.some((pattern) => pattern.test(path)) ? 'ops-definition' : 'ops-kernel';
}

/** Every forbidden include as "file: includes what (from layer to layer)". */
export function find_violations(src) {
  const violations = [];
  const files = readdirSync(src, { recursive: true }).filter(
    (file) => /\.(h|cc)$/.test(file) && !/(test|bench)\.cc$/.test(file),
  );
  for (const file of files) {
    const from = layer_of(file);
    for (const [, included] of readFileSync(join(src, file), 'utf8').matchAll(/^\s*#include "([^"]+\/[^"]+)"/gm)) {
      const to = layer_of(included);
      if (from === to || kArrows[from]?.includes('*') || kArrows[from]?.includes(to)) continue;
      violations.push(`src/${file}: includes ${included} (${from} may not include ${to})`);
    }
  }
  return violations;
}

/** Prints the violations; an exit code. */
export function check_layers() {
  const violations = find_violations(join(root, 'src'));
  for (const line of violations) console.error(line);
  if (violations.length === 0) console.log('all includes follow the arrows');
  return violations.length === 0 ? 0 : 1;
}

if (process.argv[1] && relative(process.argv[1], fileURLToPath(import.meta.url)) === '') process.exit(check_layers());
