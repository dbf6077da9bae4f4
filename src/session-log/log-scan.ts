import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { AppError, messageOf, systemCode } from "../base/errors.ts";
import type { LogEntry } from "./entry.ts";
import { type ChainHead, claimedPlace, type DecodedLine, decodeLine, EMPTY_HEAD, type LineProblem } from "./line.ts";

/** Reading a log file from its start, line by line, linear in its size. Never changes a byte. */

const CHUNK_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

/** One sound line and where it stands. `line` counts from 1 in its file. */
export interface ScannedLine {
  readonly file: string;
  readonly entry: LogEntry;
  readonly head: ChainHead;
  readonly line: number;
  readonly start: number;
  /** Byte behind its line break. */
  readonly end: number;
  /** The line's bytes without the line break; valid only until the next line is read. */
  readonly bytes: Buffer;
}

/** How a scan ended, in which file, and the newest sound line before that. */
export type ScanEnd = { readonly file: string; readonly head: ChainHead } & FileEnd;

type FileEnd =
  /** Every byte belongs to a sound line; `line` would be the next one's number. */
  | { readonly kind: "whole"; readonly size: number; readonly line: number }
  /**
   * The file ends in something without a line break: what a cut-off write leaves, or NUL bytes of blocks that a power cut left
   * unwritten. `complete` tells that only the line break is missing, so that nothing is lost by adding it.
   */
  | {
      readonly kind: "torn";
      readonly size: number;
      readonly start: number;
      readonly line: number;
      readonly complete: ScannedLine | undefined;
    }
  /** A line inside the file is broken. */
  | {
      readonly kind: "damaged";
      readonly size: number;
      readonly start: number;
      readonly line: number;
      readonly problem: LineProblem;
    };

/**
 * What the first line of a file has to follow: that head, or, with `own`, whatever place it names itself; it then has to be an entry
 * that a file can begin with.
 */
export type ScanStart = ChainHead | "own";

/** A walk through lines: yields each sound one, takes the objection to it (which becomes a `bad_order` problem). */
export type LineWalk = Generator<ScannedLine, ScanEnd, string | undefined>;

/** Takes a whole walk: hands each sound line to `onLine`, which may object, and says how it ended. */
export function scanLines(lines: LineWalk, onLine: (line: ScannedLine) => string | undefined): ScanEnd {
  let step = lines.next();
  while (!step.done) step = lines.next(onLine(step.value));
  return step.value;
}

/** Walks through one file. Throws `not_found`, `storage_failed`, and `damaged` for what is no file. */
export function* walkFile(file: string, start: ScanStart = EMPTY_HEAD): LineWalk {
  const descriptor = openLog(file);
  try {
    const size = fstatSync(descriptor).size;
    let head = start === "own" ? EMPTY_HEAD : start;
    const decode = (bytes: Buffer) => (start === "own" && line === 1 ? decodeFirst(bytes) : decodeLine(bytes, head));
    let line = 1;
    let position = 0;
    let lineStart = 0;
    // Bytes of an unfinished line; joined only once, so that a line of many megabytes costs its length, not its square.
    let parts: Buffer[] = [];
    while (position < size) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - position));
      const read = readSync(descriptor, chunk, 0, chunk.length, position);
      if (read === 0) break;
      let from = 0;
      for (;;) {
        const newline = chunk.subarray(0, read).indexOf(NEWLINE, from);
        if (newline < 0) break;
        parts.push(chunk.subarray(from, newline));
        const bytes = parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts);
        parts = [];
        const end = position + newline + 1;
        const decoded = decode(bytes);
        if (!decoded.ok) return { kind: "damaged", file, head, size, start: lineStart, line, problem: decoded.problem };
        const objection = yield { file, entry: decoded.entry, head: decoded.head, line, start: lineStart, end, bytes };
        if (objection !== undefined) {
          const problem = { code: "bad_order", message: objection } as const;
          return { kind: "damaged", file, head, size, start: lineStart, line, problem };
        }
        head = decoded.head;
        line += 1;
        lineStart = end;
        from = newline + 1;
      }
      if (from < read) parts.push(chunk.subarray(from, read));
      position += read;
    }
    if (lineStart >= size) return { kind: "whole", file, head, size, line };
    const decoded = decodeUnfinished(Buffer.concat(parts), decode);
    const complete = decoded && { ...decoded, file, line, start: lineStart, end: lineStart + decoded.bytes.length + 1 };
    return { kind: "torn", file, head, size, start: lineStart, line, complete };
  } finally {
    closeSync(descriptor);
  }
}

/** Decodes the first line of a file by the place it names itself. */
function decodeFirst(bytes: Buffer): DecodedLine {
  const decoded = decodeLine(bytes, claimedPlace(bytes) ?? EMPTY_HEAD);
  if (!decoded.ok || decoded.entry.type === "session_started") return decoded;
  return { ok: false, problem: { code: "bad_order", message: "no file begins with such an entry: lines before it are missing" } };
}

/**
 * A whole entry at the end of the file that lacks only its line break: nothing stands there, or NUL bytes of a block that a power cut left
 * unwritten, or one other byte, which was the line break before it was changed.
 */
function decodeUnfinished(
  bytes: Buffer,
  decode: (line: Buffer) => DecodedLine,
): Pick<ScannedLine, "entry" | "head" | "bytes"> | undefined {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end -= 1;
  for (const length of new Set([bytes.length, end, bytes.length - 1])) {
    const line = bytes.subarray(0, Math.max(0, length));
    const decoded = decode(line);
    if (decoded.ok) return { entry: decoded.entry, head: decoded.head, bytes: line };
  }
  return undefined;
}

function openLog(file: string): number {
  try {
    const descriptor = openSync(file, "r");
    if (!fstatSync(descriptor).isFile()) {
      closeSync(descriptor);
      throw new AppError("damaged", `${file} is not a regular file`, { hint: "move it away; a session log is a plain file" });
    }
    return descriptor;
  } catch (thrown) {
    if (thrown instanceof AppError) throw thrown;
    if (systemCode(thrown) === "ENOENT") {
      throw new AppError("not_found", `there is no session log at ${file}`, { cause: thrown });
    }
    throw new AppError("storage_failed", `cannot read ${file}: ${messageOf(thrown)}`, {
      hint: "check its owner and permissions",
      cause: thrown,
    });
  }
}
