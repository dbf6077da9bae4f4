import { chmodSync, linkSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { AppError, messageOf, systemCode } from "../base/errors.ts";
import { randomText } from "../base/ids.ts";
import { isOpenToOthers, makePrivateDir, statOrUndefined } from "./private-dir.ts";
import { inTransaction, isBusy, isDamaged, isSqliteError, makePrivateFile } from "./sqlite.ts";

/** Version of the tables, in the file's `user_version`. Raised with every change, together with a step that brings older files up. */
export const SCHEMA_VERSION = 1;
/** Marks the file as ours, in its `application_id`: "WKFL". */
const APPLICATION_ID = 0x574b464c;

const SCHEMA = `
CREATE TABLE pods (
  session TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  -- Order of starts: clocks order nothing.
  start_number INTEGER NOT NULL UNIQUE,
  boot_id TEXT NOT NULL,
  pid INTEGER NOT NULL,
  process_start TEXT NOT NULL,
  address TEXT NOT NULL,
  cwd TEXT NOT NULL,
  model TEXT NOT NULL,
  scope TEXT NOT NULL,
  scope_enforcement TEXT NOT NULL,
  status TEXT NOT NULL,
  turn INTEGER NOT NULL,
  trigger_kind TEXT,
  pending INTEGER NOT NULL,
  wake_held TEXT,
  last_outcome TEXT,
  usage TEXT NOT NULL,
  head_seq INTEGER,
  head_hash TEXT,
  head_at REAL,
  process_groups TEXT NOT NULL,
  created_at REAL NOT NULL,
  started_at REAL NOT NULL,
  last_seen_at REAL NOT NULL,
  end_reason TEXT,
  ended_at REAL
) STRICT;
CREATE INDEX pods_by_name ON pods (name);
CREATE INDEX pods_by_cwd ON pods (cwd);
`;

/** An open registry file, with the inode it was opened on. */
export interface RegistryFile {
  readonly database: DatabaseSync;
  readonly inode: number;
}

/**
 * Makes the registry with its tables if it is not there. It is built aside and linked into place whole: nobody ever sees half of one, so
 * an empty file is damage and not a beginning. Several processes may do this at once; one of them wins.
 */
export function createRegistryFile(path: string): void {
  if (statOrUndefined(path) !== undefined) return;
  makePrivateDir(dirname(path));
  const draft = join(dirname(path), `registry.db.new-${process.pid}-${randomText(8)}`);
  try {
    makePrivateFile(draft);
    const database = new DatabaseSync(draft, { timeout: 0 });
    try {
      database.exec("PRAGMA synchronous = FULL");
      inTransaction(database, () => {
        database.exec(SCHEMA);
        database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}`);
      });
      // Kept in the file's header: everybody who opens it is in WAL mode. Last, so that nothing lies beside the file when it is linked.
      database.exec("PRAGMA journal_mode = WAL");
    } finally {
      database.close();
    }
    linkSync(draft, path);
  } catch (thrown) {
    if (systemCode(thrown) === "EEXIST") return;
    throw toRegistryError(path, thrown);
  } finally {
    for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(`${draft}${suffix}`, { force: true });
  }
}

/**
 * Opens the registry; undefined when there is none. May throw SQLite's "busy" (the caller tries again); throws `damaged` for an empty or
 * broken file (which is left as it is), `configuration` for one of a newer version.
 */
export function openRegistryFile(path: string): RegistryFile | undefined {
  const stats = statOrUndefined(path);
  if (stats === undefined) return undefined;
  if (!stats.isFile()) throw damaged(path, "is not a file");
  if (stats.size === 0) throw damaged(path, "is empty");
  if (isOpenToOthers(stats)) closeFile(path);
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { timeout: 0 });
    database.exec("PRAGMA synchronous = FULL");
    checkVersion(path, database);
    return { database, inode: stats.ino };
  } catch (thrown) {
    database?.close();
    if (isBusy(thrown)) throw thrown;
    throw toRegistryError(path, thrown);
  }
}

/** True when the open file is no longer the one at `path` (moved away, deleted, replaced): what is written to it would be lost. */
export function isReplaced(path: string, file: RegistryFile): boolean {
  try {
    return statSync(path).ino !== file.inode;
  } catch {
    return true;
  }
}

/** An error of SQLite or the file system as one of ours, naming the file and the remedy; ours come through as they are. */
export function toRegistryError(path: string, thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  if (isDamaged(thrown)) return damaged(path, `is damaged (${messageOf(thrown)})`, thrown);
  const isStorage = isSqliteError(thrown) || systemCode(thrown) !== undefined;
  return new AppError(isStorage ? "storage_failed" : "internal", `the registry ${path} cannot be used: ${messageOf(thrown)}`, {
    hint: "Check the folder's permissions and the free space.",
    cause: thrown,
  });
}

/** The error for a registry that cannot be believed. The file is never touched: a person decides. */
export function damaged(path: string, what: string, cause?: unknown): AppError {
  return new AppError("damaged", `the registry ${path} ${what}`, {
    hint: `Stop all Pods and move it and its -wal and -shm away; a new one is made. The sessions are whole in ${join(dirname(path), "sessions")}.`,
    cause,
  });
}

function checkVersion(path: string, database: DatabaseSync): void {
  const version = database.prepare("PRAGMA user_version").get()?.["user_version"];
  const application = database.prepare("PRAGMA application_id").get()?.["application_id"];
  if (application !== APPLICATION_ID || typeof version !== "number" || version < 1) {
    throw damaged(path, "is a database, but not a registry of Wakeful");
  }
  if (version > SCHEMA_VERSION) {
    throw new AppError(
      "configuration",
      `the registry ${path} was made by a newer Wakeful (its version ${version}, ours ${SCHEMA_VERSION})`,
      {
        hint: "Update this Wakeful, or set WAKEFUL_HOME to another folder.",
      },
    );
  }
}

function closeFile(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) {
    try {
      chmodSync(`${path}${suffix}`, 0o600);
    } catch {
      // Not there, or a read-only disk: then nobody opened it by our hand, and the folder is closed anyway.
    }
  }
}
