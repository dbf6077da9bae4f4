import { join } from "node:path";
import { hasFirstLine } from "../../session-log/file-index.ts";
import { FIRST_FILE, listFiles, type NumberedFile } from "../../session-log/file-names.ts";
import { type ChainHead, damageError, EMPTY_HEAD } from "../../session-log/line.ts";
import type { ScannedLine } from "../../session-log/log-scan.ts";
import { scanInSteps } from "../../session-log/scan-in-steps.ts";
import { walkAlone } from "../../session-log/walk-session.ts";
import type { TailPlace } from "./log-tail.ts";

export interface LastOptions {
  /** Not in front of what stands behind that entry. */
  readonly since: number;
  /** So many entries; infinite = all. */
  readonly last: number;
  readonly signal: AbortSignal;
}

/**
 * The place in front of the newest entries of a session. Looks at the newest file, and at older ones only where more is asked for; where
 * one of those cannot be read, the place behind it, and why. Throws `damaged` where not even the newest file begins well.
 */
export async function placeOfLast(
  directory: string,
  options: LastOptions,
): Promise<{ readonly place: TailPlace; readonly unreadable?: string }> {
  const files = listFiles(directory).filter((file) => file.number === 1 || hasFirstLine(file.path));
  const [newest = { number: 1, path: join(directory, FIRST_FILE) }, ...older] = files.toReversed();
  let found = await placesIn(newest, options);
  let { places } = found;
  if (found.damage && !found.isSound) throw found.damage;
  const { end } = found;
  for (const file of older) {
    if (places.length >= options.last || found.firstSeq <= options.since + 1) break;
    found = await placesIn(file, { ...options, last: options.last - places.length });
    if (found.damage) return { place: places[0] ?? end, unreadable: found.damage.message };
    places = [...found.places, ...places];
  }
  return { place: places[0] ?? end };
}

/** The places in front of the newest entries of one file (only the first, where all are asked for), and the one behind the last. */
async function placesIn(file: NumberedFile, { since, last, signal }: LastOptions) {
  const { number } = file;
  const places: TailPlace[] = [];
  let end: TailPlace = { number, head: EMPTY_HEAD, line: 1, byte: 0 };
  let firstSeq = 0;
  const scanned = await scanInSteps(
    walkAlone(file),
    (line) => {
      const before: TailPlace = firstSeq === 0 ? { ...end, head: placeBefore(line) } : end;
      if (firstSeq === 0) firstSeq = line.head.seq;
      end = { number, head: line.head, line: line.line + 1, byte: line.end };
      if (line.head.seq <= since) return undefined;
      if (last !== Number.POSITIVE_INFINITY || places.length === 0) places.push(before);
      if (places.length > last) places.shift();
      return undefined;
    },
    { signal },
  );
  const damage = scanned.kind === "damaged" ? damageError(scanned.file, scanned.line, scanned.start, scanned.problem) : undefined;
  return { places, end, firstSeq, isSound: firstSeq > 0, damage };
}

function placeBefore({ entry }: ScannedLine): ChainHead {
  return (entry.type === "session_started" ? entry.continues : undefined) ?? EMPTY_HEAD;
}
