// Reads and writes ONNX protobuf bytes with protobufjs, from the schema file `onnx.proto`.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';

const kSchemaPlaces = [
  fileURLToPath(new URL('../.toolchain/include/onnx/onnx.proto', import.meta.url)),
  '/usr/include/onnx/onnx.proto',
];

let model_type;

/** The path of `onnx.proto`: the project's private tool chain first, then Debian's libonnx-dev. */
export function find_onnx_proto() {
  const path = kSchemaPlaces.find((place) => existsSync(place));
  if (!path) {
    throw new Error(
      'onnx.proto not found in .toolchain/include/onnx or /usr/include/onnx: ' +
        'run the tool chain setup script, or install the Debian package libonnx-dev',
    );
  }
  return path;
}

function get_model_type() {
  model_type ??= new protobuf.Root().loadSync(find_onnx_proto(), { keepCase: true }).lookupType('onnx.ModelProto');
  return model_type;
}

/** ModelProto as a plain object (fields named as in onnx.proto, int64 as number or decimal string) → bytes. */
export function encode_model(model) {
  return new Uint8Array(get_model_type().encode(model).finish());
}

/** Bytes → ModelProto as a plain object: enums are numbers, int64 are decimal strings, `bytes` are Uint8Arrays. */
export function decode_model(bytes) {
  const type = get_model_type();
  return type.toObject(type.decode(bytes), { longs: String, arrays: true });
}
