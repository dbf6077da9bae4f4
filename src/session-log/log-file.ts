import { closeSync, constants, fdatasync, fsyncSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, messageOf, systemCode } from "../base/errors.ts";
import { type LogEntry, NewEntry } from "./entry.ts";
import { type ChainHead, damageError, decodeLine, EMPTY_HEAD, encodeLine } from "./line.ts";
import { scanLog } from "./log-scan.ts";

/**
 * The one file that a session is (docs/session-log.md): opened by one process, appended by one caller.
 *
 * W1 A failed write is truncated back to where it began: there is never half an entry in front of a whole one.
 * W2 `sync` resolves only after everything written before it is on disk; one `fdatasync` serves all who wait (grouped).
 * W3 A failed `fdatasync` is not retried: the kernel may have dropped the pages, so the file is closed for good.
 */

/** The system calls behind the file, replaceable so that tests can make a disk fail. */
export interface LogDisk {
  write(descriptor: number, bytes: Buffer, offset: number, position: number): number;
  truncate(descriptor: number, size: number): void;
  sync(descriptor: number, done: (error: Error | null) => void): void;
}

const systemDisk: LogDisk = {
  write: (descriptor, bytes, offset, position) => writeSync(descriptor, bytes, offset, bytes.length - offset, position),
  truncate: ftruncateSync,
  sync: fdatasync,
};

/** Name of a session's first file, and so far its only one. */
export const FIRST_FILE = "000001.jsonl";

/** What opening found at the end of the file, for an alert. */
export type TailRepair =
  | { readonly kind: "none" }
  /** Bytes of an entry that was never completed were cut off. */
  | { readonly kind: "cut"; readonly bytes: number; readonly line: number }
  /** The newest entry was whole, only its line break was missing. */
  | { readonly kind: "completed"; readonly line: number };

/** An open log. Not for two processes at once: the caller holds the owner lock. */
export class LogFile implements Disposable {
  readonly file: string;
  readonly repair: TailRepair;
  readonly #descriptor: number;
  readonly #disk: LogDisk;
  /** Start of each entry's line, by `seq - 1`; the end of the last one is `#size`. */
  readonly #offsets: number[];
  #head: ChainHead;
  #size: number;
  #synced: ChainHead;
  #syncing: Promise<void> | undefined;
  #nextSync: Promise<void> | undefined;
  #failure: AppError | undefined;
  #closed = false;

  private constructor(file: string, descriptor: number, opened: OpenedLog, disk: LogDisk) {
    this.file = file;
    this.#descriptor = descriptor;
    this.#disk = disk;
    this.#offsets = opened.offsets;
    this.#head = opened.head;
    // What a process that was killed wrote last may be in the system's memory only: nothing is known to be on disk before our own sync.
    this.#synced = EMPTY_HEAD;
    this.#size = opened.size;
    this.repair = opened.repair;
  }

  /** Makes a new, empty log in `directory` (0700, file 0600). Fails if there is one. */
  static create(directory: string, disk: LogDisk = systemDisk): LogFile {
    const file = join(directory, FIRST_FILE);
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      const descriptor = openSync(file, constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_NOFOLLOW, 0o600);
      syncDirectory(directory);
      return new LogFile(file, descriptor, { offsets: [], head: EMPTY_HEAD, size: 0, repair: { kind: "none" } }, disk);
    } catch (thrown) {
      throw storageError(`cannot create ${file}`, thrown);
    }
  }

  /**
   * Opens the log in `directory`, checks every line of it, hands each entry to `onEntry` (which may object), and repairs a torn tail
   * (L9). Damage inside is an error and changes nothing.
   */
  static open(directory: string, onEntry: (entry: LogEntry) => string | undefined, disk: LogDisk = systemDisk): LogFile {
    const file = join(directory, FIRST_FILE);
    const offsets: number[] = [];
    let head = EMPTY_HEAD;
    const end = scanLog(file, (line) => {
      const objection = onEntry(line.entry);
      if (objection === undefined) {
        offsets.push(line.start);
        head = line.head;
      }
      return objection;
    });
    if (end.kind === "damaged") throw damageError(file, end.line, end.start, end.problem);
    if (head.seq === 0 && !(end.kind === "torn" && end.complete)) {
      throw new AppError("damaged", `${file} holds no entry`, {
        hint: "the session never began; remove its folder and start a new one",
      });
    }
    let size = end.size;
    let repair: TailRepair = { kind: "none" };
    const descriptor = openForAppend(file);
    try {
      if (end.kind === "torn" && end.complete && onEntry(end.complete.entry) === undefined) {
        size = end.complete.end;
        if (end.size >= size) disk.truncate(descriptor, size - 1); // What stood in place of the line break.
        disk.write(descriptor, Buffer.from("\n"), 0, size - 1);
        offsets.push(end.complete.start);
        head = end.complete.head;
        repair = { kind: "completed", line: end.line };
      } else if (end.kind === "torn") {
        disk.truncate(descriptor, end.start);
        size = end.start;
        repair = { kind: "cut", bytes: end.size - end.start, line: end.line };
      }
      if (repair.kind !== "none") fsyncSync(descriptor);
      return new LogFile(file, descriptor, { offsets, head, size, repair }, disk);
    } catch (thrown) {
      closeSync(descriptor);
      throw thrown instanceof AppError ? thrown : storageError(`cannot repair the tail of ${file}`, thrown);
    }
  }

  /** Place and hash of the newest entry. */
  get head(): ChainHead {
    return this.#head;
  }

  /** The newest entry that is known to be on disk: the head mark. */
  get synced(): ChainHead {
    return this.#synced;
  }

  /** Bytes in the file. */
  get size(): number {
    return this.#size;
  }

  /** Why nothing can be written any more, if so (W3). */
  get failure(): AppError | undefined {
    return this.#failure;
  }

  /**
   * Appends entries, all or none, in one write, and returns them in their place. Durable only after `sync`. Throws `storage_failed`
   * when the disk refuses; the file is then as before (W1).
   */
  append(entries: readonly NewEntry[], ts: number): readonly LogEntry[] {
    if (this.#failure) throw this.#failure;
    if (this.#closed) throw new AppError("internal", `${this.file} is closed`);
    let head = this.#head;
    let offset = this.#size;
    const lines: Buffer[] = [];
    const offsets: number[] = [];
    const placed: LogEntry[] = [];
    for (const entry of entries) {
      // The validated form is what is written and applied, so that a replay meets the very same object (I4).
      const line = encodeLine(NewEntry.parse(entry), head, ts);
      lines.push(line.bytes);
      offsets.push(offset);
      placed.push(line.entry);
      offset += line.bytes.length;
      head = line.head;
    }
    this.#write(lines.length === 1 && lines[0] ? lines[0] : Buffer.concat(lines));
    this.#offsets.push(...offsets);
    this.#size = offset;
    this.#head = head;
    return placed;
  }

  #write(bytes: Buffer): void {
    let written = 0;
    try {
      while (written < bytes.length) {
        const count = this.#disk.write(this.#descriptor, bytes, written, this.#size + written);
        if (count === 0) throw new Error("the disk took no more bytes");
        written += count;
      }
    } catch (thrown) {
      const error = storageError(`cannot write to ${this.file}`, thrown);
      try {
        this.#disk.truncate(this.#descriptor, this.#size); // W1
      } catch (truncation) {
        this.#failure = storageError(`cannot take back a failed write to ${this.file}`, truncation);
      }
      throw error;
    }
  }

  /** Resolves once everything appended so far is on disk (W2); rejects with `storage_failed` when that cannot be (W3). */
  sync(): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#synced.seq === this.#head.seq) return Promise.resolve();
    if (!this.#syncing) {
      this.#syncing = this.#syncNow();
      return this.#syncing;
    }
    // The one in flight may have begun before the newest write: the next one covers everybody who asks meanwhile.
    this.#nextSync ??= this.#syncing.then(() => {
      this.#nextSync = undefined;
      this.#syncing = this.#syncNow();
      return this.#syncing;
    });
    return this.#nextSync;
  }

  #syncNow(): Promise<void> {
    const covered = this.#head;
    return new Promise((resolve, reject) => {
      this.#disk.sync(this.#descriptor, (error) => {
        if (!this.#nextSync) this.#syncing = undefined;
        if (error) {
          this.#failure = storageError(`cannot sync ${this.file}`, error); // W3
          reject(this.#failure);
          return;
        }
        this.#synced = covered;
        resolve();
      });
    });
  }

  /** The entries from `fromSeq` to `toSeq`, both included, read back from the file. For snapshots and paging: cost is what is read. */
  read(fromSeq: number, toSeq: number): LogEntry[] {
    const first = Math.max(1, fromSeq);
    const last = Math.min(toSeq, this.#head.seq);
    const start = this.#offsets[first - 1];
    if (start === undefined || last < first) return [];
    const end = this.#offsets[last] ?? this.#size;
    const bytes = Buffer.allocUnsafe(end - start);
    const count = readSync(this.#descriptor, bytes, 0, bytes.length, start);
    if (count !== bytes.length) throw new AppError("damaged", `${this.file} became shorter while it was open`);
    const entries: LogEntry[] = [];
    for (let seq = first; seq <= last; seq++) {
      const lineStart = (this.#offsets[seq - 1] ?? start) - start;
      const lineEnd = (this.#offsets[seq] ?? this.#size) - start - 1;
      entries.push(this.#decodeOwn(bytes.subarray(lineStart, lineEnd), seq));
    }
    return entries;
  }

  /** Bytes that the entries from `fromSeq` to the newest take. */
  bytesFrom(fromSeq: number): number {
    return this.#size - (this.#offsets[Math.max(1, fromSeq) - 1] ?? this.#size);
  }

  #decodeOwn(line: Buffer, seq: number): LogEntry {
    const prev = /"prev":"([0-9a-f]{64})"/.exec(line.toString("latin1", Math.max(0, line.length - 160)))?.[1] ?? "";
    const decoded = decodeLine(line, { seq: seq - 1, hash: prev });
    if (!decoded.ok) throw damageError(this.file, seq, this.#offsets[seq - 1] ?? 0, decoded.problem);
    return decoded.entry;
  }

  /** Closes the file. Nothing is synced here: who needs durability has waited for it. */
  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#closed = true;
    closeSync(this.#descriptor);
  }
}

interface OpenedLog {
  readonly offsets: number[];
  readonly head: ChainHead;
  readonly size: number;
  readonly repair: TailRepair;
}

function openForAppend(file: string): number {
  try {
    return openSync(file, constants.O_RDWR | constants.O_NOFOLLOW);
  } catch (thrown) {
    throw storageError(`cannot open ${file} for writing`, thrown);
  }
}

function syncDirectory(directory: string): void {
  for (const path of [directory, dirname(directory)]) {
    const descriptor = openSync(path, "r");
    try {
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  }
}

function storageError(what: string, cause: unknown): AppError {
  const code = systemCode(cause);
  const hint =
    code === "ENOSPC" || code === "EDQUOT"
      ? "there is no space left on the disk: free some, then try again"
      : "check the disk and its permissions, then try again";
  return new AppError("storage_failed", `${what}: ${messageOf(cause)}`, { hint, cause });
}
