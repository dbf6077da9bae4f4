import { nearNames } from "../client/near-names.ts";
import { COMMANDS } from "./commands.ts";
import { reportError, usageError } from "./exit.ts";
import { commandHelp, programHelp } from "./help.ts";
import { type CliIo, EXIT } from "./io.ts";
import { paintFor } from "./paint.ts";
import { parseArgs } from "./parse-args.ts";

/** Runs one command line (without the program's name) and returns the exit code. Never throws. */
export async function runCli(args: readonly string[], io: CliIo): Promise<number> {
  const ownArgs = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  try {
    return await dispatch(args, ownArgs, io);
  } catch (thrown) {
    return reportError(thrown, io, { json: ownArgs.includes("--json") });
  }
}

async function dispatch(args: readonly string[], ownArgs: readonly string[], io: CliIo): Promise<number> {
  const [first, ...rest] = args;
  if (first === undefined) {
    if (!io.stdin.isTTY || !io.stdout.isTTY) {
      io.stdout.write(programHelp(COMMANDS, paintFor(io.stdout, io.env)));
      return EXIT.done;
    }
    const { runHere } = await import("./here-command.ts");
    return runHere(io);
  }
  if (first === "--or-demo" && rest.length === 0) return hereOrDemo(io);
  if (first === "--help" || first === "-h" || first === "help") {
    const about = first === "help" ? rest.find((word) => !word.startsWith("-")) : undefined;
    const spec = COMMANDS.find((command) => command.name === about);
    if (about !== undefined && spec === undefined) throw unknownCommand(about);
    io.stdout.write(
      spec === undefined ? programHelp(COMMANDS, paintFor(io.stdout, io.env)) : commandHelp(spec, paintFor(io.stdout, io.env)),
    );
    return EXIT.done;
  }
  if (first === "--version" || first === "-V") {
    const { VERSION } = await import("../base/version.ts");
    io.stdout.write(`${VERSION}\n`);
    return EXIT.done;
  }
  const spec = COMMANDS.find((command) => command.name === first);
  if (spec === undefined) throw unknownCommand(first);
  const wantsHelp =
    spec.run.kind === "raw" ? rest[0] === "--help" || rest[0] === "-h" : ownArgs.includes("--help") || ownArgs.includes("-h");
  if (wantsHelp) {
    io.stdout.write(commandHelp(spec, paintFor(io.stdout, io.env)));
    return EXIT.done;
  }
  if (spec.run.kind === "raw") return (await spec.run.load())(rest, io);
  const parsed = parseArgs(rest, spec); // Before the command is loaded: wrong usage is told at once.
  return (await spec.run.load())(parsed, io);
}

/** What `npm start` runs in a checkout: this directory's Pod where there is a terminal and a model, else the demo. */
async function hereOrDemo(io: CliIo): Promise<number> {
  if (io.stdin.isTTY && io.stdout.isTTY) {
    const { isModelConfigured, runHere } = await import("./here-command.ts");
    if (isModelConfigured(io)) return runHere(io);
  }
  const { runDemo } = await import("./demo/demo-command.ts");
  return runDemo([], io);
}

function unknownCommand(given: string): Error {
  const shown = given.slice(0, 100);
  if (given.startsWith("-")) return usageError(`unknown option ${shown}`, "see: wakeful --help");
  const near = nearNames(
    given,
    COMMANDS.map((command) => command.name),
  )[0];
  return usageError(`unknown command '${shown}'`, near === undefined ? "see: wakeful --help" : `did you mean ${near}?`);
}
