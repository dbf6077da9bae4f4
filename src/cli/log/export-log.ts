import { join } from "node:path";
import { exportLog } from "../../session-log/export.ts";
import { damageError } from "../../session-log/line.ts";
import { FIRST_FILE } from "../../session-log/log-file.ts";
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
  const file = join(directory, FIRST_FILE);
  if (end.kind === "damaged") {
    // The JSON document tells of the damage itself: a second one behind it would be no JSON any more.
    if (format === "json") return EXIT.storage;
    throw damageError(file, end.line, end.start, end.problem);
  }
  if (end.size === 0 && format === "markdown") throw emptyLog(file);
  return end.size === 0 ? EXIT.storage : EXIT.done;
}
