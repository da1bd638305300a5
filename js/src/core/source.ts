// Where a model comes from: a URL or path, a Response, a Blob, bytes. All become one Uint8Array, with progress and abort.
import { full_message, KilnError, throw_if_aborted } from './errors.ts';
import { kFunction, kSignal, type OptionTable } from './options.ts';
import { platform } from './platform.ts';

/** Everything that `load` and `compile` take as a model. A string is a URL; in Node it is a path unless it begins with a scheme. */
export type ModelSource = string | URL | Response | Blob | ArrayBuffer | Uint8Array;

/** Progress of a call that can last. `total` is 0 while nobody can say. */
export interface Progress {
  readonly stage: 'download' | 'compile' | 'set-up' | 'calibrate' | 'compare' | 'evaluate';
  /** Bytes for `download`, samples for `calibrate` (two passes), `compare` and `evaluate`, otherwise 0 or 1. */
  readonly loaded: number;
  readonly total: number;
}

/** Options of every call that can last. */
export interface LongCallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

export const kLongCallOptions: OptionTable<keyof LongCallOptions> = { signal: kSignal, onProgress: kFunction };

const kUrl = /^([a-z][a-z0-9+.-]+:\/\/|data:|blob:)/i; // "C:\" and "model:v2.kiln" are paths

/** A short name of the source for messages. */
export function source_name(source: ModelSource): string {
  if (typeof source === 'string') return `'${source}'`;
  if (source instanceof URL) return `'${source.href}'`;
  if (typeof Response !== 'undefined' && source instanceof Response) return `the response from '${source.url}'`;
  if (typeof File !== 'undefined' && source instanceof File) return `file '${source.name}'`;
  return 'the bytes given';
}

const kFirstBytes = 1 << 20;
const kMostTrusted = 1 << 28;

// Bytes that the body will have, or 0 if nobody says: content-length counts the bytes before decoding.
function body_bytes(response: Response): number {
  if (response.headers.get('content-encoding')) return 0;
  const length = Number(response.headers.get('content-length') ?? 0);
  return Number.isSafeInteger(length) && length > 0 ? length : 0;
}

async function read_chunk(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  what: string,
  signal: AbortSignal | undefined,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  try {
    const chunk = await reader.read();
    throw_if_aborted(signal);
    return chunk;
  } catch (error) {
    throw_if_aborted(signal);
    throw new KilnError('TRUNCATED', `${what}: the download broke off: ${full_message(error)}`, { cause: error });
  }
}

async function read_response(
  response: Response,
  what: string,
  options: LongCallOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  if (!response.ok) {
    void response.body?.cancel().catch(() => {}); // gives the connection back
    throw new KilnError('NOT_FOUND', `${what}: the server answered ${response.status} ${response.statusText}`.trim());
  }
  if (response.bodyUsed || response.body?.locked)
    throw new KilnError('INVALID_ARGUMENT', `${what}: its body has been read already`);
  const total = body_bytes(response);
  if (!response.body) return new Uint8Array(await response.arrayBuffer());
  const reader = response.body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => {});
  options.signal?.addEventListener('abort', cancel, { once: true });
  try {
    // A server may say any size: what it really sends decides how much is allocated.
    let bytes = new Uint8Array(Math.min(total || kFirstBytes, kMostTrusted));
    let loaded = 0;
    for (;;) {
      const { done, value } = await read_chunk(reader, what, options.signal);
      if (done) break;
      if (loaded + value.length > bytes.length) {
        const larger = new Uint8Array(Math.max(bytes.length * 2, loaded + value.length));
        larger.set(bytes.subarray(0, loaded));
        bytes = larger;
      }
      bytes.set(value, loaded);
      loaded += value.length;
      options.onProgress?.({ stage: 'download', loaded, total: loaded <= total ? total : 0 });
    }
    const is_sure = response.type !== 'cors'; // another origin's content-encoding is hidden from scripts
    if (is_sure && loaded < total) {
      throw new KilnError('TRUNCATED', `${what}: the download ended after ${loaded} of ${total} bytes`);
    }
    return bytes.length === loaded ? bytes : bytes.slice(0, loaded);
  } catch (error) {
    cancel();
    throw error;
  } finally {
    options.signal?.removeEventListener('abort', cancel);
  }
}

async function fetch_bytes(url: string, options: LongCallOptions): Promise<Uint8Array<ArrayBuffer>> {
  let response: Response;
  try {
    response = await fetch(url, options.signal ? { signal: options.signal } : {});
  } catch (error) {
    throw_if_aborted(options.signal);
    throw new KilnError('NOT_FOUND', `'${url}' could not be fetched: ${full_message(error)}`, { cause: error });
  }
  return read_response(response, `'${url}'`, options);
}

async function read_path(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await platform().read_file!(path);
  } catch (error) {
    const code = (error as { code?: string }).code;
    const why = code === 'ENOENT' ? 'no such file' : code === 'EISDIR' ? 'it is a folder' : (error as Error).message;
    throw new KilnError('NOT_FOUND', `'${path}' cannot be read: ${why}`, { cause: error });
  }
}

function view_of(buffer: ArrayBufferLike): Uint8Array {
  try {
    return new Uint8Array(buffer);
  } catch (error) {
    throw new KilnError('INVALID_ARGUMENT', 'the bytes given are detached: their buffer was transferred', {
      cause: error,
    });
  }
}

/**
 * The bytes of a model. An ArrayBuffer or Uint8Array is read in place: it is neither copied nor detached.
 * @throws KilnError NOT_FOUND, TRUNCATED, ABORTED, INVALID_ARGUMENT
 */
export async function read_source(source: ModelSource, options: LongCallOptions): Promise<Uint8Array> {
  throw_if_aborted(options.signal);
  const tag = Object.prototype.toString.call(source); // bytes may come from another realm (a frame, a test runner)
  const is_bytes = tag === '[object Uint8Array]';
  if (is_bytes || tag === '[object ArrayBuffer]' || tag === '[object SharedArrayBuffer]') {
    const whole = view_of(is_bytes ? (source as Uint8Array).buffer : (source as ArrayBuffer));
    return is_bytes ? (source as Uint8Array) : whole;
  }
  if (typeof Response !== 'undefined' && source instanceof Response)
    return read_response(source, source_name(source), options);
  if (typeof Blob !== 'undefined' && source instanceof Blob) {
    const buffer = await source.arrayBuffer().catch((error: Error) => {
      throw new KilnError('NOT_FOUND', `${source_name(source)} cannot be read: ${error.message}`, { cause: error });
    });
    const bytes = new Uint8Array(buffer);
    throw_if_aborted(options.signal);
    options.onProgress?.({ stage: 'download', loaded: bytes.length, total: bytes.length });
    return bytes;
  }
  if (source instanceof URL || typeof source === 'string') {
    const text = source instanceof URL ? source.href : source;
    if (text === '') throw new KilnError('INVALID_ARGUMENT', 'the model source is an empty string');
    const is_file = platform().read_file && (text.startsWith('file:') || !kUrl.test(text));
    if (!is_file) return fetch_bytes(text, options);
    const bytes = await read_path(text);
    throw_if_aborted(options.signal);
    options.onProgress?.({ stage: 'download', loaded: bytes.length, total: bytes.length });
    return bytes;
  }
  throw new KilnError(
    'INVALID_ARGUMENT',
    `a model source of type ${tag} is not supported; allowed: URL or path string, URL, Response, Blob, ArrayBuffer, Uint8Array`,
  );
}
