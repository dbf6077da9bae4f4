import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "../../base/errors.ts";
import type { LogEntry } from "../../session-log/entry.ts";
import { hasFirstLine } from "../../session-log/file-index.ts";
import { fileName } from "../../session-log/file-names.ts";
import { type ChainHead, damageError, decodeLine } from "../../session-log/line.ts";

/** Most bytes read in one go; a longer line is read on until it ends. */
const CHUNK_BYTES = 1024 * 1024;

/** Where a tail stands: behind a whole line of file number `number`, or in front of its first. `line` is the number of the next one. */
export interface TailPlace {
  readonly number: number;
  readonly head: ChainHead;
  readonly line: number;
  readonly byte: number;
}

/**
 * Reads on in a log that grows, from file to file. A line counts once its line break is there; each is checked against the one before.
 */
export class LogTail {
  readonly #directory: string;
  #place: TailPlace;
  #unfinished: Buffer[] = [];
  #read: number;

  constructor(directory: string, place: TailPlace) {
    this.#directory = directory;
    this.#place = place;
    this.#read = place.byte;
  }

  /** The entries that came since the last call. Throws `damaged` for a line that does not follow, `storage_failed` as reading does. */
  next(): LogEntry[] {
    const entries: LogEntry[] = [];
    for (;;) {
      // Once the next file is there, nothing more is written to this one: so what is read after that look is all of it.
      const next = this.#file(1);
      const hasNext = existsSync(next) && hasFirstLine(next);
      this.#readOn(entries);
      if (!hasNext || this.#unfinished.length > 0) return entries;
      this.#place = { number: this.#place.number + 1, head: this.#place.head, line: 1, byte: 0 };
      this.#read = 0;
    }
  }

  #file(ahead = 0): string {
    return join(this.#directory, fileName(this.#place.number + ahead));
  }

  #readOn(entries: LogEntry[]): void {
    const file = this.#file();
    const descriptor = openOrSay(file);
    try {
      const { size } = fstatSync(descriptor);
      if (size < this.#place.byte) {
        throw new AppError("damaged", `${file} became shorter while it was followed`, {
          hint: "wakeful log verify tells more",
        });
      }
      if (size < this.#read) this.#forgetUnfinished(); // A write that failed was taken back.
      while (this.#read < size) {
        const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - this.#read));
        const count = readSync(descriptor, chunk, 0, chunk.length, this.#read);
        if (count === 0) break;
        this.#read += count;
        this.#take(chunk.subarray(0, count), entries);
      }
    } finally {
      closeSync(descriptor);
    }
  }

  #take(chunk: Buffer, entries: LogEntry[]): void {
    let from = 0;
    for (let newline = chunk.indexOf(0x0a); newline >= 0; newline = chunk.indexOf(0x0a, from)) {
      const bytes = Buffer.concat([...this.#unfinished, chunk.subarray(from, newline)]);
      this.#unfinished = [];
      from = newline + 1;
      const { number, head, line, byte } = this.#place;
      const decoded = decodeLine(bytes, head);
      if (!decoded.ok) throw damageError(this.#file(), line, byte, decoded.problem);
      entries.push(decoded.entry);
      this.#place = { number, head: decoded.head, line: line + 1, byte: byte + bytes.length + 1 };
    }
    if (from < chunk.length) this.#unfinished.push(chunk.subarray(from));
  }

  #forgetUnfinished(): void {
    this.#unfinished = [];
    this.#read = this.#place.byte;
  }
}

function openOrSay(file: string): number {
  try {
    return openSync(file, "r");
  } catch (thrown) {
    throw new AppError("storage_failed", `cannot read ${file}: ${messageOf(thrown)}`, {
      hint: "it was there before: was the session removed?",
      cause: thrown,
    });
  }
}
