import { watch } from "node:fs";
import { AppError } from "../../base/errors.ts";
import type { LogEntry } from "../../session-log/entry.ts";
import { scanLines } from "../../session-log/log-scan.ts";
import { walkSession } from "../../session-log/walk-session.ts";

/** Longest wait for something the demo is sure of. */
const DEADLINE_MS = 10_000;

/** Every entry of a session's log, read from its files. */
export function readEntries(directory: string): LogEntry[] {
  const entries: LogEntry[] = [];
  scanLines(walkSession(directory), (line) => {
    entries.push(line.entry);
    return undefined;
  });
  return entries;
}

/** Waits until `find` finds something, looking again whenever something in `directory` changes. */
export function waitInDirectory<T>(directory: string, what: string, find: () => T | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(deadline);
      clearInterval(again);
      watcher.close();
    };
    const look = () => {
      try {
        const found = find();
        if (found === undefined) return;
        stop();
        resolve(found);
      } catch (thrown) {
        stop();
        reject(thrown);
      }
    };
    const watcher = watch(directory, look);
    // Not every file system tells about changes.
    const again = setInterval(look, 100);
    const deadline = setTimeout(() => {
      stop();
      reject(new AppError("timed_out", `${what} did not come within ${DEADLINE_MS / 1000} s`));
    }, DEADLINE_MS);
    look();
  });
}

/** Waits for an entry that `matches`, behind `afterSeq`. */
export function waitForEntry(
  directory: string,
  what: string,
  matches: (entry: LogEntry) => boolean,
  afterSeq = 0,
): Promise<LogEntry> {
  return waitInDirectory(directory, what, () => readEntries(directory).find((entry) => entry.seq > afterSeq && matches(entry)));
}
