import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { AppError, messageOf } from "../../base/errors.ts";
import type { LogEntry } from "../../session-log/entry.ts";
import { type ChainHead, damageError, decodeLine, EMPTY_HEAD } from "../../session-log/line.ts";

/** Most bytes read in one go; a longer line is read on until it ends. */
const CHUNK_BYTES = 1024 * 1024;

/** Where a tail stands: behind a whole line. `line` is the number of the next one. */
export interface TailPlace {
  readonly head: ChainHead;
  readonly line: number;
  readonly byte: number;
}

export const LOG_START: TailPlace = { head: EMPTY_HEAD, line: 1, byte: 0 };

/** Reads on in a log that grows. A line counts once its line break is there; each is checked against the one before. */
export class LogTail {
  readonly #file: string;
  #place: TailPlace;
  #unfinished: Buffer[] = [];
  #read: number;

  constructor(file: string, place: TailPlace) {
    this.#file = file;
    this.#place = place;
    this.#read = place.byte;
  }

  /** The entries that came since the last call. Throws `damaged` for a line that does not follow, `storage_failed` as reading does. */
  next(): LogEntry[] {
    const entries: LogEntry[] = [];
    const descriptor = openOrSay(this.#file);
    try {
      const { size } = fstatSync(descriptor);
      if (size < this.#place.byte) {
        throw new AppError("damaged", `${this.#file} became shorter while it was followed`, {
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
    return entries;
  }

  #take(chunk: Buffer, entries: LogEntry[]): void {
    let from = 0;
    for (let newline = chunk.indexOf(0x0a); newline >= 0; newline = chunk.indexOf(0x0a, from)) {
      const bytes = Buffer.concat([...this.#unfinished, chunk.subarray(from, newline)]);
      this.#unfinished = [];
      from = newline + 1;
      const { head, line, byte } = this.#place;
      const decoded = decodeLine(bytes, head);
      if (!decoded.ok) throw damageError(this.#file, line, byte, decoded.problem);
      entries.push(decoded.entry);
      this.#place = { head: decoded.head, line: line + 1, byte: byte + bytes.length + 1 };
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
