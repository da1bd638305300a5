#!/usr/bin/env node
// Writes a network of a known layout with random weights: node models/generate.mjs resnet50 -o resnet50.onnx
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { kLayouts, make_layout } from './layouts/index.mjs';
import { write_onnx } from './onnx_writer.mjs';

const kUsage = `usage: node models/generate.mjs LAYOUT [-o FILE] [--size N] [--batch N|NAME] [--seed N] [--opset N]
                               [--bn] [--no-simplify]
layouts: ${Object.keys(kLayouts).join(' ')}
  -o FILE        output (default: LAYOUT.onnx)
  --size N       height and width of the input (default: 224 for classifiers, 640 for YOLO)
  --batch N|NAME batch size, or the name of a dynamic dimension (default: 1)
  --bn           keep BatchNormalization instead of folding it into the convolutions
  --no-simplify  YOLOv8: shape arithmetic as in an export that no simplifier has seen`;

function parse_options(values) {
  const number = (text) => (text === undefined ? undefined : Number(text));
  const batch = values.batch === undefined || /^\d+$/.test(values.batch) ? number(values.batch) : values.batch;
  const options = {
    size: number(values.size),
    seed: number(values.seed),
    opset: number(values.opset),
    batch,
    bn: values.bn,
    simplify: values['no-simplify'] ? false : undefined,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function main() {
  const text = { type: 'string' };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'output': { ...text, short: 'o' },
      'size': text,
      'batch': text,
      'seed': text,
      'opset': text,
      'bn': { type: 'boolean' },
      'no-simplify': { type: 'boolean' },
      'help': { type: 'boolean', short: 'h' },
    },
  });
  if (values.help || positionals.length !== 1) {
    console.log(kUsage);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  const [name] = positionals;
  const path = values.output ?? `${name}.onnx`;
  const bytes = write_onnx(make_layout(name, parse_options(values)));
  writeFileSync(path, bytes);
  console.log(`${path}: ${bytes.length} bytes`);
}

try {
  main();
} catch (error) {
  console.error(`generate: ${error.message}`);
  process.exitCode = 1;
}
