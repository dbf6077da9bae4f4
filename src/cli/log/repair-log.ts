import { assertNever } from "../../base/assert-never.ts";
import { AppError } from "../../base/errors.ts";
import { plural } from "../../base/text.ts";
import { takeOwnerLock } from "../../registry/owner-lock.ts";
import type { LostPart } from "../../session-log/lost-parts.ts";
import { type RepairReport, repair } from "../../session-log/repair.ts";
import { toInert } from "../inert.ts";
import { type CliIo, EXIT } from "../io.ts";
import type { ParsedArgs } from "../parse-args.ts";
import { findSession } from "./find-session.ts";

/** `wakeful log repair`: refused (4) while a Pod owns the session. */
export async function repairLog(args: ParsedArgs, io: CliIo): Promise<number> {
  const { directory, session } = await findSession(args, io);
  const taken = await takeOwnerLock(directory, { signal: io.signal });
  if (taken.kind === "held") {
    const who = taken.pid === undefined ? "another process" : `process ${taken.pid}`;
    throw new AppError("busy", `the session ${session} is owned by ${who}`, { hint: "stop the Pod first: wakeful stop NAME" });
  }
  using _lock = taken.lock;
  const report = await repair(directory, { signal: io.signal });
  io.stdout.write(args.has("json") ? `${JSON.stringify(report)}\n` : `${toInert(sentence(report, session))}\n`);
  return EXIT.done;
}

function sentence(report: RepairReport, session: string): string {
  switch (report.kind) {
    case "nothing_to_do": {
      const torn = report.torn ? " Its last line is not finished; the next start mends that." : "";
      if (report.lost.length === 0) return `Nothing to do: all ${report.entries} entries are sound.${torn}`;
      return `Nothing to do: the newest file is sound, and the session goes on from it.${torn}${lostText(report.lost)}`;
    }
    case "repaired": {
      const { first_bad: bad, kept, removed_bytes: removed, saved, lost } = report;
      return `Kept the ${plural(kept, "entry").replace("entrys", "entries")} before line ${bad.line} of ${bad.file} (${bad.message}).\nThe damaged file, with the ${removed} bytes from there on, is saved as ${saved}.${lostText(lost)}\nGo on with: wakeful restore ${session}`;
    }
    case "set_aside": {
      const { first_bad: bad, saved, before } = report;
      return `${bad.file} is damaged from its first line on (${bad.message}); it is saved as ${saved}, and the session goes on from the file before it.\n${sentence(before, session)}`;
    }
    default:
      return assertNever(report, "repair report");
  }
}

/** What older files can no longer show. */
function lostText(lost: readonly LostPart[]): string {
  return lost
    .map(({ file, line, message, entries: { from, to } }) => {
      const which = to === null ? `entries from ${from} on` : `entries ${from} to ${to}`;
      return `\nLost to show, and not needed to go on: ${which} (${file} line ${line}: ${message}). The file is left as it is.`;
    })
    .join("");
}
