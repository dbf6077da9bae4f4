import { userInfo } from "node:os";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import { connect, resultOf } from "../client/connection.ts";
import { shellWord } from "../client/shell-word.ts";
import { MAX_NOTIFY_BYTES } from "../protocol/limits.ts";
import type { MethodInput, MethodResult } from "../protocol/method.ts";
import { NotificationSource } from "../protocol/system-item.ts";
import { usageError } from "./exit.ts";
import { inputText } from "./input-text.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { chainOf, reachPod } from "./reach.ts";

/** `wakeful notify`: returns once the notification is durable (N8). */
export async function runNotifyCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const [target = "", argument = ""] = args.positionals;
  const source = args.value("source") ?? defaultSource(io);
  if (!NotificationSource.safeParse(source).success) {
    throw usageError(
      `notify: --source ${JSON.stringify(source.slice(0, 140))}`,
      "1 to 128 characters, no line break, control character or ']'",
    );
  }
  const id = args.value("id") ?? newId("cli");
  if (id.length < 1 || id.length > 128) throw usageError("notify: --id has the wrong length", "1 to 128 characters");
  const message = await inputText(argument, io, { maxBytes: MAX_NOTIFY_BYTES });
  const pod = await reachPod(target, io, { restore: args.has("restore") });
  const chain = chainOf(io);
  const params = { source, message, wake: !args.has("passive"), id, ...(chain === undefined ? {} : { chain }) };
  const result = await notifyOnce(pod.address, params, io.signal);
  if (args.has("json")) io.stdout.write(`${JSON.stringify(result)}\n`);
  else io.stdout.write(`${result.item} ${result.state}\n`);
  return EXIT.done;
}

/** A lost connection is tried once more with the same id: the Pod answers a repeat with the first result. */
async function notifyOnce(address: string, params: MethodInput<"notify">, signal: AbortSignal): Promise<MethodResult<"notify">> {
  for (let attempt = 1; ; attempt++) {
    await using connection = await connect(address, { signal });
    try {
      return resultOf(await connection.request("notify", params, { signal, deadlineMs: 30_000 }));
    } catch (thrown) {
      if (thrown instanceof AppError && thrown.code === "timed_out") {
        throw new AppError("timed_out", `${thrown.message}; it may still be taken`, {
          hint: `to be sure, repeat it: the same words with --id ${shellWord(params.id ?? "")} are never taken twice`,
          cause: thrown,
        });
      }
      if (connection.isOpen || attempt === 2) throw thrown;
    }
  }
}

function defaultSource(io: CliIo): string {
  const pod = io.env["WAKEFUL_POD"];
  if (pod !== undefined && NotificationSource.safeParse(`pod:${pod}`).success) return `pod:${pod}`;
  try {
    const { username } = userInfo();
    return NotificationSource.safeParse(username).success ? username : "cli";
  } catch {
    return "cli"; // A user without an entry in the user database.
  }
}
