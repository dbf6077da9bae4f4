import { type AppError, toAppError } from "../base/errors.ts";
import { findLivingPod } from "../client/find-pod.ts";
import type { PodRow } from "../registry/pod-row.ts";
import { openRegistry } from "../registry/registry.ts";
import { endPod, type PodEnd } from "./end-pod.ts";
import { reportError, usageError } from "./exit.ts";
import { toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { placesOf } from "./reach.ts";

/** `wakeful stop`: ends one Pod or all, and waits until their processes are gone. */
export async function runStopCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const [target] = args.positionals;
  const all = args.has("all");
  if ((target === undefined) === !all) throw usageError("stop: name one Pod, or --all", "see: wakeful ps");
  const places = placesOf(io);
  let rows: readonly PodRow[];
  if (target === undefined) {
    await using registry = openRegistry(places);
    rows = await registry.list({ signal: io.signal });
  } else rows = [await findLivingPod(places, target, { signal: io.signal })];
  const outcomes = await Promise.all(rows.map((row) => stopOne(row, io)));
  const failure = outcomes.find((outcome) => outcome.error !== undefined)?.error;
  if (args.has("json")) {
    const stopped = outcomes.map(({ name, session, end, error }) => ({
      name,
      session,
      stopped: error === undefined,
      how: end ?? null,
    }));
    if (failure === undefined || all) io.stdout.write(`${JSON.stringify({ pods: stopped })}\n`);
    else throw failure;
    return failure === undefined ? EXIT.done : EXIT.failed;
  }
  for (const { name, end, error } of outcomes) {
    const shown = toInertLine(name);
    if (error !== undefined && all) reportError(error, io, { json: false });
    else if (error !== undefined) continue;
    else io.stdout.write(end === "terminated" ? `${shown} did not answer; ended with SIGTERM\n` : `${shown} stopped\n`);
  }
  if (outcomes.length === 0) io.stderr.write("no Pod is alive\n");
  if (failure !== undefined && !all) throw failure;
  return failure === undefined ? EXIT.done : EXIT.failed;
}

interface StopOutcome {
  readonly name: string;
  readonly session: string;
  readonly end: PodEnd | undefined;
  readonly error: AppError | undefined;
}

async function stopOne(row: PodRow, io: CliIo): Promise<StopOutcome> {
  const { name, session, address } = row;
  const patience = setTimeout(() => io.stderr.write(`waiting for ${toInertLine(name)} to end\n`), SAY_SO_MS);
  try {
    const end = await endPod({ name, address, pid: row.process.pid }, { reason: "user", signal: io.signal });
    return { name, session, end, error: undefined };
  } catch (thrown) {
    return { name, session, end: undefined, error: toAppError(thrown) };
  } finally {
    clearTimeout(patience);
  }
}

/** A stop that takes longer than this says so, milliseconds. */
const SAY_SO_MS = 3000;
