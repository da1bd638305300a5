// The one error class of the package, with a stable code for programs and a sentence for people.

/** Why a call failed. The names are stable; `INTERNAL` is a defect of tilekiln. */
export type ErrorCode =
  | 'INVALID_ARGUMENT'
  | 'UNKNOWN_OPERATOR'
  | 'UNSUPPORTED'
  | 'INVALID_MODEL'
  | 'NOT_A_MODEL'
  | 'TRUNCATED'
  | 'CORRUPT'
  | 'VERSION'
  | 'SHAPE'
  | 'OUT_OF_MEMORY'
  | 'ABORTED'
  | 'NOT_FOUND'
  | 'INTERNAL';

// In the order of kiln::Code in src/base/status.h, from 1.
const kCodes: readonly ErrorCode[] = [
  'INVALID_ARGUMENT',
  'UNKNOWN_OPERATOR',
  'UNSUPPORTED',
  'INVALID_MODEL',
  'NOT_A_MODEL',
  'TRUNCATED',
  'CORRUPT',
  'VERSION',
  'SHAPE',
  'OUT_OF_MEMORY',
  'ABORTED',
  'NOT_FOUND',
  'INTERNAL',
];

/** One thing that is wrong with a model, as the compiler's checker reports it. */
export interface Problem {
  readonly code: ErrorCode;
  /** Node name in the ONNX graph. */
  readonly node: string;
  /** Operator, with its domain if it is not ONNX's own. */
  readonly op: string;
  readonly opset: number;
  /** Attribute or input at fault; may be empty. */
  readonly attribute: string;
  readonly value: string;
  readonly supported: string;
  /** All of it in one sentence. */
  readonly message: string;
}

/**
 * Every failure that the package reports.
 * @example
 * try { await load('model.kiln'); } catch (error) {
 *   if (error instanceof KilnError && error.code === 'NOT_A_MODEL') console.log(error.message);
 * }
 */
export class KilnError extends Error {
  override readonly name = 'KilnError';
  /** Stable, for programs. */
  readonly code: ErrorCode;
  /** The graph node at fault, or ''. */
  readonly node: string;
  /** Every problem of a model that does not compile; empty otherwise. */
  readonly problems: readonly Problem[];

  constructor(
    code: ErrorCode,
    message: string,
    options: { readonly node?: string; readonly problems?: readonly Problem[]; readonly cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.node = options.node ?? '';
    this.problems = options.problems ?? [];
  }
}

/** The ErrorCode of a kiln::Code number. */
export function error_code(number: number): ErrorCode {
  return kCodes[number - 1] ?? 'INTERNAL';
}

/** An error's message with what lies behind it: Node's fetch says only "fetch failed" itself. */
export function full_message(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } };
  const behind = cause?.message || cause?.code;
  return behind ? `${message} (${behind})` : (message ?? String(error));
}

/** Throws the ABORTED error if the signal says so. */
export function throw_if_aborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new KilnError('ABORTED', 'aborted by the caller', { cause: signal.reason });
}
