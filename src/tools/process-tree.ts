import { CALL_DESCRIPTOR, CALL_VARIABLE } from "../base/call-mark.ts";
import { systemClock } from "../base/clock.ts";
import { randomText } from "../base/ids.ts";
import { currentBootId, currentProcess, isProcessAlive } from "../base/process-identity.ts";
import { groupExists, type ScannedProcess, scanProcesses, send } from "./process-scan.ts";

/**
 * Ends everything a tool call started (field reports B102, B110): the process group, and what left it (`setsid`), found by the mark that
 * every process of the call inherits in its environment, or by a descriptor that it inherits. TERM first, KILL after a grace.
 * Where there is no `/proc` (macOS) only the process group is ended.
 */

/** What a program that was asked to end may take to clean up; `trap '' TERM` gets no longer (B110). */
export const GRACE_MS = 2000;

/** How long KILL may take until a process is given up as stuck in the kernel. */
const KILL_WAIT_MS = 2000;
const POLL_MS = 20;

/** What identifies the processes of one call. */
export interface ProcessTree {
  readonly processGroup: number;
  readonly mark: string;
  /** What `CALL_DESCRIPTOR` leads to in every process of the call, where it could be learned. */
  readonly descriptor: string | undefined;
}

/** A mark for one call of this process. */
export function newCallMark(): string {
  const { pid, startTime } = currentProcess();
  return `${pid}/${startTime}/${randomText(16)}`;
}

/** Ends a call of this process.  */
export async function endTree(tree: ProcessTree, graceMs = GRACE_MS): Promise<Ended> {
  const isMember = (process: ScannedProcess) =>
    process.processGroup === tree.processGroup ||
    process.mark === tree.mark ||
    (tree.descriptor !== undefined && process.descriptor === tree.descriptor);
  // First of all, before looking around: most often this is all there is.
  const wasThere = send(-tree.processGroup, "SIGTERM") === "sent";
  const result = await end(isMember, { graceMs, termed: tree.processGroup, processGroup: tree.processGroup });
  return { ...result, ended: Math.max(result.ended, wasThere ? 1 : 0) };
}

/** How it went. */
export interface Ended {
  /** Processes that were there and are gone; at least that many, as some end before they are counted. */
  readonly ended: number;
  /** Processes that not even KILL ended: stuck in the kernel, or somebody else's by now. */
  readonly resisting: number;
}

/**
 * Ends what a Pod that died left running in a process group, and what left the group from there. Safe against numbers that were given again:
 * a process is only touched if its environment proves that a tool call of a Pod that is no longer alive started it. Processes of the user,
 * and calls of living Pods, are never touched. Where that cannot be proven (no `/proc`) nothing is done.
 */
export async function endProcessGroup(processGroup: number, options: { readonly graceMs?: number } = {}): Promise<Ended> {
  const orphans = (await scan()).filter((process) => isOrphan(process.mark));
  const marks = new Set(orphans.filter((process) => process.processGroup === processGroup).map((process) => process.mark));
  if (marks.size === 0) return { ended: 0, resisting: 0 };
  return end((process) => process.mark !== undefined && marks.has(process.mark), { graceMs: options.graceMs ?? GRACE_MS });
}

/**
 * Ends everything that tool calls of one dead Pod process left running, whatever group it is in. The same proof as
 * {@link endProcessGroup}; for a start after a crash, when groups may be gone and `setsid` processes not.
 */
export async function endCallsOfProcess(pid: number, options: { readonly graceMs?: number } = {}): Promise<Ended> {
  const isTheirs = (process: ScannedProcess) => process.mark?.startsWith(`${pid}/`) === true && isOrphan(process.mark);
  if (!(await scan()).some(isTheirs)) return { ended: 0, resisting: 0 };
  return end(isTheirs, { graceMs: options.graceMs ?? GRACE_MS });
}

/** True for a mark whose Pod process is dead. */
function isOrphan(mark: string | undefined): boolean {
  const [pid, startTime, rest] = mark?.split("/") ?? [];
  if (pid === undefined || !/^\d+$/.test(pid) || startTime === undefined || rest === undefined) return false;
  return !isProcessAlive({ bootId: currentBootId(), pid: Number(pid), startTime });
}

interface EndOptions {
  readonly graceMs: number;
  /** Group that got its TERM already. */
  readonly termed?: number;
  /** Group whose number is known to be ours now: signalled as a whole. */
  readonly processGroup?: number;
}

async function end(
  isMember: (process: ScannedProcess) => boolean,
  { graceMs, termed, processGroup }: EndOptions,
): Promise<Ended> {
  const seen = new Set<number>();
  const asked = new Set<number>();
  const members = async () => {
    const found = (await scan()).filter(isMember);
    for (const { pid } of found) seen.add(pid);
    return found;
  };
  // Each round also meets what was started since the last one.
  const deadline = systemClock.nowMs() + graceMs;
  let left = await members();
  while (isAnyLeft(left, processGroup) && systemClock.nowMs() < deadline) {
    for (const { pid, processGroup: group } of left) {
      if (group !== termed && !asked.has(pid)) send(pid, "SIGTERM");
      asked.add(pid);
    }
    await systemClock.sleep(POLL_MS);
    left = await members();
  }
  const killDeadline = systemClock.nowMs() + KILL_WAIT_MS;
  while (isAnyLeft(left, processGroup) && systemClock.nowMs() < killDeadline) {
    if (processGroup !== undefined) send(-processGroup, "SIGKILL");
    for (const { pid } of left) send(pid, "SIGKILL");
    await systemClock.sleep(POLL_MS);
    left = await members();
  }
  return { ended: seen.size - left.length, resisting: left.length };
}

/** Without `/proc` the group is all we can ask. With it, a group of zombies (nobody reaps in some containers) counts as gone. */
function isAnyLeft(left: readonly ScannedProcess[], processGroup: number | undefined): boolean {
  if (process.platform === "linux") return left.length > 0;
  return processGroup !== undefined && groupExists(processGroup);
}

function scan(): Promise<readonly ScannedProcess[]> {
  return scanProcesses({ variable: CALL_VARIABLE, descriptor: CALL_DESCRIPTOR });
}
