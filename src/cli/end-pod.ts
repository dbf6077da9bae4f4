import { systemClock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { connect, type PodConnection, resultOf } from "../client/connection.ts";

/** How a Pod ended. */
export type PodEnd = "shutdown" | "terminated";

/**
 * Ends a Pod in order and waits until its process is gone: `shutdown`, and SIGTERM when that does not help within the deadline.
 * Throws `timed_out` when the process is still there after both.
 */
export async function endPod(
  pod: { readonly address: string; readonly pid: number; readonly name: string },
  options: {
    readonly reason: string;
    readonly connection?: PodConnection;
    readonly signal?: AbortSignal;
    readonly deadlineMs?: number;
  },
): Promise<PodEnd> {
  const { deadlineMs = SHUTDOWN_MS } = options;
  const signal = options.signal === undefined ? {} : { signal: options.signal };
  try {
    const connection = options.connection?.isOpen ? options.connection : await connect(pod.address, signal);
    try {
      resultOf(await connection.request("shutdown", { reason: options.reason }, { ...signal, deadlineMs }));
    } finally {
      await connection.close();
    }
  } catch (thrown) {
    // It may have ended before it could answer, or cannot answer any more: what counts is whether the process goes.
    if (!(thrown instanceof AppError) || thrown.code === "cancelled") throw thrown;
  }
  if (await isGone(pod.pid, EXIT_MS, options.signal)) return "shutdown";
  process.kill(pod.pid, "SIGTERM");
  if (await isGone(pod.pid, EXIT_MS, options.signal)) return "terminated";
  throw new AppError("timed_out", `Pod ${pod.name} (process ${pod.pid}) does not end`, {
    hint: `if it was suspended: kill -CONT ${pod.pid}; to end it at once: kill -9 ${pod.pid}`,
  });
}

async function isGone(pid: number, withinMs: number, signal: AbortSignal | undefined): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  for (let waitMs = 2; ; waitMs = Math.min(waitMs * 2, 50)) {
    if (!isThere(pid)) return true;
    if (performance.now() > deadline) return false;
    await systemClock.sleep(waitMs, signal === undefined ? {} : { signal });
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const SHUTDOWN_MS = 15_000;
const EXIT_MS = 5000;
