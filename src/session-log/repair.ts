import {
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  linkSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { AppError, messageOf, systemCode } from "../base/errors.ts";
import { type ChainHead, damageError } from "./line.ts";
import { FIRST_FILE } from "./log-file.ts";
import { type BadLine, foldLog } from "./verify.ts";

/** What a repair did. */
export type RepairReport =
  /** The log is sound; an unfinished end is no damage, the next start mends it. */
  | { readonly kind: "nothing_to_do"; readonly entries: number; readonly head: ChainHead | null; readonly torn: boolean }
  | {
      readonly kind: "repaired";
      /** Entries and bytes kept: the whole part before the first bad line. */
      readonly kept: number;
      readonly kept_bytes: number;
      readonly head: ChainHead | null;
      /** Bytes that are in `saved` only. */
      readonly removed_bytes: number;
      /** The damaged log, byte for byte. */
      readonly saved: string;
      readonly first_bad: BadLine;
    };

const COPY_BYTES = 1024 * 1024;

/**
 * Makes a damaged log usable again: keeps everything before the first bad line, and the whole original beside it. No byte is ever lost,
 * and at each moment, also after a power cut, the log is either the old or the new one. The caller holds the owner lock.
 *
 * Throws `damaged` when there is nothing to keep, `storage_failed` when the disk refuses (then nothing changed), `not_found`.
 */
export async function repair(directory: string, options: { readonly signal?: AbortSignal } = {}): Promise<RepairReport> {
  const file = join(directory, FIRST_FILE);
  const { report, end } = await foldLog(directory, { ...options, keepHistory: false });
  const { entries, head, first_bad: firstBad } = report;
  if (firstBad === undefined) return { kind: "nothing_to_do", entries, head, torn: report.torn !== undefined };
  if (end.kind !== "damaged" || entries === 0) throw nothingToKeep(firstBad);
  const keptBytes = end.start;
  try {
    const saved = saveBeside(file);
    replaceByPrefix(file, keptBytes, directory);
    return {
      kind: "repaired",
      kept: entries,
      kept_bytes: keptBytes,
      head,
      removed_bytes: end.size - keptBytes,
      saved,
      first_bad: firstBad,
    };
  } catch (thrown) {
    throw new AppError("storage_failed", `cannot repair ${file}: ${messageOf(thrown)}`, {
      hint: "the log was left as it is; check the disk and its permissions, then try again",
      cause: thrown,
    });
  }
}

function nothingToKeep(firstBad: BadLine): AppError {
  const { file, line, byte, problem, message } = firstBad;
  const what = {
    code: problem === "empty" || problem === "cut" || problem === "rewritten" ? "not_a_line" : problem,
    message,
  } as const;
  const { message: text, details } = damageError(file, line, byte, what);
  return new AppError("damaged", text, {
    hint: "there is no sound entry before it to go on from, so nothing was changed; start a new session",
    ...(details === undefined ? {} : { details }),
  });
}

/** A second name for the damaged file, the first one that is free; a copy where the file system has no links. */
function saveBeside(file: string): string {
  for (let n = 1; ; n++) {
    const saved = `${file}.damaged-${n}`;
    try {
      linkSync(file, saved);
      return saved;
    } catch (thrown) {
      if (systemCode(thrown) === "EEXIST") continue;
      copyFileSync(file, saved, constants.COPYFILE_EXCL);
      syncPath(saved);
      return saved;
    }
  }
}

function replaceByPrefix(file: string, bytes: number, directory: string): void {
  const fresh = `${file}.repair`;
  rmSync(fresh, { force: true }); // A repair that was killed leaves one; it holds nothing that is not elsewhere.
  const source = openSync(file, "r");
  try {
    const target = openSync(fresh, "wx", 0o600);
    try {
      copyPrefix(source, target, bytes);
      fsyncSync(target);
    } finally {
      closeSync(target);
    }
    renameSync(fresh, file);
    syncPath(directory);
  } catch (thrown) {
    rmSync(fresh, { force: true });
    throw thrown;
  } finally {
    closeSync(source);
  }
}

function copyPrefix(source: number, target: number, bytes: number): void {
  const buffer = Buffer.allocUnsafe(COPY_BYTES);
  for (let position = 0; position < bytes; ) {
    const read = readSync(source, buffer, 0, Math.min(buffer.length, bytes - position), position);
    if (read === 0) throw new Error("the file became shorter meanwhile");
    for (let written = 0; written < read; ) {
      written += writeSync(target, buffer, written, read - written, position + written);
    }
    position += read;
  }
}

function syncPath(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
