import { exportLog } from "../../session-log/export.ts";
import { damageError } from "../../session-log/line.ts";
import { toInert } from "../inert.ts";
import { type CliIo, EXIT } from "../io.ts";
import type { ParsedArgs } from "../parse-args.ts";
import { findSession } from "./find-session.ts";
import { emptyLog, inertJson, readerCaughtUp } from "./log-output.ts";

/** `wakeful log export`: the whole session as one document on standard output. */
export async function exportLogCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const { directory } = await findSession(args, io);
  const format = args.has("json") ? "json" : "markdown";
  const inert = format === "json" ? inertJson : toInert;
  const end = await exportLog(directory, {
    format,
    write: (text) => io.stdout.write(inert(text)),
    signal: io.signal,
    between: () => readerCaughtUp(io.signal),
  });
  if (end.kind === "damaged") {
    // The JSON document tells of the damage itself: a second one behind it would be no JSON any more.
    if (format === "json") return EXIT.storage;
    throw damageError(end.file, end.line, end.start, end.problem);
  }
  if (end.head.seq > 0 || end.kind === "torn") return EXIT.done;
  if (format === "markdown") throw emptyLog(end.file);
  return EXIT.storage;
}
