import { closeSync, fchmodSync, openSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { abortReason, type Clock } from "../base/clock.ts";
import { AppError, messageOf, systemCode } from "../base/errors.ts";

// Primary result codes of SQLite (the low byte of an extended one).
const BUSY = 5;
const LOCKED = 6;
const CORRUPT = 11;
const NOT_A_DATABASE = 26;
// From here on, two attempts that met once hardly meet again.
const MAX_PAUSE_MS = 40;

/** How long somebody may wait for a database, and who may end the wait. */
export interface WaitOptions {
  readonly clock: Clock;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs `attempt` (synchronous, a whole transaction) again until it is not refused for being busy. Between attempts the event loop is
 * free: SQLite's own waiting would block it. `undefined` when the deadline passed; other errors come through as they are.
 */
export async function retryWhileBusy<Result>(
  attempt: () => Result,
  options: WaitOptions,
): Promise<{ readonly value: Result } | undefined> {
  const { clock, deadlineMs, signal } = options;
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
    if (signal?.aborted) throw abortReason(signal);
    try {
      return { value: attempt() };
    } catch (thrown) {
      if (!isBusy(thrown)) throw thrown;
    }
    if (clock.nowMs() >= deadlineMs) return undefined;
    await clock.sleep(1 + Math.random() * pauseMs, signal === undefined ? {} : { signal });
  }
}

/** Runs `body` in one `BEGIN IMMEDIATE` transaction; anything thrown undoes it. */
export function inTransaction<Result>(database: DatabaseSync, body: () => Result): Result {
  database.exec("BEGIN IMMEDIATE");
  try {
    const result = body();
    database.exec("COMMIT");
    return result;
  } catch (thrown) {
    // SQLite undoes some failed transactions by itself: then there is nothing left to roll back.
    if (database.isTransaction) database.exec("ROLLBACK");
    throw thrown;
  }
}

/**
 * Makes the file with mode 0600 whatever the umask (B95), if it is not there. An existing one is never opened: closing any descriptor of
 * a file drops every lock this process holds on it.
 */
export function makePrivateFile(path: string): void {
  let descriptor: number;
  try {
    descriptor = openSync(path, "wx", 0o600);
  } catch (thrown) {
    if (systemCode(thrown) === "EEXIST") return;
    throw new AppError("storage_failed", `cannot make the file ${path}: ${systemCode(thrown) ?? messageOf(thrown)}`, {
      hint: "Check the folder's permissions and the free space.",
      cause: thrown,
    });
  }
  try {
    fchmodSync(descriptor, 0o600);
  } finally {
    closeSync(descriptor);
  }
}

/** True when somebody else holds the lock that the statement needed. */
export function isBusy(thrown: unknown): boolean {
  const code = sqliteCode(thrown);
  return code === BUSY || code === LOCKED;
}

/** True when the file is not a (whole) database. */
export function isDamaged(thrown: unknown): boolean {
  const code = sqliteCode(thrown);
  return code === CORRUPT || code === NOT_A_DATABASE;
}

/** True for any error that came from SQLite. */
export function isSqliteError(thrown: unknown): boolean {
  return sqliteCode(thrown) !== undefined;
}

function sqliteCode(thrown: unknown): number | undefined {
  if (!(thrown instanceof Error) || !("errcode" in thrown) || typeof thrown.errcode !== "number") return undefined;
  return thrown.errcode & 0xff;
}
