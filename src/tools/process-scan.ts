import { readdir, readFile, readlink } from "node:fs/promises";
import { systemCode } from "../base/errors.ts";

/** A living process as `/proc` shows it. */
export interface ScannedProcess {
  readonly pid: number;
  readonly processGroup: number;
  /** Value of the asked environment variable at its start; undefined when it has none or may not be seen. */
  readonly mark: string | undefined;
  /** What the asked file descriptor leads to, such as `socket:[123]`. */
  readonly descriptor: string | undefined;
}

/** Processes looked at together: enough to keep the thread pool busy. */
const BATCH = 32;

/**
 * All living processes that can be seen; zombies are not alive. Empty where there is no `/proc` (macOS). Costs some milliseconds: not for a
 * path that every call takes.
 */
export async function scanProcesses(ask: {
  readonly variable: string;
  readonly descriptor: number;
}): Promise<readonly ScannedProcess[]> {
  let names: readonly string[];
  try {
    names = await readdir("/proc");
  } catch {
    return [];
  }
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const found: ScannedProcess[] = [];
  for (let i = 0; i < pids.length; i += BATCH) {
    const batch = await Promise.all(pids.slice(i, i + BATCH).map((pid) => look(pid, ask)));
    for (const process of batch) if (process !== undefined) found.push(process);
  }
  return found;
}

async function look(
  pid: number,
  ask: { readonly variable: string; readonly descriptor: number },
): Promise<ScannedProcess | undefined> {
  if (pid === process.pid) return undefined;
  const [stat, environ, descriptor] = await Promise.all([
    readText(`/proc/${pid}/stat`),
    readText(`/proc/${pid}/environ`),
    linkTarget(`/proc/${pid}/fd/${ask.descriptor}`),
  ]);
  if (stat === undefined) return undefined;
  // The command name stands in parentheses and may hold anything: count from the last one. Then: state, parent, group.
  const [state, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (state === "Z" || state === "X" || group === undefined) return undefined;
  return { pid, processGroup: Number(group), mark: variableIn(environ ?? "", ask.variable), descriptor };
}

function variableIn(environ: string, variable: string): string | undefined {
  const start = `${variable}=`;
  return environ
    .split("\0")
    .find((entry) => entry.startsWith(start))
    ?.slice(start.length);
}

/** Undefined for a process that ended meanwhile or belongs to somebody else. */
async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "latin1");
  } catch {
    return undefined;
  }
}

async function linkTarget(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch {
    return undefined;
  }
}

/** True while the group has a member, a zombie included. One system call. */
export function groupExists(processGroup: number): boolean {
  return send(-processGroup, 0) !== "gone";
}

/** Sends a signal to a process, or to a group when `target` is negative. Nobody there is a normal day. */
export function send(target: number, signal: NodeJS.Signals | 0): "sent" | "gone" | "forbidden" {
  try {
    process.kill(target, signal);
    return "sent";
  } catch (thrown) {
    return systemCode(thrown) === "ESRCH" ? "gone" : "forbidden";
  }
}
