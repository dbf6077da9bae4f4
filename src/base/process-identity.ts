import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { systemCode } from "./errors.ts";

/**
 * Names one process for ever. A pid alone proves nothing: it is given again after the process died, and after a reboot at once
 * (field reports B26, B99). All three together are never given twice.
 */
export interface ProcessIdentity {
  /** Names one boot of the machine. */
  readonly bootId: string;
  readonly pid: number;
  /** When the process started, in the system's own notation: only good for comparing. Empty where the system does not tell. */
  readonly startTime: string;
}

/** What the system says about a pid now: `unknown` where it says that the process exists and nothing more. */
type ProcessState =
  | { readonly kind: "gone" }
  | { readonly kind: "zombie" }
  | { readonly kind: "running"; readonly startTime: string; readonly group?: number }
  | { readonly kind: "unknown" };

let cachedBootId: string | undefined;
let cachedSelf: ProcessIdentity | undefined;

/** Identity of the process this code runs in. */
export function currentProcess(): ProcessIdentity {
  cachedSelf ??= { bootId: currentBootId(), pid: process.pid, startTime: processStartTime(process.pid) ?? "" };
  return cachedSelf;
}

/** Names this boot of the machine; the same for every process until the next boot. Empty where the system does not tell. */
export function currentBootId(): string {
  cachedBootId ??= readBootId();
  return cachedBootId;
}

/** When the living process `pid` started (see {@link ProcessIdentity.startTime}); undefined when there is none or nothing is known. */
export function processStartTime(pid: number): string | undefined {
  const state = inspect(pid);
  return state.kind === "running" ? state.startTime : undefined;
}

/** True when the process of this identity still runs, judged from the system and from nothing stored. A zombie does not run. */
export function isProcessAlive(identity: ProcessIdentity): boolean {
  if (identity.bootId !== currentBootId()) return false;
  const state = inspect(identity.pid);
  switch (state.kind) {
    case "gone":
    case "zombie":
      return false;
    case "unknown":
      return true;
    case "running":
      // A start time that was not known when it was written down cannot prove a difference.
      return identity.startTime === "" || state.startTime === identity.startTime;
  }
}

/** True when both name the same process of the same boot. */
export function isSameProcess(a: ProcessIdentity, b: ProcessIdentity): boolean {
  return a.bootId === b.bootId && a.pid === b.pid && a.startTime === b.startTime;
}

/** True when a process of this group still runs. Zombies do not count: where nobody reaps orphans, they stay for ever. */
export function isProcessGroupAlive(group: number): boolean {
  if (!Number.isSafeInteger(group) || group <= 1 || !exists(-group)) return false;
  if (process.platform !== "linux") return true;
  let pids: readonly string[];
  try {
    pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  } catch {
    return true; // No /proc: the signal's answer must do.
  }
  return pids.some((pid) => {
    const state = inspectProc(Number(pid));
    return state?.kind === "running" && state.group === group;
  });
}

function inspect(pid: number): ProcessState {
  if (!Number.isSafeInteger(pid) || pid <= 0) return { kind: "gone" };
  if (!exists(pid)) return { kind: "gone" };
  return (process.platform === "linux" ? inspectProc(pid) : inspectPs(pid)) ?? { kind: "unknown" };
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    // EPERM: it exists and belongs to somebody else.
    return systemCode(thrown) === "EPERM";
  }
}

function inspectProc(pid: number): ProcessState | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch (thrown) {
    const code = systemCode(thrown);
    // ESRCH: it ended while we read. ENOENT right after it existed: it ended, or there is no /proc here.
    return code === "ESRCH" || (code === "ENOENT" && !exists(pid)) ? { kind: "gone" } : undefined;
  }
  return parseProcStat(text);
}

/** Reads state (field 3), process group (field 5) and start time (field 22) of a `/proc/<pid>/stat` line; undefined when it is not one. */
export function parseProcStat(text: string): ProcessState | undefined {
  // The command name stands in parentheses and may hold spaces and parentheses itself: count from the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  const startTime = fields[19];
  if (state === undefined || startTime === undefined || !/^\d+$/.test(startTime)) return undefined;
  return state === "Z" || state === "X" ? { kind: "zombie" } : { kind: "running", startTime, group: Number(fields[2]) };
}

function inspectPs(pid: number): ProcessState | undefined {
  const line = runSystemTool("/bin/ps", ["-o", "stat=,lstart=", "-p", String(pid)]);
  const match = line === undefined ? null : /^\s*(\S+)\s+(.+?)\s*$/.exec(line);
  if (match?.[1] === undefined || match[2] === undefined) return exists(pid) ? undefined : { kind: "gone" };
  return match[1].startsWith("Z") ? { kind: "zombie" } : { kind: "running", startTime: match[2] };
}

function readBootId(): string {
  if (process.platform === "linux") {
    try {
      return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    } catch {
      // No /proc (a bare chroot): pid and start time must do.
      return "";
    }
  }
  return runSystemTool("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"])?.trim() ?? "";
}

/** Output of a small system program, by absolute path (PATH may be empty, B107) and in a fixed language and time zone. */
function runSystemTool(file: string, args: readonly string[]): string | undefined {
  try {
    return execFileSync(file, args, {
      encoding: "utf8",
      env: { LC_ALL: "C", TZ: "UTC" },
      stdio: ["ignore", "pipe", "ignore"],
      timeout: 2000,
    });
  } catch {
    // It fails for a process that is gone, and where the program is missing: the caller tells these apart.
    return undefined;
  }
}
