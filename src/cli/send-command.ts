import { connect, resultOf } from "../client/connection.ts";
import { submitRun } from "../client/submit-run.ts";
import { closeRun } from "./close-run.ts";
import { usageError } from "./exit.ts";
import { inputText, MAX_TASK_BYTES } from "./input-text.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { chainOf, reachPod } from "./reach.ts";
import { startRun, watchRun } from "./watch-run.ts";

/** `wakeful send`: a task for a living Pod. */
export async function runSendCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const [target = "", argument = ""] = args.positionals;
  if (args.has("queue") && args.has("steer"))
    throw usageError("send: --queue and --steer exclude each other", "give one of them");
  const text = await inputText(argument, io, { maxBytes: MAX_TASK_BYTES });
  const pod = await reachPod(target, io, { restore: args.has("restore") });
  const chain = chainOf(io);
  const params = {
    input: [{ kind: "text" as const, text }],
    if_running: args.has("queue") ? ("queue" as const) : args.has("steer") ? ("steer" as const) : ("reject" as const),
    ...(chain === undefined ? {} : { chain }),
  };
  const open = () => connect(pod.address, { signal: io.signal });
  const json = args.has("json");
  if (args.has("wait")) {
    const options = { io, json, params, timeoutMs: undefined, connect: open };
    const run = await startRun(options);
    await using _connection = run.connection;
    const result = await watchRun(run, options);
    return closeRun(result, pod, io, { json });
  }
  const { answer, connection } = await submitRun(await open(), params, {
    reconnect: open,
    signal: io.signal,
    deadlineMs: 30_000,
  });
  await connection.close();
  const result = resultOf(answer);
  if (json) io.stdout.write(`${JSON.stringify(result)}\n`);
  else io.stdout.write("turn" in result ? `turn ${result.turn}\n` : "queued\n");
  return EXIT.done;
}
