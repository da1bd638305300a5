// The ONNX node vectors through the package: compiled by compiler.wasm, run by the runtime, compared with ONNX's tolerance.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { decode_model, find_onnx_proto } from '../../models/onnx_proto.mjs';
import { toolchain_info } from '../../scripts/run_stage.mjs';
import { api } from '../support/api.mjs';
import { shared_path } from '../support/shared.mjs';

const kRelative = 1e-3;
const kAbsolute = 1e-5;

// Operators of which no form in these vectors may be refused, but for strings and training.
const kWanted = new Set(
  (
    'Add Clip Concat Constant Conv Div Flatten Gather Gemm GlobalAveragePool HardSigmoid HardSwish Identity MatMul MaxPool Mul ' +
    'Pow Relu Reshape Resize Shape Sigmoid Slice Softmax Split Sub Transpose Cast ConstantOfShape ConvTranspose Equal Exp Expand ' +
    'Pad Range Squeeze Unsqueeze Where BatchNormalization AveragePool LeakyRelu ReduceMean ' +
    'QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul ConvInteger MatMulInteger'
  ).split(' '),
);

// ONNX's TensorProto.DataType → dtype of the package; null for strings and complex numbers, and for bfloat16, whose vectors in
// ONNX 1.12 cut off instead of rounding and have other shapes than their models say.
const kDTypes = [null, 'f32', 'u8', 'i8', 'u16', 'i16', 'i32', 'i64', null, 'bool', 'f16', 'f64', 'u32', 'u64'];

const root_type = new protobuf.Root().loadSync(find_onnx_proto(), { keepCase: true });
const TensorProto = root_type.lookupType('onnx.TensorProto');

/** A Tensor of the package, or undefined where the dtype is none of its own. */
function read_tensor(path) {
  const proto = TensorProto.toObject(TensorProto.decode(readFileSync(path)), {
    longs: Number,
    defaults: true,
    arrays: true,
  });
  const dtype = kDTypes[proto.data_type];
  if (!dtype) return undefined;
  const length = proto.dims.reduce((n, dim) => n * dim, 1);
  const bytes = new Uint8Array(length * kArrays[dtype].BYTES_PER_ELEMENT);
  assert.equal(proto.raw_data.length, bytes.length, `${path}: raw data`);
  bytes.set(proto.raw_data.subarray(0, bytes.length));
  return new api.Tensor(dtype, proto.dims, new kArrays[dtype](bytes.buffer));
}

const kArrays = {
  f32: Float32Array,
  f64: Float64Array,
  i8: Int8Array,
  u8: Uint8Array,
  bool: Uint8Array,
  i16: Int16Array,
  u16: Uint16Array,
  f16: Uint16Array,
  i32: Int32Array,
  u32: Uint32Array,
  i64: BigInt64Array,
  u64: BigUint64Array,
};

function half_value(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

function value_at({ dtype, data }, i) {
  if (dtype === 'f16') return half_value(data[i]);
  return Number(data[i]);
}

/** Why two tensors are not the same, or undefined. */
function difference(actual, expected) {
  if (actual.dtype !== expected.dtype) return `dtype ${actual.dtype}, expected ${expected.dtype}`;
  if (actual.shape.join() !== expected.shape.join()) return `shape [${actual.shape}], expected [${expected.shape}]`;
  const is_float = ['f32', 'f64', 'f16'].includes(actual.dtype);
  for (let i = 0; i < expected.data.length; ++i) {
    const [a, b] = [value_at(actual, i), value_at(expected, i)];
    const same = Object.is(a, b) || a === b || (is_float && Math.abs(a - b) <= kAbsolute + kRelative * Math.abs(b));
    if (!same) return `element ${i} is ${a}, expected ${b}`;
  }
  return undefined;
}

const is_refusal = ({ code, message }) =>
  ['UNKNOWN_OPERATOR', 'UNSUPPORTED'].includes(code) || /: (GRU|LSTM|RNN) '.*attribute layout/.test(message);

/** Bundle with as few inputs bound as it takes: shapes that are inputs must be known when compiling. */
async function compile_case(onnx, inputs) {
  const names = Object.keys(inputs);
  const whole = names.filter((name) => !['f32', 'f64', 'f16'].includes(inputs[name].dtype));
  const attempts = [[], whole, names.slice(1), names].filter(
    (bound, i, all) => i === 0 || bound.length > all[i - 1].length,
  );
  let first;
  for (const bound of attempts) {
    try {
      const bind = Object.fromEntries(bound.map((name) => [name, inputs[name]]));
      const bundle = await api.compile(onnx, { bind });
      return {
        bundle,
        feeds: Object.fromEntries(names.filter((name) => !bound.includes(name)).map((name) => [name, inputs[name]])),
      };
    } catch (error) {
      if (error.name !== 'KilnError') throw error;
      first ??= error;
    }
  }
  throw first;
}

/** 'passed', 'refused: why' or 'FAILED: why'; undefined for a case that is not of plain tensors. */
async function run_case(folder, model) {
  const { graph } = model;
  const is_plain = [...graph.input, ...graph.output].every(({ type }) => kDTypes[type?.tensor_type?.elem_type]);
  const data = readdirSync(folder).filter((name) => name.startsWith('test_data_set_'));
  if (!is_plain || data.length === 0) return undefined;
  for (const set of data) {
    const files = readdirSync(join(folder, set));
    const read = (kind) =>
      Array.from({ length: files.filter((file) => file.startsWith(kind)).length }, (_, i) =>
        read_tensor(join(folder, set, `${kind}_${i}.pb`)),
      );
    const [inputs, outputs] = [read('input'), read('output')];
    if ([...inputs, ...outputs].includes(undefined)) return undefined;
    const named = Object.fromEntries(inputs.map((tensor, i) => [graph.input[i].name, tensor]));
    let made;
    try {
      made = await compile_case(readFileSync(join(folder, 'model.onnx')), named);
    } catch (error) {
      return is_refusal(error) ? `refused: ${error.message}` : `FAILED: ${error.code ?? ''} ${error.stack}`;
    }
    const net = await api.load(made.bundle);
    try {
      const results = await net.run(made.feeds);
      for (const [i, expected] of outputs.entries()) {
        const why = difference(results[graph.output[i].name], expected);
        if (why) return `FAILED: output ${graph.output[i].name}: ${why}`;
      }
    } catch (error) {
      return `FAILED: ${error.stack}`;
    } finally {
      net.dispose();
    }
  }
  return 'passed';
}

const kFolders = {
  'libonnx-testdata': join(toolchain_info().onnxTestdata ?? '', 'node'),
  '../shared/data/onnx-node': shared_path('onnx-node'),
};

for (const [name, folder] of Object.entries(kFolders)) {
  test(`node_vectors_of_${name}`, { skip: !existsSync(folder) && `${name} is not here` }, async (t) => {
    const counts = { passed: 0, refused: 0 };
    const failures = [];
    for (const entry of readdirSync(folder).sort()) {
      const file = join(folder, entry, 'model.onnx');
      if (!existsSync(file)) continue;
      const model = decode_model(readFileSync(file));
      const result = await run_case(join(folder, entry), model);
      if (result === undefined) continue;
      const [verdict] = result.split(':');
      const is_old = /: opset [1-6] is not supported; supported: 7 to/.test(result);
      const ops = new Set(model.graph.node.map(({ op_type }) => op_type));
      const is_training = entry.includes('training');
      const must_pass = [...ops].every((op) => kWanted.has(op)) && !is_training && !is_old;
      if (verdict === 'FAILED' || (verdict === 'refused' && must_pass)) failures.push(`${entry}: ${result}`);
      else ++counts[verdict];
    }
    t.diagnostic(`${counts.passed} passed, ${counts.refused} use operators or forms that tilekiln does not have`);
    assert.deepEqual(failures, []);
    assert.ok(counts.passed > 250);
  });
}
