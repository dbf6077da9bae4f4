import { resultOf } from "../client/connection.ts";
import type { Cursor } from "../protocol/cursor.ts";
import { usageError } from "./exit.ts";
import { toInert } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { withPod } from "./reach.ts";

/** `wakeful output`: what the Pod has answered. */
export async function runOutputCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const [target = ""] = args.positionals;
  const since = args.value("since");
  const params = since === undefined ? {} : { since: parseCursor(since) };
  const result = await withPod(target, io, { restore: false }, async (connection) =>
    resultOf(await connection.request("read_output", params, { signal: io.signal, deadlineMs: 30_000 })),
  );
  if (args.has("json")) io.stdout.write(`${JSON.stringify(result)}\n`);
  else if (result.text !== "") io.stdout.write(`${toInert(result.text)}${result.text.endsWith("\n") ? "" : "\n"}`);
  return EXIT.done;
}

function parseCursor(text: string): Cursor {
  const match = /^(\d{1,15})(?:\.(\d{1,9}))?$/.exec(text);
  if (match === null) throw usageError(`output: --since ${text.slice(0, 40)}`, "a place is SEQ or SEQ.INDEX, such as 17.0");
  return { seq: Number(match[1]), index: Number(match[2] ?? 0) };
}
