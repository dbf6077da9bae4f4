import { plural } from "../../base/text.ts";
import { type VerifyReport, verify } from "../../session-log/verify.ts";
import { toInert } from "../inert.ts";
import { type CliIo, EXIT } from "../io.ts";
import type { ParsedArgs } from "../parse-args.ts";
import { findSession } from "./find-session.ts";
import { ageText } from "./log-output.ts";

/** `wakeful log verify`: exit code 1 when a line is not as it was written. */
export async function verifyLog(args: ParsedArgs, io: CliIo): Promise<number> {
  const { directory, row } = await findSession(args, io);
  const report = await verify(directory, { mark: row?.head ?? null, signal: io.signal });
  io.stdout.write(args.has("json") ? `${JSON.stringify(report)}\n` : `${toInert(sentence(report, row?.alive ?? false))}\n`);
  return report.ok ? EXIT.done : EXIT.failed;
}

function sentence(report: VerifyReport, isAlive: boolean): string {
  if (report.first_bad !== undefined) return badLineText(report.first_bad, report.entries);
  const files = report.files > 1 ? ` in ${report.files} files` : "";
  return `ok: ${plural(report.entries, "entry").replace("entrys", "entries")}${files}${headText(report)}${tornText(report, isAlive)}`;
}

/** The first bad line in one sentence. */
export function badLineText(bad: NonNullable<VerifyReport["first_bad"]>, entries: number): string {
  return `not ok: ${bad.file} line ${bad.line} (byte ${bad.byte}): ${bad.message}. ${entries} before it ${entries === 1 ? "is" : "are"} sound`;
}

/** The newest entry, and what stands for the end of the log. */
export function headText(report: Pick<VerifyReport, "head" | "head_mark_age_ms">): string {
  const head = report.head === null ? "" : `, the newest has hash ${report.head.hash.slice(0, 16)}…`;
  const age = report.head_mark_age_ms;
  return age === null
    ? `${head}; no head mark: a cut at its end would not be noticed`
    : `${head}; its end agrees with the head mark of ${ageText(age)} ago`;
}

function tornText(report: VerifyReport, isAlive: boolean): string {
  if (report.torn === undefined) return "";
  if (isAlive) return "; the Pod is writing the next line";
  return report.torn.complete
    ? "; the last line break is missing, which the next start adds"
    : `; line ${report.torn.line} was cut off while it was written (${report.torn.bytes} bytes), the next start removes it`;
}
