// Where a model comes from: a URL or path, a Response, a Blob, bytes. All become one Uint8Array, with progress and abort.
import { KilnError, throw_if_aborted } from './errors.ts';
import { platform } from './platform.ts';

/** Everything that `load` and `compile` take as a model. A string is a URL, or in Node a path unless it has a scheme. */
export type ModelSource = string | URL | Response | Blob | ArrayBuffer | Uint8Array;

/** Progress of a call that can last. `total` is 0 when the server does not say. */
export interface Progress {
  readonly stage: 'download' | 'compile' | 'set-up';
  /** Bytes for `download`, otherwise 0 or 1. */
  readonly loaded: number;
  readonly total: number;
}

/** Options of every call that can last. */
export interface LongCallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

const kSchemes = /^[a-z][a-z0-9+.-]+:/i; // two letters and more: "C:\" is a path

/** A short name of the source for messages. */
export function source_name(source: ModelSource): string {
  if (typeof source === 'string') return `'${source}'`;
  if (source instanceof URL) return `'${source.href}'`;
  if (typeof Response !== 'undefined' && source instanceof Response) return `the response from '${source.url}'`;
  if (typeof File !== 'undefined' && source instanceof File) return `file '${source.name}'`;
  return 'the bytes given';
}

async function read_response(
  response: Response,
  what: string,
  options: LongCallOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  if (!response.ok) {
    throw new KilnError('NOT_FOUND', `${what}: the server answered ${response.status} ${response.statusText}`.trim());
  }
  if (response.bodyUsed) throw new KilnError('INVALID_ARGUMENT', `${what}: its body has been read already`);
  const is_encoded = !!response.headers.get('content-encoding');
  const total = is_encoded ? 0 : Number(response.headers.get('content-length') ?? 0);
  if (!response.body) return new Uint8Array(await response.arrayBuffer());
  const reader = response.body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => {});
  options.signal?.addEventListener('abort', cancel, { once: true });
  try {
    let bytes = new Uint8Array(total || 1 << 20);
    let loaded = 0;
    for (;;) {
      const { done, value } = await reader.read();
      throw_if_aborted(options.signal);
      if (done) break;
      if (loaded + value.length > bytes.length) {
        const larger = new Uint8Array(Math.max(bytes.length * 2, loaded + value.length));
        larger.set(bytes.subarray(0, loaded));
        bytes = larger;
      }
      bytes.set(value, loaded);
      loaded += value.length;
      options.onProgress?.({ stage: 'download', loaded, total });
    }
    if (total > 0 && loaded < total) {
      throw new KilnError('TRUNCATED', `${what}: the download ended after ${loaded} of ${total} bytes`);
    }
    return bytes.length === loaded ? bytes : bytes.slice(0, loaded);
  } catch (error) {
    if (error instanceof KilnError) throw error;
    throw new KilnError('TRUNCATED', `${what}: the download broke off: ${(error as Error).message}`, { cause: error });
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
    throw new KilnError('NOT_FOUND', `'${url}' could not be fetched: ${(error as Error).message}`, { cause: error });
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

/**
 * The bytes of a model. An ArrayBuffer or Uint8Array is read in place: it is neither copied nor detached.
 * @throws KilnError NOT_FOUND, TRUNCATED, ABORTED, INVALID_ARGUMENT
 */
export async function read_source(source: ModelSource, options: LongCallOptions): Promise<Uint8Array> {
  throw_if_aborted(options.signal);
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (typeof Response !== 'undefined' && source instanceof Response)
    return read_response(source, source_name(source), options);
  if (typeof Blob !== 'undefined' && source instanceof Blob) {
    const bytes = new Uint8Array(await source.arrayBuffer());
    throw_if_aborted(options.signal);
    options.onProgress?.({ stage: 'download', loaded: bytes.length, total: bytes.length });
    return bytes;
  }
  if (source instanceof URL || typeof source === 'string') {
    const text = source instanceof URL ? source.href : source;
    if (text === '') throw new KilnError('INVALID_ARGUMENT', 'the model source is an empty string');
    const is_file = platform().read_file && (text.startsWith('file:') || !kSchemes.test(text));
    const bytes = is_file ? await read_path(text) : await fetch_bytes(text, options);
    throw_if_aborted(options.signal);
    return bytes;
  }
  throw new KilnError(
    'INVALID_ARGUMENT',
    `a model source of type ${Object.prototype.toString.call(source)} is not supported; allowed: URL or path string, URL, Response, Blob, ArrayBuffer, Uint8Array`,
  );
}
