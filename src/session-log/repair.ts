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
import { dirname, join } from "node:path";
import { AppError, messageOf, systemCode } from "../base/errors.ts";
import { hasFirstLine } from "./file-index.ts";
import { FIRST_FILE, listFiles, type NumberedFile } from "./file-names.ts";
import { type ChainHead, damageError } from "./line.ts";
import { type FileHealth, findLostParts, inspectFile, type LostPart } from "./lost-parts.ts";
import type { BadLine } from "./verify.ts";

/** What a repair did. Only what is needed to go on is mended, the newest file; `lost` tells of the older ones. */
export type RepairReport =
  /** The newest file is sound; an unfinished end is no damage, the next start mends it. `entries` = all of the session. */
  | {
      readonly kind: "nothing_to_do";
      readonly entries: number;
      readonly head: ChainHead | null;
      readonly torn: boolean;
      readonly lost: readonly LostPart[];
    }
  | {
      readonly kind: "repaired";
      /** Entries and bytes of the newest file that were kept: the whole part before its first bad line. */
      readonly kept: number;
      readonly kept_bytes: number;
      readonly head: ChainHead | null;
      /** Bytes that are in `saved` only. */
      readonly removed_bytes: number;
      /** The damaged file, byte for byte. */
      readonly saved: string;
      readonly first_bad: BadLine;
      readonly lost: readonly LostPart[];
    }
  /** Not even the first line of the newest file is sound: it is `saved` now, and the session goes on from the file before it. */
  | { readonly kind: "set_aside"; readonly saved: string; readonly first_bad: BadLine; readonly before: RepairReport };

const COPY_BYTES = 1024 * 1024;

/**
 * Makes a damaged log usable again: keeps everything of the newest file before its first bad line, and the whole original beside it. Older
 * files are looked at and never touched: the session needs nothing of them to go on. No byte is ever lost, and at each moment, also after
 * a power cut, the log is either the old or the new one. The caller holds the owner lock.
 *
 * Throws `damaged` when there is nothing to keep, `storage_failed` when the disk refuses (then nothing changed), `not_found`.
 */
export async function repair(directory: string, options: { readonly signal?: AbortSignal } = {}): Promise<RepairReport> {
  const files = listFiles(directory).filter((file) => file.number === 1 || hasFirstLine(file.path));
  const newest = files.at(-1) ?? { number: 1, path: join(directory, FIRST_FILE) };
  const health = await inspectFile(newest, options);
  if (health.bad !== undefined && health.head === null) return setAside(directory, files, { ...options, bad: health.bad });
  const lost = await findLostParts(directory, files.slice(0, -1), { ...options, newest: health });
  const { head, bad, end } = health;
  if (bad === undefined || end.kind !== "damaged") {
    return { kind: "nothing_to_do", entries: head?.seq ?? 0, head, torn: end.kind === "torn", lost };
  }
  const saved = mend(newest.path, () => {
    const beside = saveBeside(newest.path);
    replaceByPrefix(newest.path, end.start, directory);
    return beside;
  });
  return {
    kind: "repaired",
    kept: end.line - 1,
    kept_bytes: end.start,
    head,
    removed_bytes: end.size - end.start,
    saved,
    first_bad: bad,
    lost,
  };
}

/** Takes the newest file out of the log where the one before it can be gone on in. */
async function setAside(
  directory: string,
  files: readonly NumberedFile[],
  options: { readonly signal?: AbortSignal; readonly bad: BadLine },
): Promise<RepairReport> {
  const { bad } = options;
  const newest = files.at(-1);
  const before = files.at(-2);
  const health: FileHealth | undefined = before && (await inspectFile(before, options));
  if (newest === undefined || health === undefined || health.head === null) throw nothingToKeep(bad);
  const saved = mend(newest.path, () => {
    const beside = saveBeside(newest.path);
    rmSync(newest.path);
    syncPath(directory);
    return beside;
  });
  return { kind: "set_aside", saved, first_bad: bad, before: await repair(directory, options) };
}

function mend(file: string, action: () => string): string {
  try {
    return action();
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
      syncPath(dirname(saved));
      return saved;
    } catch (thrown) {
      if (systemCode(thrown) === "EEXIST") continue;
      copyFileSync(file, saved, constants.COPYFILE_EXCL);
      syncPath(saved);
      syncPath(dirname(saved));
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
