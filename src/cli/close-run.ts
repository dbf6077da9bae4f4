import { AppError } from "../base/errors.ts";
import { shellWord } from "../client/shell-word.ts";
import { errorObject, reportError } from "./exit.ts";
import type { CliIo } from "./io.ts";
import type { RunError, WatchResult } from "./watch-run.ts";

/**
 * The last word about a watched run: with `--json` the line of type `result` that closes every stream, whatever the ending; for people
 * the error, where nothing has told of it yet. Returns the exit code.
 */
export function closeRun(
  result: WatchResult,
  pod: { readonly name: string; readonly session: string },
  io: CliIo,
  options: { readonly json: boolean },
): number {
  if (options.json) io.stdout.write(resultLine(result, pod));
  else if (result.error?.kind === "watch" && result.exitCode !== 0)
    reportError(toldError(result.error.error, pod), io, { json: false });
  return result.exitCode;
}

/** The line that closes a `--json` stream. */
export function resultLine(result: WatchResult, pod: { readonly name: string; readonly session: string }): string {
  const { outcome, text, turns, usage } = result;
  const error = result.error === undefined ? {} : { error: toldObject(result.error, pod) };
  const line = { type: "result", outcome, text, turns, usage, pod: pod.name, session: pod.session, children: [], ...error };
  return `${JSON.stringify(line)}\n`;
}

function toldObject(error: RunError, pod: { readonly name: string }): ReturnType<typeof errorObject> {
  if (error.kind === "watch") return errorObject(toldError(error.error, pod));
  return { code: error.code, message: error.message, hint: null };
}

/** A lost connection by the name of the Pod: its address says nothing to a person. */
function toldError(error: AppError, pod: { readonly name: string }): AppError {
  if (error.code !== "unavailable") return error;
  return new AppError("unavailable", `the Pod ${shellWord(pod.name)} was lost before its turn ended`, {
    hint: `its session is kept; bring it back: wakeful restore ${shellWord(pod.name)}`,
    cause: error,
  });
}
