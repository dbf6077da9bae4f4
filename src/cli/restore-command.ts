import { toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { reachPod } from "./reach.ts";

/** `wakeful restore`: brings a stopped or crashed Pod back; one that lives is left as it is. */
export async function runRestoreCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const [target = ""] = args.positionals;
  const pod = await reachPod(target, io, { restore: true });
  const { name, session, address, pid, restored } = pod;
  if (args.has("json")) io.stdout.write(`${JSON.stringify({ name, session, address, pid, restored })}\n`);
  else {
    io.stdout.write(`${name}\n`);
    if (!restored) io.stderr.write(`${toInertLine(name)} was alive already (process ${pid})\n`);
  }
  return EXIT.done;
}
