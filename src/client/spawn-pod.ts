import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { CALL_DESCRIPTOR, CALL_VARIABLE } from "../base/call-mark.ts";
import { AppError, systemCode } from "../base/errors.ts";
import { randomText } from "../base/ids.ts";
import type { LaunchOrder } from "../protocol/launch.ts";
import type { Environment, Places } from "../registry/places.ts";
import { makePrivateDir } from "../registry/private-dir.ts";

/**
 * The first half of starting a Pod: the process runs when this returns. Apart from `launch-pod` because a command calls it before it
 * loads anything heavy: the process boots meanwhile.
 */
export interface SpawnedPod {
  readonly child: ChildProcess;
  /** False where it is to open a session that must exist: then a `not_found` is about that session. */
  readonly mayBeNew: boolean;
  /** Standard error of the process until it is ready; kept by `launchedPod`. */
  readonly stderrPath: string;
  /** The pipe that carries the `LaunchReport`. */
  readonly report: Readable;
  /** Resolves with the reason when the process is gone and `report` is read to its end. Watched from the start: it may die at once. */
  readonly ended: Promise<string>;
}

/** Inherited by what a Pod runs, never by another Pod: it would pass itself off as the one that started it. */
const NOT_INHERITED = new Set(["WAKEFUL_POD", "WAKEFUL_CHAIN", CALL_VARIABLE]);

/**
 * Starts a Pod process for `order`: detached, in `order.cwd`, with its standard error in a file under `<data>/logs` (a pipe to the
 * starter would break when the starter ends). Throws `not_found` for a directory that is gone (field report B96), `configuration` when
 * the folder cannot be made, `storage_failed` when the file cannot. The caller hands the result to `launchedPod`.
 */
export function spawnPod(
  order: LaunchOrder,
  options: { readonly places: Pick<Places, "data">; readonly env: Environment },
): SpawnedPod {
  if (!statSync(order.cwd, { throwIfNoEntry: false })?.isDirectory()) {
    throw new AppError("not_found", `the working directory ${order.cwd} is not there`, {
      hint: "make it, or start in another one",
    });
  }
  const { path: stderrPath, fd } = openStderr(join(options.places.data, "logs"));
  try {
    const env = Object.fromEntries(Object.entries(options.env).filter(([name]) => !NOT_INHERITED.has(name)));
    const stdio: StdioOptions = ["pipe", fd, fd, "pipe"];
    // Started from a Pod's shell: without the marks of that call, or it would end with it.
    if (options.env[CALL_VARIABLE] !== undefined) stdio[CALL_DESCRIPTOR] = "ignore";
    const child = spawn(process.execPath, [podEntry()], {
      cwd: order.cwd,
      detached: true, // A session and process group of its own: it survives us and our terminal.
      env,
      stdio,
    });
    const ended = new Promise<string>((resolve) => {
      child.once("error", (thrown) => resolve(`it cannot be started: ${thrown.message}`));
      child.once("close", (code, killedBy) => resolve(killedBy ?? `exit code ${code}`));
    });
    // Out of descriptors or processes, Node gives a child without any pipe, and says why only later.
    const stdios: readonly unknown[] | undefined = child.stdio;
    const report = stdios === undefined ? undefined : child.stdio[3];
    if (child.stdin === null || report === null || report === undefined || !("read" in report)) {
      throw new AppError("unavailable", "the Pod process cannot be started: no more files can be opened or processes started", {
        hint: "raise the limits (ulimit -n, ulimit -u), or end other programs",
      });
    }
    // A process that dies at once closes its input first: its report or exit says why.
    child.stdin.on("error", () => undefined);
    child.stdin.end(JSON.stringify(order));
    const mayBeNew = order.open.kind === "new" || order.open.kind === "named";
    return { child, mayBeNew, stderrPath, report, ended };
  } catch (thrown) {
    rmSync(stderrPath, { force: true });
    throw thrown;
  } finally {
    closeSync(fd);
  }
}

/** Ends a spawned process that nobody will wait for; nothing of it stays. */
export function discardPod(pod: SpawnedPod): void {
  pod.child.kill("SIGKILL");
  pod.child.unref();
  pod.report.destroy();
  rmSync(pod.stderrPath, { force: true });
}

function openStderr(directory: string): { readonly path: string; readonly fd: number } {
  const path = join(directory, `${randomText(12)}.stderr`);
  // Not `mkdir` with `recursive`: where a parent cannot be made although it seems missing (in /proc), Node's never returns.
  makePrivateDir(directory);
  try {
    return { path, fd: openSync(path, "ax", 0o600) };
  } catch (thrown) {
    throw new AppError("storage_failed", `cannot write ${path} (${systemCode(thrown) ?? "error"})`, {
      hint: "check WAKEFUL_HOME and the disk",
      cause: thrown,
    });
  }
}

/** The program of a Pod: `pod.js` beside the bundle, or its source when we run from sources. */
function podEntry(): string {
  const candidates = import.meta.url.endsWith(".ts") ? ["../pod/main.ts"] : ["./pod.js", "../pod.js"];
  const paths = candidates.map((candidate) => fileURLToPath(new URL(candidate, import.meta.url)));
  const found = paths.find((path) => existsSync(path));
  if (found === undefined)
    throw new AppError("internal", `the Pod program is missing: ${paths.join(", ")}`, { hint: "install Wakeful again" });
  return found;
}
