import { chmodSync, readFileSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type Clock, systemClock } from "../base/clock.ts";
import { AppError, messageOf, systemCode } from "../base/errors.ts";
import { isOpenToOthers, statOrUndefined } from "./private-dir.ts";
import { isBusy, isDamaged, makePrivateFile, retryWhileBusy } from "./sqlite.ts";

/**
 * The owner lock of a session: whoever holds it is the one process that writes the session (I3, B87, B98). It is a transaction on a SQLite
 * file, so the kernel frees it when the process dies in any way, and nobody guesses by pid.
 *
 * Two traps, both met:
 * 1. A `DatabaseSync` that is garbage-collected closes its file: the lock is gone and nobody is told. So `held` keeps it.
 * 2. POSIX locks belong to the process, and closing **any** descriptor of the file drops them, even after a mere read. So no other code
 *    in this process may open `owner.lock`, and nothing here opens it when `held` has it.
 */
const held = new Map<string, DatabaseSync>();

const FILE_NAME = "owner.lock";
/** A Pod that is on its way out still holds its lock for a moment. */
const DEFAULT_WAIT_MS = 1000;
// Where SQLite places its locks in a file: PENDING_BYTE and the 511 behind it.
const PENDING_BYTE = 0x4000_0000;

/** The right to write one session, until it is disposed or the process ends. Disposing twice is the same as once. */
export interface OwnerLock extends Disposable {
  /** Real path of the session's folder. */
  readonly sessionDir: string;
}

/** `held`: somebody else owns the session; `pid` says who, where the system tells. */
export type OwnerLockResult =
  | { readonly kind: "taken"; readonly lock: OwnerLock }
  | { readonly kind: "held"; readonly pid: number | undefined };

export interface OwnerLockOptions {
  readonly waitMs?: number;
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
}

/**
 * Takes the owner lock of the session in this folder (which must exist), waiting up to `waitMs` (default 1 s) for a holder to go.
 * Two paths to one folder are one lock. Throws `not_found`, `damaged`, `storage_failed`, `cancelled`.
 */
export async function takeOwnerLock(sessionDir: string, options: OwnerLockOptions = {}): Promise<OwnerLockResult> {
  const { clock = systemClock, waitMs = DEFAULT_WAIT_MS, signal } = options;
  const folder = realFolder(sessionDir);
  const outcome = await retryWhileBusy(() => tryTake(folder), { clock, deadlineMs: clock.nowMs() + waitMs, signal });
  if (outcome === undefined) return { kind: "held", pid: held.has(folder) ? process.pid : findHolder(folder) };
  return { kind: "taken", lock: outcome.value };
}

/**
 * True when some process owns the session in this folder. It looks by trying, for a moment, to take the lock: whoever starts the Pod at
 * that moment waits a little. Makes nothing.
 */
export function isOwned(sessionDir: string): boolean {
  const folder = realFolder(sessionDir);
  // Trap 2: in the owner itself the answer is known without opening anything.
  if (held.has(folder)) return true;
  if (statOrUndefined(join(folder, FILE_NAME)) === undefined) return false;
  try {
    tryTake(folder)[Symbol.dispose]();
    return false;
  } catch (thrown) {
    if (isBusy(thrown)) return true;
    throw thrown;
  }
}

/** Throws SQLite's "busy" when somebody has it. */
function tryTake(folder: string): OwnerLock {
  if (held.has(folder)) throw new HeldHere();
  const path = join(folder, FILE_NAME);
  makePrivateFile(path);
  let database: DatabaseSync | undefined;
  try {
    if (isOpenToOthers(statSync(path))) chmodSync(path, 0o600);
    database = new DatabaseSync(path, { timeout: 0 });
    database.exec("PRAGMA journal_mode = DELETE");
    database.exec("BEGIN IMMEDIATE");
  } catch (thrown) {
    database?.close();
    if (isBusy(thrown)) throw thrown;
    throw toLockError(path, thrown);
  }
  held.set(folder, database);
  return ownerLock(folder, database);
}

function ownerLock(folder: string, database: DatabaseSync): OwnerLock {
  return {
    sessionDir: folder,
    [Symbol.dispose]() {
      if (held.get(folder) !== database) return;
      held.delete(folder);
      database.close();
    },
  };
}

/** Looks like SQLite's "busy" to whoever retries: this very process has the lock, and must not open the file to find out (trap 2). */
class HeldHere extends Error {
  readonly errcode = 5;
}

/** Who holds the lock, from the kernel's own list (Linux). Only for telling people. */
function findHolder(folder: string): number | undefined {
  try {
    const { ino } = statSync(join(folder, FILE_NAME));
    for (const line of readFileSync("/proc/locks", "latin1").split("\n")) {
      // `1: POSIX  ADVISORY  WRITE 5769 fe:00:2146393 1073741825 1073741825`
      const match = /POSIX\s+ADVISORY\s+WRITE\s+(\d+)\s+\S+:(\d+)\s+(\d+)\s/.exec(line);
      if (match === null || Number(match[2]) !== ino) continue;
      if (Number(match[3]) >= PENDING_BYTE && Number(match[3]) < PENDING_BYTE + 512) return Number(match[1]);
    }
  } catch {
    // No such list here, or the holder went: the message then names nobody.
  }
  return undefined;
}

function realFolder(sessionDir: string): string {
  try {
    return realpathSync(sessionDir);
  } catch (thrown) {
    throw new AppError("not_found", `there is no session in ${sessionDir}: ${systemCode(thrown) ?? messageOf(thrown)}`, {
      cause: thrown,
    });
  }
}

function toLockError(path: string, thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  if (isDamaged(thrown)) {
    return new AppError("damaged", `the owner lock ${path} is damaged (${messageOf(thrown)})`, {
      hint: "It holds no data: when no Pod of this session runs, delete it.",
      cause: thrown,
    });
  }
  return new AppError("storage_failed", `the owner lock ${path} cannot be used: ${messageOf(thrown)}`, {
    hint: "Check the folder's permissions and the free space.",
    cause: thrown,
  });
}
