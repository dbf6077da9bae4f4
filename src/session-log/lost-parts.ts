import { join } from "node:path";
import { fileName, type NumberedFile } from "./file-names.ts";
import type { ChainHead } from "./line.ts";
import type { ScanEnd } from "./log-scan.ts";
import { type BadLine, foldLog } from "./verify.ts";
import { walkAlone } from "./walk-session.ts";

/** One file looked at alone, as if the session began with it. */
export interface FileHealth {
  readonly number: number;
  /** The place it goes on from; null in the first file, undefined where its first line is not sound. */
  readonly continues: ChainHead | null | undefined;
  /** Its newest sound line; null = there is none. */
  readonly head: ChainHead | null;
  readonly bad: BadLine | undefined;
  readonly end: ScanEnd;
}

/** An older part of a session that cannot be read. It is left as it is: the session needs nothing of it to go on. */
export interface LostPart extends BadLine {
  /** The entries that cannot be shown; null where the end is not known, because the next file does not say what it follows. */
  readonly entries: { readonly from: number; readonly to: number | null };
}

interface Options {
  readonly signal?: AbortSignal;
}

/** Checks one file alone. Throws what `verify` throws. */
export async function inspectFile(file: NumberedFile, options: Options): Promise<FileHealth> {
  let continues: ChainHead | null | undefined;
  const { report, end } = await foldLog(walkAlone(file), {
    ...options,
    keepHistory: false,
    visitor: {
      after: (_, entry) => {
        if (continues === undefined) continues = (entry.type === "session_started" ? entry.continues : undefined) ?? null;
      },
    },
  });
  return { number: file.number, continues, head: report.head, bad: report.first_bad, end };
}

/** What of the session cannot be read, in the files in front of the newest one: damage, a file that is missing, an end that was cut off. */
export async function findLostParts(
  directory: string,
  older: readonly NumberedFile[],
  options: Options & { readonly newest: FileHealth },
): Promise<LostPart[]> {
  const { newest, ...rest } = options;
  const lost: LostPart[] = [];
  let last = 0;
  for (let number = 1; number < newest.number; number++) {
    const file = older.find((one) => one.number === number);
    const next = older.find((one) => one.number === number + 1);
    const following = next === undefined ? (number + 1 === newest.number ? newest : undefined) : await inspectFile(next, rest);
    const to = following?.continues?.seq ?? null;
    const health = file && (await inspectFile(file, rest));
    const from = (health?.head?.seq ?? last) + 1;
    const bad = health === undefined ? missing(join(directory, fileName(number))) : (health.bad ?? cut(health, following));
    if (bad !== undefined) lost.push({ ...bad, entries: { from, to } });
    last = to ?? from - 1;
  }
  return lost;
}

function missing(file: string): BadLine {
  return { file, line: 1, byte: 0, problem: "missing", message: "the file is missing" };
}

/** A sound file that is not the one which the next file follows, or not all of it. */
function cut({ head, end }: FileHealth, following: FileHealth | undefined): BadLine | undefined {
  const expected = following?.continues;
  if (!expected || expected.hash === head?.hash) return undefined;
  const { file, line, size: byte } = end;
  if (expected.seq > (head?.seq ?? 0)) return { file, line, byte, problem: "cut", message: "lines at its end are missing" };
  return { file, line, byte, problem: "rewritten", message: "it is not the file that the next one follows" };
}
