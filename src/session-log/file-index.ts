import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { AppError, messageOf, systemCode } from "../base/errors.ts";
import type { LogEntry } from "./entry.ts";
import { claimedPlace, claimedSeq, damageError, decodeLine, SEQ_BYTES } from "./line.ts";

/** Where each line of a file stands, so that any part of it can be read without the rest. */
export interface FileIndex {
  readonly file: string;
  /** `seq` of its first line. */
  readonly firstSeq: number;
  /** Start of each line, by `seq - firstSeq`; the end of the last one is `size`. */
  readonly offsets: readonly number[];
  readonly size: number;
}

const CHUNK_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

/**
 * The entries from `fromSeq` to `toSeq`, both in the file: cost is what is read. The one that a later file begins with is left out: it
 * repeats what was, and can be larger than everything else. Throws `damaged` for what is not as it was written.
 */
export function readIndexed(descriptor: number, index: FileIndex, fromSeq: number, toSeq: number): LogEntry[] {
  const { file, firstSeq, offsets, size } = index;
  const first = firstSeq > 1 && fromSeq === firstSeq ? fromSeq + 1 : fromSeq;
  const start = offsets[first - firstSeq];
  if (start === undefined || toSeq < first) return [];
  const end = offsets[toSeq + 1 - firstSeq] ?? size;
  const bytes = Buffer.allocUnsafe(end - start);
  const count = readSync(descriptor, bytes, 0, bytes.length, start);
  if (count !== bytes.length) throw new AppError("damaged", `${file} became shorter while it was open`);
  const entries: LogEntry[] = [];
  for (let seq = first; seq <= toSeq; seq++) {
    const lineStart = offsets[seq - firstSeq] ?? start;
    const lineEnd = (offsets[seq + 1 - firstSeq] ?? size) - 1;
    const line = bytes.subarray(lineStart - start, lineEnd - start);
    const decoded = decodeLine(line, { seq: seq - 1, hash: claimedPlace(line)?.hash ?? "" });
    if (!decoded.ok) throw damageError(file, seq + 1 - firstSeq, lineStart, decoded.problem);
    entries.push(decoded.entry);
  }
  return entries;
}

/** `seq` of the first line of a file, without reading that line. Throws `damaged` where none begins there, or the file is missing. */
export function firstSeqOf(file: string): number {
  return withFile(file, (descriptor) => {
    const bytes = Buffer.alloc(SEQ_BYTES);
    readSync(descriptor, bytes, 0, SEQ_BYTES, 0);
    const seq = claimedSeq(bytes);
    if (seq === undefined) throw damageError(file, 1, 0, { code: "not_a_line", message: "it does not begin with an entry" });
    return seq;
  });
}

/** Whether a file holds a whole first line: what comes before a rotation's rename does not count otherwise. */
export function hasFirstLine(file: string): boolean {
  return withFile(file, (descriptor) => !lineBreaks(descriptor).next().done);
}

/** Finds every line of a finished file. Memory for the places only. Throws `damaged` where it does not hold the entries up to `lastSeq`. */
export function indexFile(file: string, firstSeq: number, lastSeq: number): FileIndex {
  return withFile(file, (descriptor) => {
    const ends = [...lineBreaks(descriptor)];
    const size = ends.at(-1) ?? 0;
    const expected = lastSeq + 1 - firstSeq;
    if (ends.length !== expected) {
      const message = `it holds ${ends.length} lines, and the next file follows its line ${expected}`;
      throw damageError(file, Math.min(ends.length, expected) + 1, size, { code: "bad_seq", message });
    }
    return { file, firstSeq, offsets: [0, ...ends.slice(0, -1)], size };
  });
}

/** The byte behind each line break. */
function* lineBreaks(descriptor: number): Generator<number, void, undefined> {
  const { size } = fstatSync(descriptor);
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size));
  for (let position = 0; position < size; ) {
    const count = readSync(descriptor, chunk, 0, chunk.length, position);
    if (count === 0) return;
    const part = chunk.subarray(0, count);
    for (let at = part.indexOf(NEWLINE); at >= 0; at = part.indexOf(NEWLINE, at + 1)) yield position + at + 1;
    position += count;
  }
}

/** Opens a file for reading while `use` runs. */
export function withFile<Value>(file: string, use: (descriptor: number) => Value): Value {
  let descriptor: number;
  try {
    descriptor = openSync(file, "r");
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") {
      throw new AppError("damaged", `the log file ${file} is missing`, {
        hint: "what stood in it cannot be shown; the session itself goes on from its newest file",
      });
    }
    throw new AppError("storage_failed", `cannot read ${file}: ${messageOf(thrown)}`, {
      hint: "check its owner and permissions",
      cause: thrown,
    });
  }
  try {
    return use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
