/**
 * Every error code Wakeful raises inside a process, with when it arises and whether a retry helps.
 *
 * - `invalid_input`   something a person or program handed us is malformed; a retry of the same input never helps.
 * - `not_found`       a named Pod, session, file or item does not exist.
 * - `forbidden`       scope or ownership says no; a retry helps only after the scope changed.
 * - `already_exists`  a name or session is taken by somebody alive.
 * - `busy`            a resource is held right now; a later retry may help.
 * - `queue_full`      a bounded queue has no room; a later retry helps.
 * - `too_large`       one thing exceeds its own limit; a retry of the same thing never helps.
 * - `storage_failed`  a write or sync to disk failed; a retry helps once the disk is mended.
 * - `damaged`         something on disk is broken in a way that must not be skipped.
 * - `unavailable`     a peer (Pod, provider) cannot be reached.
 * - `timed_out`       a stated time limit passed.
 * - `cancelled`       somebody asked for the work to stop.
 * - `configuration`   a configuration value is wrong or missing; the message names key and file.
 * - `internal`        a broken precondition: a bug of ours.
 */
export type ErrorCode =
  | "invalid_input"
  | "not_found"
  | "forbidden"
  | "already_exists"
  | "busy"
  | "queue_full"
  | "too_large"
  | "storage_failed"
  | "damaged"
  | "unavailable"
  | "timed_out"
  | "cancelled"
  | "configuration"
  | "internal";

/** Options of an {@link AppError}: what a person can do about it, the cause, and data for programs. */
export interface AppErrorOptions {
  /** One sentence: what to do next. Shown behind the message. */
  readonly hint?: string;
  readonly cause?: unknown;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The one error class of the project. `message` says what failed and on what, `hint` what to do. Never parse either. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.hint = options.hint;
    this.details = options.details;
  }
}

/** Turns anything thrown into an {@link AppError}; what is not one already becomes `internal` with the original as cause. */
export function toAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  return new AppError("internal", messageOf(thrown), { cause: thrown });
}

/** The message of anything thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` of a Node system error (`ENOENT`, `ENOSPC`, ...), or undefined. */
export function systemCode(thrown: unknown): string | undefined {
  if (thrown instanceof Error && "code" in thrown && typeof thrown.code === "string") return thrown.code;
  return undefined;
}
