// Tells what a file is that is no bundle, before any of it reaches the runtime.
import type { ErrorCode } from './errors.ts';

/** What is wrong with bytes that should be a `.kiln` bundle, or undefined if they may be one. */
export function describe_non_bundle(
  bytes: Uint8Array,
): { readonly code: ErrorCode; readonly message: string } | undefined {
  const head = new TextDecoder('latin1').decode(bytes.subarray(0, 256));
  if (head.startsWith('KILN')) return undefined;
  const no = (message: string): { readonly code: ErrorCode; readonly message: string } => ({
    code: 'NOT_A_MODEL',
    message,
  });
  if (bytes.length === 0) return { code: 'TRUNCATED', message: 'the file is empty' };
  const text = head.trimStart().toLowerCase();
  if (
    text.startsWith('<!doctype') ||
    text.startsWith('<html') ||
    text.startsWith('<?xml') ||
    text.startsWith('<head')
  ) {
    return no('got HTML instead of a bundle: the server answered with a page (often index.html for an unknown path)');
  }
  if (text.startsWith('version https://git-lfs')) {
    return no('got a git-LFS pointer instead of the file itself: run `git lfs pull` where it is served from');
  }
  if (head.startsWith('PK'))
    return no('got a zip archive (a PyTorch checkpoint is one): export it to ONNX, then `tilekiln compile`');
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    return no('got gzip-compressed bytes: unpack the file, or serve it with `content-encoding: gzip`');
  }
  if (head.slice(4, 8) === 'TFL3') return no('got a TensorFlow Lite model: tilekiln compiles ONNX');
  if (text.startsWith('{')) return no('got JSON instead of a bundle');
  // An ONNX ModelProto starts with field 1 (ir_version) as a varint.
  if (bytes[0] === 0x08 && bytes.length > 16)
    return no('got an ONNX model, not a bundle: compile it first (`tilekiln compile`, or compile() from the package)');
  return no('the bytes are no .kiln bundle (it starts with "KILN")');
}
