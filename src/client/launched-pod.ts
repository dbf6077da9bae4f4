import { closeSync, fstatSync, openSync, readSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { abortReason } from "../base/clock.ts";
import { AppError, type ErrorCode } from "../base/errors.ts";
import { parseJson } from "../base/json.ts";
import { suffixOf } from "../base/text.ts";
import { type LaunchOrder, LaunchReport } from "../protocol/launch.ts";
import { type Environment, type Places, sessionDir } from "../registry/places.ts";
import { LineDecoder } from "../transport/line-decoder.ts";
import { discardPod, type SpawnedPod, spawnPod } from "./spawn-pod.ts";

/** A Pod that is up. */
export type ReadyPod = Extract<LaunchReport, { readonly ok: true }>;

/** A Pod has this long from its start to its report. */
export const LAUNCH_DEADLINE_MS = 15_000;
const MAX_REPORT_BYTES = 256 * 1024;
const STDERR_TAIL_BYTES = 2048;

/** Starts a Pod and waits until it is ready: `spawnPod`, then `launchedPod`. */
export function launchPod(
  order: LaunchOrder,
  options: { readonly places: Places; readonly env: Environment; readonly signal?: AbortSignal; readonly deadlineMs?: number },
): Promise<ReadyPod> {
  return launchedPod(spawnPod(order, options), options);
}

/**
 * Waits for the report of a spawned Pod; afterwards nothing of it keeps this process alive. Its standard error file moves into its
 * session folder as `pod.stderr` (the former one stays as `pod.stderr.1`).
 *
 * Throws what the Pod reported, or `unavailable` (it ended without a report) and `timed_out` with its last lines of standard error;
 * the process is then gone.
 */
export async function launchedPod(
  pod: SpawnedPod,
  options: { readonly places: Places; readonly signal?: AbortSignal; readonly deadlineMs?: number },
): Promise<ReadyPod> {
  try {
    const report = await reportOf(pod, options);
    if (!report.ok) {
      const code = errorCodeOf(report.code);
      // For a caller `not_found` means that there is no such Pod: a script that is missing is another matter.
      const told = code === "not_found" && pod.mayBeNew ? "configuration" : code;
      throw new AppError(told, report.message, report.hint === undefined ? {} : { hint: report.hint });
    }
    keepStderr(pod.stderrPath, options.places, report.session);
    pod.child.unref();
    return report;
  } catch (thrown) {
    // It never became a Pod anybody knows: nothing of it stays.
    discardPod(pod);
    throw thrown;
  } finally {
    pod.report.destroy();
  }
}

function reportOf(
  pod: SpawnedPod,
  options: { readonly signal?: AbortSignal; readonly deadlineMs?: number },
): Promise<LaunchReport> {
  const { signal, deadlineMs = LAUNCH_DEADLINE_MS } = options;
  return new Promise((resolve, reject) => {
    const decoder = new LineDecoder({ maxBytes: MAX_REPORT_BYTES });
    const fail = (code: ErrorCode, what: string) => reject(new AppError(code, what + stderrTail(pod.stderrPath)));
    const timer = setTimeout(() => fail("timed_out", `the Pod was not ready within ${deadlineMs} ms`), deadlineMs);
    const onAbort = () => reject(abortReason(signal));
    const onLine = (line: string) => {
      const json = parseJson(line);
      const report = LaunchReport.safeParse(json.ok ? json.value : undefined);
      if (report.success) resolve(report.data);
      else fail("internal", `the Pod's report cannot be read: ${z.prettifyError(report.error)}`);
    };
    if (signal?.aborted) onAbort();
    signal?.addEventListener("abort", onAbort, { once: true });
    pod.report.on("data", (chunk: Buffer) => {
      const { lines, error } = decoder.push(chunk);
      const line = lines[0];
      if (line !== undefined) onLine(line);
      else if (error !== undefined) fail("internal", `the Pod's report cannot be read: ${error.message}`);
    });
    pod.ended.then((reason) => fail("unavailable", `the Pod process ended before it was ready (${reason})`), reject);
    pod.report.once("close", () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    });
  });
}

function keepStderr(path: string, places: Places, session: string): void {
  const kept = join(sessionDir(places, session), "pod.stderr");
  try {
    if ((statSync(kept, { throwIfNoEntry: false })?.size ?? 0) > 0) renameSync(kept, `${kept}.1`);
    renameSync(path, kept);
  } catch {
    // Diagnostics only: the Pod runs, and goes on writing to the file where it is.
  }
}

function stderrTail(path: string): string {
  try {
    const fd = openSync(path, "r");
    try {
      const { size } = fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, STDERR_TAIL_BYTES));
      readSync(fd, bytes, 0, bytes.length, size - bytes.length);
      const text = suffixOf(bytes.toString("utf8"), STDERR_TAIL_BYTES).trim();
      return text === "" ? "" : `; its last words: ${text.split("\n").slice(-5).join(" | ")}`;
    } finally {
      closeSync(fd);
    }
  } catch {
    return ""; // Nothing was written, or the file is gone: the reason stands without it.
  }
}

const ERROR_CODES: Readonly<Record<ErrorCode, true>> = {
  invalid_input: true,
  not_found: true,
  forbidden: true,
  already_exists: true,
  busy: true,
  queue_full: true,
  too_large: true,
  storage_failed: true,
  damaged: true,
  unavailable: true,
  timed_out: true,
  cancelled: true,
  configuration: true,
  internal: true,
};

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

function errorCodeOf(code: string): ErrorCode {
  return isErrorCode(code) ? code : "internal";
}
