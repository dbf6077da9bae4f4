import { resultOf } from "../client/connection.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { withPod } from "./reach.ts";

type ControlMethod = "pause" | "resume" | "cancel";

/** A tool that has to be ended may take its time; a Pod that takes longer than this hangs. */
const DEADLINE_MS = 30_000;
const DONE: Readonly<Record<ControlMethod, string>> = { pause: "paused", resume: "running", cancel: "cancelled" };

/** `wakeful pause`, `resume` and `cancel`: one method each. A pause waits for the safe point, so it alone has no time limit. */
export function controlCommand(method: ControlMethod): (args: ParsedArgs, io: CliIo) => Promise<number> {
  return async (args, io) => {
    const [target = ""] = args.positionals;
    const result = await withPod(target, io, { restore: false }, async (connection) =>
      resultOf(
        await connection.request(method, {}, { signal: io.signal, ...(method === "pause" ? {} : { deadlineMs: DEADLINE_MS }) }),
      ),
    );
    io.stdout.write(args.has("json") ? `${JSON.stringify(result)}\n` : `${DONE[method]}\n`);
    return EXIT.done;
  };
}
