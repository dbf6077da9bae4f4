import { AppError } from "../../base/errors.ts";
import { plural } from "../../base/text.ts";
import { loadConfig } from "../../config/load-config.ts";
import { openModel } from "../../llm/open-model.ts";
import { builtInProviders, type ProviderDirectory } from "../../protocol/provider-settings.ts";
import { type AuditReport, audit } from "../../session-log/audit.ts";
import { toInert } from "../inert.ts";
import { type CliIo, EXIT } from "../io.ts";
import type { ParsedArgs } from "../parse-args.ts";
import { placesOf } from "../reach.ts";
import { findSession } from "./find-session.ts";
import { badLineText, headText } from "./verify-log.ts";

/** `wakeful log audit`: exit code 1 when a request is not what the log makes. */
export async function auditLog(args: ParsedArgs, io: CliIo): Promise<number> {
  const { directory, row } = await findSession(args, io);
  // Nothing is sent: bodies are rendered and thrown away, so no key is needed, and a wrong URL in the environment does no harm.
  const providers = providersOf(io);
  const open = (ref: string) => openModel(ref, { env: {}, providers, rendersOnly: true });
  const report = await audit(directory, open, { mark: row?.head ?? null, signal: io.signal });
  io.stdout.write(args.has("json") ? `${JSON.stringify(report)}\n` : `${toInert(sentence(report))}\n`);
  return report.ok ? EXIT.done : EXIT.failed;
}

/** The providers as configured; a configuration that cannot be read must not keep anybody from checking a log. */
function providersOf(io: CliIo): ProviderDirectory {
  try {
    return loadConfig({ cwd: io.cwd, env: io.env, places: placesOf(io) }).providers.all;
  } catch (thrown) {
    if (thrown instanceof AppError) return builtInProviders({});
    throw thrown;
  }
}

function sentence(report: AuditReport): string {
  const { first_bad: bad, damage } = report;
  if (bad !== undefined) return `not ok: ${bad.message}`;
  if (damage !== undefined) return badLineText(damage, report.head?.seq ?? 0);
  const parts = [`${plural(report.body_checked, "body").replace("bodys", "bodies")} compared byte for byte`];
  if (report.other_adapter > 0) parts.push(`${report.other_adapter} by another adapter version (prompt compared, body not)`);
  if (report.body_unchecked > 0) {
    const reasons = report.unopened.map(({ model, reason }) => `${model}: ${reason}`).join("; ");
    parts.push(`${report.body_unchecked} without a model to rebuild the body (prompt compared): ${reasons}`);
  }
  return `ok: ${plural(report.requests, "request")} rebuilt from the log, ${parts.join(", ")}${headText(report)}`;
}
