import { closeSync, constants, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError } from "../base/errors.ts";
import { type EntryOf, type LogEntry, NewEntry } from "./entry.ts";
import { type FileIndex, readIndexed } from "./file-index.ts";
import { FIRST_FILE } from "./file-names.ts";
import { type ChainHead, damageError, EMPTY_HEAD, encodeLine } from "./line.ts";
import { LogDisk, storageError, writeWhole } from "./log-disk.ts";
import { scanLines } from "./log-scan.ts";
import { OlderFiles } from "./older-files.ts";
import { makeFile, settleFiles } from "./rotate-file.ts";
import { walkAlone } from "./walk-session.ts";

/**
 * The log that a session is (docs/session-log.md): opened by one process, appended by one caller, always at the end of its newest file.
 *
 * W1 A failed write is truncated back to where it began: there is never half an entry in front of a whole one.
 * W2 `sync` resolves only after everything written before it is on disk; one `fdatasync` serves all who wait (grouped).
 * W3 A failed `fdatasync` is not retried: the kernel may have dropped the pages, so the file is closed for good.
 * W4 A new file is begun only when everything before it is on disk, and written to only when it is itself (R1). A sync of the old file
 *    that is under way keeps its descriptor, and whoever asks meanwhile still waits for it: if it fails, W3 holds.
 */

/** A file over this many bytes is followed by a new one ... */
export const ROTATE_BYTES = 8 * 1024 * 1024;
/** ... unless it is below so many times the state it began with: rewriting the state then costs each entry the same, whatever its size. */
const ROTATE_STATES = 3;

/** What opening found at the end of the file, for an alert. */
export type TailRepair =
  | { readonly kind: "none" }
  /** Bytes of an entry that was never completed were cut off. */
  | { readonly kind: "cut"; readonly bytes: number; readonly line: number }
  /** The newest entry was whole, only its line break was missing. */
  | { readonly kind: "completed"; readonly line: number };

/** An open log. Not for two processes at once: the caller holds the owner lock. */
export class LogFile implements Disposable {
  readonly repair: TailRepair;
  /** The number of bytes from which on a file may be followed by a new one. */
  rotateBytes = ROTATE_BYTES;
  readonly #directory: string;
  readonly #disk: LogDisk;
  readonly #older: OlderFiles;
  #number: number;
  #file: string;
  #descriptor: number;
  #firstSeq: number;
  /** Start of each line of the file, by `seq - #firstSeq`; the end of the last one is `#size`. */
  #offsets: number[];
  /** No rotation is tried below this size, because one failed. */
  #rotateAgainAt = 0;
  #head: ChainHead;
  #size: number;
  #synced: ChainHead;
  #syncing: Promise<void> | undefined;
  #nextSync: Promise<void> | undefined;
  #failure: AppError | undefined;
  #closed = false;

  private constructor(directory: string, opened: OpenedLog, disk: LogDisk) {
    this.#directory = directory;
    this.#disk = disk;
    this.#number = opened.number;
    this.#file = opened.file;
    this.#descriptor = opened.descriptor;
    this.#firstSeq = opened.head.seq + 1 - opened.offsets.length;
    this.#offsets = opened.offsets;
    this.#older = new OlderFiles(directory, opened.number - 1, this.#firstSeq);
    this.#head = opened.head;
    // What a process that was killed wrote last may be in the system's memory only: nothing is known to be on disk before our own sync.
    this.#synced = EMPTY_HEAD;
    this.#size = opened.size;
    this.repair = opened.repair;
  }

  /** Makes a new, empty log in `directory` (0700, file 0600). Fails if there is one. */
  static create(directory: string, disk: LogDisk = new LogDisk()): LogFile {
    const file = join(directory, FIRST_FILE);
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      const descriptor = openSync(file, constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_NOFOLLOW, 0o600);
      for (const path of [directory, dirname(directory)]) disk.syncDirectory(path);
      const opened = { number: 1, file, descriptor, offsets: [], head: EMPTY_HEAD, size: 0, repair: NO_REPAIR };
      return new LogFile(directory, opened, disk);
    } catch (thrown) {
      throw storageError(`cannot create ${file}`, thrown);
    }
  }

  /**
   * Opens the newest file of the log in `directory`, checks every line of it, hands each entry to `onEntry` (which may object), and
   * repairs a torn tail (L9). Older files are not looked at. Damage inside is an error and changes nothing.
   */
  static open(directory: string, onEntry: (entry: LogEntry) => string | undefined, disk: LogDisk = new LogDisk()): LogFile {
    const { number, path: file } = settleFiles(directory, disk) ?? { number: 1, path: join(directory, FIRST_FILE) };
    const offsets: number[] = [];
    let head = EMPTY_HEAD;
    const end = scanLines(walkAlone({ number, path: file }), (line) => {
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
    let repair: TailRepair = NO_REPAIR;
    const descriptor = openForAppend(file);
    try {
      if (end.kind === "torn" && end.complete && onEntry(end.complete.entry) === undefined) {
        size = end.complete.end;
        if (end.size >= size) disk.truncate(descriptor, size - 1); // What stood in place of the line break.
        writeWhole(disk, descriptor, Buffer.from("\n"), size - 1);
        offsets.push(end.complete.start);
        head = end.complete.head;
        repair = { kind: "completed", line: end.line };
      } else if (end.kind === "torn") {
        disk.truncate(descriptor, end.start);
        size = end.start;
        repair = { kind: "cut", bytes: end.size - end.start, line: end.line };
      }
      if (repair.kind !== "none") fsyncSync(descriptor);
      return new LogFile(directory, { number, file, descriptor, offsets, head, size, repair }, disk);
    } catch (thrown) {
      closeSync(descriptor);
      throw thrown instanceof AppError ? thrown : storageError(`cannot repair the tail of ${file}`, thrown);
    }
  }

  /** The newest file, which is written to. */
  get file(): string {
    return this.#file;
  }

  /** Place and hash of the newest entry. */
  get head(): ChainHead {
    return this.#head;
  }

  /** The newest entry that is known to be on disk: the head mark. */
  get synced(): ChainHead {
    return this.#synced;
  }

  /** Bytes in the newest file. */
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
    if (this.#closed) throw new AppError("internal", `${this.#file} is closed`);
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
    try {
      writeWhole(this.#disk, this.#descriptor, bytes, this.#size);
    } catch (thrown) {
      const error = storageError(`cannot write to ${this.#file}`, thrown);
      try {
        this.#disk.truncate(this.#descriptor, this.#size); // W1
      } catch (truncation) {
        this.#failure = storageError(`cannot take back a failed write to ${this.#file}`, truncation);
      }
      throw error;
    }
  }

  /** Resolves once everything appended so far is on disk (W2); rejects with `storage_failed` when that cannot be (W3). */
  sync(): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (!this.#syncing) {
      if (this.#synced.seq === this.#head.seq) return Promise.resolve();
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
          this.#failure = storageError(`cannot sync ${this.#file}`, error); // W3
          reject(this.#failure);
          return;
        }
        if (covered.seq > this.#synced.seq) this.#synced = covered; // A new file may have been begun meanwhile (W4).
        resolve();
      });
    });
  }

  /** True when the newest file is long enough to be followed by a new one: `rotate` then. */
  get wantsRotation(): boolean {
    const [, stateBytes = this.#size] = this.#offsets;
    const size = this.#size;
    if (this.#failure || this.#closed) return false;
    return size > this.rotateBytes && size > ROTATE_STATES * stateBytes && size >= this.#rotateAgainAt;
  }

  /**
   * Begins a new file with `start`, which carries the state behind the newest entry (`continuationOf`), and returns that in its place:
   * everything up to there is on disk then. Throws `storage_failed` when the disk refuses; the log then goes on as before, and a rotation
   * is wanted again only some time later.
   */
  rotate(start: EntryOf<"session_started">, ts: number): LogEntry {
    if (this.#failure) throw this.#failure;
    if (this.#closed) throw new AppError("internal", `${this.#file} is closed`);
    this.#syncBeforeRotation(); // W4
    const line = encodeLine(start, this.#head, ts);
    const number = this.#number + 1;
    const made = makeFile(this.#directory, number, line.bytes, this.#disk);
    if (made.kind !== "made") {
      const error = storageError(`cannot begin a new file behind ${this.#file}`, made.cause);
      if (made.kind === "uncertain") this.#failure = error;
      this.#rotateAgainAt = this.#size + this.rotateBytes / 8;
      throw error;
    }
    this.#older.add(this.#number, this.#index);
    this.#closeFile(this.#descriptor);
    this.#number = number;
    this.#file = made.path;
    this.#descriptor = made.descriptor;
    this.#firstSeq = line.head.seq;
    this.#offsets = [0];
    this.#size = line.bytes.length;
    this.#rotateAgainAt = 0;
    this.#head = line.head;
    this.#synced = line.head;
    return line.entry;
  }

  #syncBeforeRotation(): void {
    if (this.#synced.seq === this.#head.seq) return;
    try {
      this.#disk.syncNow(this.#descriptor);
    } catch (thrown) {
      this.#failure = storageError(`cannot sync ${this.#file}`, thrown); // W3
      throw this.#failure;
    }
    this.#synced = this.#head;
  }

  /** Closes a file that is written no more, once a sync of it that is under way has ended (W4). */
  #closeFile(descriptor: number): void {
    const close = () => closeSync(descriptor);
    if (this.#syncing) void this.#syncing.then(close, close);
    else close();
  }

  /**
   * The entries from `fromSeq` to `toSeq`, both included, read back from the files: cost is what is read, plus a look through an older
   * file the first time. What later files begin with is left out: it says nothing new. Throws `damaged` where an older file is.
   */
  read(fromSeq: number, toSeq: number): LogEntry[] {
    const first = Math.max(1, fromSeq);
    const last = Math.min(toSeq, this.#head.seq);
    const here = this.#firstSeq;
    const older = first < here && first <= last ? this.#older.read(first, Math.min(last, here - 1)) : [];
    const own = last < here ? [] : readIndexed(this.#descriptor, this.#index, Math.max(first, here), last);
    return older.length === 0 ? own : [...older, ...own];
  }

  get #index(): FileIndex {
    return { file: this.#file, firstSeq: this.#firstSeq, offsets: this.#offsets, size: this.#size };
  }

  /** Closes the file. Nothing is synced here: who needs durability has waited for it. */
  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#closed = true;
    closeSync(this.#descriptor);
  }
}

interface OpenedLog {
  readonly number: number;
  readonly file: string;
  readonly descriptor: number;
  readonly offsets: number[];
  readonly head: ChainHead;
  readonly size: number;
  readonly repair: TailRepair;
}

const NO_REPAIR: TailRepair = { kind: "none" };

function openForAppend(file: string): number {
  try {
    return openSync(file, constants.O_RDWR | constants.O_NOFOLLOW);
  } catch (thrown) {
    throw storageError(`cannot open ${file} for writing`, thrown);
  }
}
