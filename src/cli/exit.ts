import { AppError, type ErrorCode, toAppError } from "../base/errors.ts";
import { toInert } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import { paintFor } from "./paint.ts";

const EXIT_BY_CODE: Readonly<Record<ErrorCode, number>> = {
  invalid_input: EXIT.usage,
  not_found: EXIT.notFound,
  forbidden: EXIT.refused,
  already_exists: EXIT.refused,
  busy: EXIT.refused,
  queue_full: EXIT.refused,
  too_large: EXIT.failed,
  storage_failed: EXIT.storage,
  damaged: EXIT.storage,
  unavailable: EXIT.failed,
  timed_out: EXIT.timedOut,
  cancelled: EXIT.interrupted,
  configuration: EXIT.failed,
  internal: EXIT.failed,
};

/** Tells about an error, in the form the caller asked for, and returns the exit code for it. */
export function reportError(thrown: unknown, io: CliIo, options: { readonly json: boolean }): number {
  const error = toAppError(thrown);
  if (error.details === SILENT) return exitCodeOf(error);
  if (options.json) {
    io.stdout.write(`${JSON.stringify({ error: errorObject(error) })}\n`);
  } else {
    io.stderr.write(`${paintFor(io.stderr, io.env).red("wakeful:")} ${errorText(error)}\n`);
  }
  if (io.env["WAKEFUL_DEBUG"] === "1") io.stderr.write(`${stackOf(error)}\n`);
  return exitCodeOf(error);
}

/** Details of an error that is nobody's to read: whoever would read it has gone. */
export const SILENT: Readonly<Record<string, unknown>> = { silent: true };

/** The exit code that stands for an error. */
export function exitCodeOf(error: AppError): number {
  return EXIT_BY_CODE[error.code];
}

/** An error as `--json` shows it. */
export function errorObject(error: AppError): { readonly code: string; readonly message: string; readonly hint: string | null } {
  const wire = error.details?.["wire"];
  return { code: typeof wire === "string" ? wire : error.code, message: error.message, hint: error.hint ?? null };
}

/** One line: what failed, on what, what to do. */
function errorText(error: AppError): string {
  const message = error.message.replace(/[.\s]+$/, "");
  const text = error.hint === undefined ? message : `${message}. ${sentence(error.hint)}`;
  return toInert(text.replaceAll("\n", " "));
}

/** A hint as a sentence of its own; one that begins with a command keeps it as it is typed. */
function sentence(hint: string): string {
  return hint.startsWith("wakeful ") ? hint : `${hint.charAt(0).toUpperCase()}${hint.slice(1)}`;
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by: ${stackOf(error.cause)}` : "";
  return `${error.stack ?? error.message}${cause}`;
}

/** The error of a command called wrongly: exit code 2. */
export function usageError(message: string, hint: string): AppError {
  return new AppError("invalid_input", message, { hint });
}
