import { closeSync, writeSync } from "node:fs";
import { text } from "node:stream/consumers";
import type * as z from "zod";
import { AppError, toAppError } from "../base/errors.ts";
import { parseJson } from "../base/json.ts";
import { stderrLogger } from "../base/logger.ts";
import { LaunchOrder, type LaunchReport } from "../protocol/launch.ts";
import { launchPod, type RunningPod } from "./launch.ts";

/**
 * The program of a Pod process: one `LaunchOrder` on standard input, one `LaunchReport` line on descriptor 3, then it serves until it
 * is told to end. Exit code 0 after an orderly end, 1 when it never became ready, 5 when its disk gave up. A signal before it is ready
 * ends the launch, and nothing of it stays.
 */

const REPORT_DESCRIPTOR = 3;

// Its standard error is a file: a full disk must not end the Pod through its own warning about it (field report B89).
process.stderr.on("error", () => {});
// It outlives the terminal it was started from.
process.on("SIGHUP", () => {});
// The one who started it may be gone; answers to nobody are a normal day.
process.on("SIGPIPE", () => {});

try {
  const order = await readOrder();
  const launching = new AbortController();
  let pod: RunningPod | undefined;
  const stop = (signal: NodeJS.Signals) => {
    stderrLogger.info(`${signal}: ending in order`);
    if (pod) void pod.end(signal);
    else launching.abort(new AppError("cancelled", `the Pod was told to end (${signal}) before it was ready`));
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  pod = await launchPod(order, process.env, launching.signal);
  report(pod.report);
  process.exit(await pod.ended);
} catch (thrown) {
  const error = toAppError(thrown);
  if (error.code === "internal") stderrLogger.warn(error.stack ?? error.message);
  report({ ok: false, code: error.code, message: error.message, ...(error.hint === undefined ? {} : { hint: error.hint }) });
  process.exit(1);
}

async function readOrder(): Promise<LaunchOrder & z.output<typeof LaunchOrder>> {
  const json = parseJson(await text(process.stdin));
  const order = LaunchOrder.safeParse(json.ok ? json.value : undefined);
  if (order.success) return order.data;
  throw new AppError("invalid_input", "standard input holds no launch order", { hint: "a Pod is started by `wakeful start`" });
}

function report(line: LaunchReport): void {
  try {
    writeSync(REPORT_DESCRIPTOR, `${JSON.stringify(line)}\n`);
    closeSync(REPORT_DESCRIPTOR);
  } catch {
    // The starter is gone or never listened; the Pod is found through the registry.
  }
}
