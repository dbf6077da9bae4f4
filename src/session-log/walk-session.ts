import { join } from "node:path";
import { FIRST_FILE, fileName, listFiles, type NumberedFile } from "./file-names.ts";
import type { ChainHead } from "./line.ts";
import { EMPTY_HEAD } from "./line.ts";
import { type LineWalk, type ScanEnd, type ScanStart, walkFile } from "./log-scan.ts";

/**
 * Walks through all files of a session in order, or those from number `from` on. One chain goes through them: a file that is missing, or
 * whose first line does not follow the last one of the file before it, is damage. `line`, `start` and `end` count in their own file.
 * Of a living Pod it may miss the newest lines, never one in between. Throws what `walkFile` throws.
 */
export function* walkSession(directory: string, from = 1): LineWalk {
  const files = listFiles(directory).filter((file) => file.number >= from);
  const [first] = files;
  if (first === undefined) return yield* walkFile(join(directory, from === 1 ? FIRST_FILE : fileName(from)));
  let start: ScanStart = from === 1 ? EMPTY_HEAD : "own";
  let end: ScanEnd = { kind: "whole", file: first.path, head: EMPTY_HEAD, size: 0, line: 1 };
  let expected = from;
  for (const file of files) {
    if (file.number !== expected) return missing(join(directory, fileName(expected)), end.head);
    expected += 1;
    const isNewest = file === files.at(-1);
    end = yield* walkFile(file.path, start);
    if (end.kind === "damaged") return end;
    if (isNewest) return file.number > 1 && isUnfinished(end) ? asUnfinished(end, start) : end;
    if (end.kind === "torn") return unfinishedInside(end);
    start = end.head;
  }
  return end;
}

/** Walks through the newest file alone, from the place that it names itself: what a restore reads. */
export function walkNewest(directory: string): LineWalk {
  const newest = listFiles(directory).at(-1);
  if (newest === undefined || newest.number === 1) return walkFile(newest?.path ?? join(directory, FIRST_FILE));
  return walkFile(newest.path, "own");
}

/** Walks through one file as a whole log of its own. */
export function walkAlone(file: NumberedFile): LineWalk {
  return walkFile(file.path, file.number === 1 ? EMPTY_HEAD : "own");
}

/** A rotation that was cut off leaves no whole first line; the next open removes such a file, and goes on in the one before it. */
function isUnfinished(end: ScanEnd): boolean {
  return end.kind === "whole" ? end.size === 0 : end.line === 1;
}

function asUnfinished(end: ScanEnd, start: ScanStart): ScanEnd {
  const head = start === "own" ? EMPTY_HEAD : start;
  return { kind: "torn", file: end.file, head, size: end.size, start: 0, line: 1, complete: undefined };
}

function unfinishedInside({ file, head, size, start, line }: ScanEnd & { readonly kind: "torn" }): ScanEnd {
  const message = "it is not finished, although a later file follows";
  return { kind: "damaged", file, head, size, start, line, problem: { code: "not_a_line", message } };
}

function missing(file: string, head: ChainHead): ScanEnd {
  const message = "the file is missing, although a later one follows";
  return { kind: "damaged", file, head, size: 0, start: 0, line: 1, problem: { code: "missing", message } };
}
