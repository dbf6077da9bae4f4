import { plural } from "../../base/text.ts";
import type { LogEntry } from "../../session-log/entry.ts";
import { firstSeqOf } from "../../session-log/file-index.ts";
import { listFiles } from "../../session-log/file-names.ts";
import { damageError } from "../../session-log/line.ts";
import type { ScannedLine } from "../../session-log/log-scan.ts";
import { scanInSteps } from "../../session-log/scan-in-steps.ts";
import { toEvents } from "../../session-log/to-events.ts";
import { foldLog } from "../../session-log/verify.ts";
import { walkNewest, walkSession } from "../../session-log/walk-session.ts";
import { toInertLine } from "../inert.ts";
import { type CliIo, EXIT } from "../io.ts";
import type { ParsedArgs } from "../parse-args.ts";
import { describeCommitted, entryHeader, type Fate } from "./describe-committed.ts";
import { countOption, findSession } from "./find-session.ts";
import { emptyLog, rawLine, readerCaughtUp } from "./log-output.ts";

/** `wakeful log show`: streams the log; of a damaged one the part before the damage, then the error. */
export async function showLog(args: ParsedArgs, io: CliIo): Promise<number> {
  const { directory } = await findSession(args, io);
  const { from, fileNumber } = await placeToShow(directory, args, io);

  // First what became of everything: an item's fate stands far behind it. Only ids are remembered, never the log.
  const takenBy = new Map<string, string>();
  const { report, state, end } = await foldLog(walkSession(directory, fileNumber), {
    keepHistory: false,
    signal: io.signal,
    visitor: {
      after: (_, entry) => {
        if (entry.type === "llm_request")
          for (const id of entry.takes) takenBy.set(id, `taken by request ${entry.n}, #${entry.seq}`);
      },
    },
  });
  const fate: Fate = (id) => takenBy.get(id) ?? (state.pending.has(id) ? "pending" : undefined);
  const show = ({ entry, bytes }: Pick<ScannedLine, "entry" | "bytes">): undefined => {
    if (entry.seq > from) io.stdout.write(args.has("json") ? rawLine(bytes, io) : entryBlock(entry, fate));
  };
  // A living Pod writes on: the second walk ends where the first one did.
  const onLine = (line: ScannedLine) => (line.entry.seq > report.entries ? "enough" : show(line));
  const again = await scanInSteps(walkSession(directory, fileNumber), onLine, {
    signal: io.signal,
    between: () => readerCaughtUp(io.signal),
  });
  if (again.kind === "torn" && again.complete && again.complete.entry.seq <= report.entries) show(again.complete);

  if (end.kind === "damaged") throw damageError(end.file, end.line, end.start, end.problem);
  if (report.head === null) throw emptyLog(end.file);
  if (report.torn !== undefined && !report.torn.complete) {
    io.stderr.write(
      `note: line ${report.torn.line} is not finished (${report.torn.bytes} bytes): being written, or cut off and mended at the next start\n`,
    );
  }
  return EXIT.done;
}

/** Behind which entry to begin, and in which file: the newest part of a session does not need the files before it. */
async function placeToShow(
  directory: string,
  args: ParsedArgs,
  io: CliIo,
): Promise<{ readonly from: number; readonly fileNumber: number }> {
  const since = countOption(args, "since") ?? 0;
  const last = countOption(args, "last");
  let from = since;
  if (last !== undefined) {
    const { report } = await foldLog(walkNewest(directory), { keepHistory: false, signal: io.signal });
    from = Math.max(since, report.entries - last);
  }
  const files = from === 0 ? [] : listFiles(directory).slice(1);
  const file = files.findLast(({ path }) => beginsBefore(path, from + 1));
  return { from, fileNumber: file?.number ?? 1 };
}

function beginsBefore(path: string, seq: number): boolean {
  try {
    return firstSeqOf(path) <= seq;
  } catch {
    return false; // Whatever is wrong with it is found by the walk from the file before.
  }
}

function entryBlock(entry: LogEntry, fate: Fate): string {
  if (entry.type === "session_started" && entry.continues) return nextFileBlock(entry.seq, entry.ts, entry.history.length);
  const events = toEvents(entry);
  const [first] = events;
  if (first === undefined) return "";
  return `${entryHeader(first)}${events.map((event) => describeCommitted(event, fate)).join("")}${machinery(entry)}\n`;
}

function nextFileBlock(seq: number, ts: number, items: number): string {
  return `#${seq}  ${new Date(ts).toISOString()}  session_started\n    a new file of the log begins; it carries the session so far: ${plural(items, "item")} of history\n\n`;
}

/** What clients are not told of an entry. */
function machinery(entry: LogEntry): string {
  switch (entry.type) {
    case "session_started":
      return `    system prompt of ${entry.system.length} characters, tools: ${entry.tools.map((tool) => toInertLine(tool.name)).join(", ") || "none"}\n`;
    case "llm_request":
      return `    attempt ${entry.attempt}, built from the entries up to #${entry.through}; ${entry.bytes} bytes by ${toInertLine(entry.adapter)}\n`;
    default:
      return "";
  }
}
