import { nearNames } from "../../client/near-names.ts";
import type { CommandSpec, OptionSpec } from "../command-spec.ts";
import { usageError } from "../exit.ts";
import { commandHelp } from "../help.ts";
import { type CliIo, EXIT } from "../io.ts";
import { parseArgs } from "../parse-args.ts";

const name = { name: "NAME|SESSION" };
const json: OptionSpec = { help: "print machine output: one JSON object" };
const since: OptionSpec = { value: "SEQ", help: "only entries behind that one" };
const last: OptionSpec = { value: "N", help: "only the newest N entries" };

/** Every `wakeful log` command: they read, of living and stopped Pods alike; only `repair` changes anything. */
const LOG_COMMANDS: readonly CommandSpec[] = [
  {
    name: "log show",
    summary: "print a session's log, one block an entry",
    args: [name],
    options: { since, last, json: { help: "print the raw lines, as they stand in the file" } },
    details: ["A damaged log is printed up to the damage; the exit code is then 5."],
    example: "wakeful log show reviewer --last 20",
    run: { kind: "parsed", load: async () => (await import("./show-log.ts")).showLog },
  },
  {
    name: "log follow",
    summary: "print what comes into the log, until Ctrl-C or until the Pod ends",
    args: [name],
    options: {
      since,
      last: { ...last, help: "begin with the newest N entries (default 10)" },
      json: { help: "print each event as one JSON line" },
    },
    details: ["Of a living Pod also what never is in the log: with --json the stream of its answer, else alerts and retries."],
    example: "wakeful log follow reviewer",
    run: { kind: "parsed", load: async () => (await import("./follow-log.ts")).followLog },
  },
  {
    name: "log verify",
    summary: "prove a log whole, or name its first bad line",
    args: [name],
    options: { json },
    details: ["Exit code 0: every line is as it was written. 1: the first that is not is named."],
    example: "wakeful log verify reviewer",
    run: { kind: "parsed", load: async () => (await import("./verify-log.ts")).verifyLog },
  },
  {
    name: "log audit",
    summary: "rebuild every LLM request from the log and compare it with what was sent",
    args: [name],
    options: { json },
    details: ["Sends nothing and needs no key. Exit code 1 names the first request that differs."],
    example: "wakeful log audit reviewer",
    run: { kind: "parsed", load: async () => (await import("./audit-log.ts")).auditLog },
  },
  {
    name: "log export",
    summary: "write the whole session as one Markdown document",
    args: [name],
    options: { json: { help: "as one JSON document" } },
    example: "wakeful log export reviewer > session.md",
    run: { kind: "parsed", load: async () => (await import("./export-log.ts")).exportLogCommand },
  },
  {
    name: "log repair",
    summary: "keep the whole part of a damaged log, and the original beside it",
    args: [name],
    options: { json },
    details: ["Refused while the Pod lives. A sound log is left alone."],
    example: "wakeful log repair reviewer",
    run: { kind: "parsed", load: async () => (await import("./repair-log.ts")).repairLog },
  },
];

/** `wakeful log SUBCOMMAND NAME`. Throws what the subcommand throws; returns the exit code. */
export async function runLogCommand(args: string[], io: CliIo): Promise<number> {
  const [given, ...rest] = args;
  const names = LOG_COMMANDS.map((command) => command.name.slice("log ".length));
  if (given === undefined) throw usageError("log: SUBCOMMAND is missing", `one of ${names.join(", ")}; see: wakeful log --help`);
  const spec = LOG_COMMANDS.find((command) => command.name === `log ${given}`);
  if (spec === undefined) {
    const near = nearNames(given, names)[0];
    throw usageError(
      `log: there is no subcommand '${given.slice(0, 100)}'`,
      near === undefined ? `it is one of ${names.join(", ")}` : `did you mean log ${near}?`,
    );
  }
  const ownArgs = rest.includes("--") ? rest.slice(0, rest.indexOf("--")) : rest;
  if (ownArgs.includes("--help") || ownArgs.includes("-h")) {
    io.stdout.write(commandHelp(spec));
    return EXIT.done;
  }
  const parsed = parseArgs(rest, spec);
  try {
    if (spec.run.kind === "raw") return await (await spec.run.load())(rest, io);
    return await (await spec.run.load())(parsed, io);
  } catch (thrown) {
    // A reader that left (`| head`) or Ctrl-C: nothing to tell.
    if (io.signal.aborted) return EXIT.interrupted;
    throw thrown;
  }
}
