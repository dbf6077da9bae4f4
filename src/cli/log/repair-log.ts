import { AppError } from "../../base/errors.ts";
import { takeOwnerLock } from "../../registry/owner-lock.ts";
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
  if (report.kind === "nothing_to_do") {
    const torn = report.torn ? " Its last line is not finished; the next start mends that." : "";
    return `Nothing to do: all ${report.entries} entries are sound.${torn}`;
  }
  const { first_bad: bad, kept, removed_bytes: removed, saved } = report;
  return `Kept the ${kept} entries before line ${bad.line} (${bad.message}).\nThe damaged log, with the ${removed} bytes from there on, is saved as ${saved}.\nGo on with: wakeful restore ${session}`;
}
