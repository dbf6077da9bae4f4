import { launchPod } from "../client/launched-pod.ts";
import { resolvePlaces } from "../registry/places.ts";
import { toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import { launchOptions } from "./launch-options.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { showNotes } from "./reach.ts";

/** `wakeful start`: a Pod in the background. */
export async function runStartCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const name = args.value("name");
  const open = name === undefined ? { kind: "new" as const } : { kind: "named" as const, name };
  const order = { cwd: io.cwd, open, ...launchOptions(args) };
  const pod = await launchPod(order, { places: resolvePlaces(io.env), env: io.env, signal: io.signal });
  if (args.has("json")) {
    const { name, session, address, pid, restored, notes } = pod;
    io.stdout.write(`${JSON.stringify({ name, session, address, pid, restored, notes })}\n`);
    return EXIT.done;
  }
  showNotes(pod, io);
  if (pod.restored) io.stderr.write(`restored ${toInertLine(pod.name)} (${pod.session})\n`);
  io.stdout.write(`${pod.name}\n`); // Whole: it may be a program that reads it. A name holds no control character.
  return EXIT.done;
}
