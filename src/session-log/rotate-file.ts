import { closeSync, constants, existsSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import { hasFirstLine } from "./file-index.ts";
import { fileName, listFiles, listUnfinished, type NumberedFile, UNFINISHED_SUFFIX } from "./file-names.ts";
import { type LogDisk, storageError, writeWhole } from "./log-disk.ts";

/**
 * A new file beside the one that is written (docs/session-log.md, "Files").
 *
 * R1 It is written under another name, synced, renamed, and the folder synced, before anybody writes to it: at each moment the newest
 *    file with a whole first line is the one to go on in, and holds or follows every entry that was ever synced.
 */

/** What came of it. */
export type MadeFile =
  | { readonly kind: "made"; readonly path: string; readonly descriptor: number }
  /** Nothing changed: it can be tried again. */
  | { readonly kind: "refused"; readonly cause: unknown }
  /** The file has its name, and whether it will have it after a power cut is unknown: no file can be gone on in. */
  | { readonly kind: "uncertain"; readonly cause: unknown };

/** Makes file `number` with `firstLine` in it (0600), durable under its name (R1). */
export function makeFile(directory: string, number: number, firstLine: Buffer, disk: LogDisk): MadeFile {
  const path = join(directory, fileName(number));
  const fresh = `${path}${UNFINISHED_SUFFIX}`;
  let descriptor: number | undefined;
  try {
    rmSync(fresh, { force: true }); // What a try that failed could not remove.
    descriptor = openSync(fresh, constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_NOFOLLOW, 0o600);
    writeWhole(disk, descriptor, firstLine, 0);
    disk.syncNow(descriptor);
    if (existsSync(path)) throw new Error(`${path} is there already: somebody else writes this session`);
    disk.rename(fresh, path);
    disk.syncDirectory(directory);
    return { kind: "made", path, descriptor };
  } catch (cause) {
    if (descriptor !== undefined) closeSync(descriptor);
    try {
      rmSync(fresh, { force: true });
    } catch {
      // No part of the log under this name; the next try, or the next open, removes it.
    }
    return { kind: existsSync(path) ? "uncertain" : "refused", cause };
  }
}

/**
 * The file to go on in: the newest one with a whole first line. Removes what a rotation that was cut off left behind: nothing of it was
 * ever needed, because the file before it holds everything. The caller holds the owner lock.
 */
export function settleFiles(directory: string, disk: LogDisk): NumberedFile | undefined {
  const files = [...listFiles(directory)];
  const leftovers = [...listUnfinished(directory)];
  let newest = files.pop();
  while (newest !== undefined && newest.number > 1 && files.length > 0 && !hasFirstLine(newest.path)) {
    leftovers.push(newest.path);
    newest = files.pop();
  }
  if (leftovers.length === 0) return newest;
  try {
    for (const path of leftovers) rmSync(path);
    disk.syncDirectory(directory);
  } catch (thrown) {
    throw storageError(`cannot remove what an unfinished rotation left in ${directory}`, thrown);
  }
  return newest;
}
