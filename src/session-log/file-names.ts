import { readdirSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../base/errors.ts";
import { storageError } from "./log-disk.ts";

/** The files of a session: `000001.jsonl`, `000002.jsonl`, ..., each going on where the one before ends. */

/** Name of a session's first file. */
export const FIRST_FILE = "000001.jsonl";

/** Behind the name of a file that is being made: until it is whole it is no part of the log. */
export const UNFINISHED_SUFFIX = ".new";

/** Digits leave room for more files than a disk holds; a longer number still sorts right, because it is compared as one. */
const NAME = /^(\d{6,15})\.jsonl$/;

/** One file of a session's log. */
export interface NumberedFile {
  /** 1, 2, 3 ... */
  readonly number: number;
  readonly path: string;
}

/** Name of a session's file number `number`. */
export function fileName(number: number): string {
  return `${String(number).padStart(6, "0")}.jsonl`;
}

/** The log files in a folder, oldest first; none where there is no folder. Throws `storage_failed` when it cannot be read. */
export function listFiles(directory: string): readonly NumberedFile[] {
  return namesIn(directory)
    .flatMap((name) => {
      const number = Number(NAME.exec(name)?.[1] ?? 0);
      return number > 0 && fileName(number) === name ? [{ number, path: join(directory, name) }] : [];
    })
    .sort((a, b) => a.number - b.number);
}

/** What a rotation that was cut off left in a folder. */
export function listUnfinished(directory: string): readonly string[] {
  return namesIn(directory)
    .filter((name) => name.endsWith(UNFINISHED_SUFFIX) && NAME.test(name.slice(0, -UNFINISHED_SUFFIX.length)))
    .map((name) => join(directory, name));
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") return [];
    throw storageError(`cannot read the folder ${directory}`, thrown);
  }
}
