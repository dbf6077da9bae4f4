import { realpathSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { type Clock, systemClock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { currentProcess, type ProcessIdentity } from "../base/process-identity.ts";
import type { Status } from "../protocol/status.ts";
import { type ClaimRequest, type ClaimResult, claimPod } from "./claim.ts";
import type { Places } from "./places.ts";
import { type PodRow, toPodRow } from "./pod-row.ts";
import { toProcessGroups } from "./process-groups.ts";
import {
  createRegistryFile,
  damaged,
  isReplaced,
  openRegistryFile,
  type RegistryFile,
  toRegistryError,
} from "./registry-file.ts";
import { inTransaction, isBusy, retryWhileBusy } from "./sqlite.ts";

/** Longest wait for a registry that others are writing, before `busy`. A transaction takes about a millisecond. */
const DEFAULT_WAIT_MS = 5000;

/** What a Pod tells about itself while it runs; absent keys stay as they are. */
export type PodPatch = Partial<Omit<Status, "scope_enforcement">>;

/** `not_owner`: the row is not this process's (or no longer, or not there): nothing was changed. */
export type UpdateResult = "updated" | "not_owner";

export interface RegistryOptions {
  /** Who writes; only a test needs another than this process. */
  readonly identity?: ProcessIdentity;
  readonly clock?: Clock;
  readonly waitMs?: number;
}

/** Every wait of the registry can be ended. */
export interface CallOptions {
  readonly signal?: AbortSignal;
}

/**
 * Where the Pods of a user find each other and where names and write scope are given out (orchestration.md, The registry).
 *
 * All methods may throw `busy` (others wrote all the time until the limit), `damaged`, `storage_failed`, `configuration` (newer
 * version) and `cancelled`. The event loop is never blocked for longer than one transaction.
 */
export interface Registry extends AsyncDisposable {
  /** Becomes a Pod, or learns who is in the way. Makes the registry if there is none. */
  claim(request: ClaimRequest, options?: CallOptions): Promise<ClaimResult>;
  /** Tells how this process's Pod is; also notes that it was seen. */
  update(session: string, patch: PodPatch, options?: CallOptions): Promise<UpdateResult>;
  /** Notes the newest synced place of the log, with the time. The log is the truth: whatever it says is taken, also an earlier place. */
  setHead(session: string, head: { readonly seq: number; readonly hash: string }, options?: CallOptions): Promise<UpdateResult>;
  /** Notes which process groups the Pod's tools run; the whole list each time. */
  setProcessGroups(session: string, groups: readonly number[], options?: CallOptions): Promise<UpdateResult>;
  /** The Pod ends in order: its name and scope are free from here on, its session stays restorable. */
  release(session: string, reason: string, options?: CallOptions): Promise<UpdateResult>;
  /** Takes the row of a session away that never came to be: nothing of it can be restored. Only by the process that claimed it. */
  forget(session: string, options?: CallOptions): Promise<UpdateResult>;
  /** By session id or name; of several sessions that had the name, the living one, else the one started last. */
  find(nameOrSession: string, options?: CallOptions): Promise<PodRow | undefined>;
  /** Living Pods, latest started first; `all`: also what can be restored. */
  list(options?: CallOptions & { readonly all?: boolean }): Promise<readonly PodRow[]>;
  /** The session of this directory (real path) that was started last, living or not. */
  latestIn(cwd: string, options?: CallOptions): Promise<PodRow | undefined>;
}

/** The registry of these places. Nothing is opened or made before the first call; reading makes nothing at all. */
export function openRegistry(places: Places, options: RegistryOptions = {}): Registry {
  return new SqliteRegistry(places, options);
}

class SqliteRegistry implements Registry {
  readonly #path: string;
  readonly #identity: ProcessIdentity;
  readonly #clock: Clock;
  readonly #waitMs: number;
  #file: RegistryFile | undefined;
  #isClosed = false;

  constructor(places: Places, options: RegistryOptions) {
    this.#path = join(places.data, "registry.db");
    this.#identity = options.identity ?? currentProcess();
    this.#clock = options.clock ?? systemClock;
    this.#waitMs = options.waitMs ?? DEFAULT_WAIT_MS;
  }

  async claim(request: ClaimRequest, options: CallOptions = {}): Promise<ClaimResult> {
    return this.#run(options, () => {
      createRegistryFile(this.#path);
      const database = this.#open();
      if (database === undefined)
        throw new AppError("storage_failed", `the registry ${this.#path} was taken away while it was made`);
      return inTransaction(database, () =>
        claimPod(database, request, {
          process: this.#identity,
          nowMs: this.#clock.nowMs(),
          // Only what can matter: a user may have thousands of ended sessions.
          rows: this.#select(database, "WHERE end_reason IS NULL OR process_groups <> '[]' OR session = ?", request.session),
        }),
      );
    });
  }

  async update(session: string, patch: PodPatch, options: CallOptions = {}): Promise<UpdateResult> {
    return this.#write(session, toColumns(patch), options);
  }

  async setHead(
    session: string,
    head: { readonly seq: number; readonly hash: string },
    options: CallOptions = {},
  ): Promise<UpdateResult> {
    const columns = { head_seq: head.seq, head_hash: head.hash, head_at: this.#clock.nowMs() };
    return this.#write(session, columns, options);
  }

  async setProcessGroups(session: string, groups: readonly number[], options: CallOptions = {}): Promise<UpdateResult> {
    return this.#run(options, () => {
      const database = this.#open();
      if (database === undefined) return "not_owner";
      return inTransaction(database, () => {
        const known = this.#select(database, "WHERE session = ?", session)[0]?.processGroups ?? [];
        return this.#set(database, session, { process_groups: JSON.stringify(toProcessGroups(groups, known)) });
      });
    });
  }

  async release(session: string, reason: string, options: CallOptions = {}): Promise<UpdateResult> {
    const columns = { status: "stopped", trigger_kind: null, end_reason: reason, ended_at: this.#clock.nowMs() };
    return this.#write(session, columns, options);
  }

  async forget(session: string, options: CallOptions = {}): Promise<UpdateResult> {
    const { bootId, pid, startTime } = this.#identity;
    return this.#run(options, () => {
      const database = this.#open();
      if (database === undefined) return "not_owner";
      const { changes } = database
        .prepare("DELETE FROM pods WHERE session = ? AND boot_id = ? AND pid = ? AND process_start = ?")
        .run(session, bootId, pid, startTime);
      return changes === 1 ? "updated" : "not_owner";
    });
  }

  async find(nameOrSession: string, options: CallOptions = {}): Promise<PodRow | undefined> {
    const name = nameOrSession.normalize("NFC");
    const rows = await this.#read("WHERE session = ?1 OR name = ?1 ORDER BY start_number DESC", [name], options);
    return rows.find((row) => row.session === name) ?? rows.find((row) => row.alive) ?? rows[0];
  }

  async list(options: CallOptions & { readonly all?: boolean } = {}): Promise<readonly PodRow[]> {
    if (options.all) return this.#read("ORDER BY start_number DESC", [], options);
    const rows = await this.#read("WHERE end_reason IS NULL ORDER BY start_number DESC", [], options);
    return rows.filter((row) => row.alive);
  }

  async latestIn(cwd: string, options: CallOptions = {}): Promise<PodRow | undefined> {
    const rows = await this.#read("WHERE cwd = ? ORDER BY start_number DESC LIMIT 1", [cwd], options);
    return rows[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#closeFile();
  }

  async #read(where: string, values: readonly string[], options: CallOptions): Promise<readonly PodRow[]> {
    return this.#run(options, () => {
      const database = this.#open();
      return database === undefined ? [] : this.#select(database, where, ...values);
    });
  }

  async #write(session: string, columns: Columns, options: CallOptions): Promise<UpdateResult> {
    return this.#run(options, () => {
      const database = this.#open();
      return database === undefined ? "not_owner" : inTransaction(database, () => this.#set(database, session, columns));
    });
  }

  #set(database: DatabaseSync, session: string, columns: Columns): UpdateResult {
    const assignments = Object.keys(columns).map((column) => `${column} = :${column}`);
    const { changes } = database
      .prepare(
        `UPDATE pods SET ${[...assignments, "last_seen_at = :now"].join(", ")} WHERE session = :session AND end_reason IS NULL
           AND boot_id = :boot AND pid = :pid AND process_start = :start`,
      )
      .run({
        ...columns,
        now: this.#clock.nowMs(),
        session,
        boot: this.#identity.bootId,
        pid: this.#identity.pid,
        start: this.#identity.startTime,
      });
    return changes === 1 ? "updated" : "not_owner";
  }

  #select(database: DatabaseSync, where: string, ...values: readonly string[]): readonly PodRow[] {
    const rows = database.prepare(`SELECT * FROM pods ${where}`).all(...values);
    return rows.map((raw) => {
      const parsed = toPodRow(raw);
      if (!parsed.ok)
        throw damaged(this.#path, `holds a row that cannot be read (session ${String(raw["session"])}): ${parsed.reason}`);
      return parsed.row;
    });
  }

  /** The open database; undefined when there is no file. Opens it anew when it was moved away or replaced. */
  #open(): DatabaseSync | undefined {
    if (this.#isClosed) throw new AppError("internal", `the registry ${this.#path} was used after it was closed`);
    if (this.#file !== undefined && isReplaced(this.#path, this.#file)) this.#closeFile();
    this.#file ??= openRegistryFile(realPathOrSame(this.#path));
    return this.#file?.database;
  }

  #closeFile(): void {
    const file = this.#file;
    this.#file = undefined;
    file?.database.close();
  }

  async #run<Result>(options: CallOptions, attempt: () => Result): Promise<Result> {
    const deadlineMs = this.#clock.nowMs() + this.#waitMs;
    const guarded = () => {
      try {
        return attempt();
      } catch (thrown) {
        if (isBusy(thrown)) throw thrown;
        throw toRegistryError(this.#path, thrown);
      }
    };
    const outcome = await retryWhileBusy(guarded, { clock: this.#clock, deadlineMs, signal: options.signal });
    if (outcome !== undefined) return outcome.value;
    throw new AppError("busy", `the registry ${this.#path} was busy for ${this.#waitMs} ms`, {
      hint: "Try again; if it stays so, look which process holds the file (`fuser`, `lsof`).",
    });
  }
}

type Columns = Readonly<Record<string, SQLInputValue>>;

/** The columns a patch changes. Every key of `PodPatch` has its line here (the compiler sees to it). */
function toColumns(patch: PodPatch): Columns {
  const columns: Readonly<Record<keyof PodPatch, readonly [string, SQLInputValue | undefined]>> = {
    state: ["status", patch.state],
    turn: ["turn", patch.turn],
    trigger: ["trigger_kind", patch.trigger],
    pending: ["pending", patch.pending],
    wake_held: ["wake_held", patch.wake_held && JSON.stringify(patch.wake_held)],
    last_outcome: ["last_outcome", patch.last_outcome],
    model: ["model", patch.model],
    usage: ["usage", patch.usage && JSON.stringify(patch.usage)],
  };
  const changed: Record<string, SQLInputValue> = {};
  for (const [column, value] of Object.values(columns)) if (value !== undefined) changed[column] = value;
  return changed;
}

function realPathOrSame(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // Not there (yet): the caller finds out.
    return path;
  }
}
