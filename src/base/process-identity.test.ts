import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it, vi } from "vitest";
import {
  currentBootId,
  currentProcess,
  isProcessAlive,
  isProcessGroupAlive,
  isSameProcess,
  parseProcStat,
  processStartTime,
} from "./process-identity.ts";

describe("process identity", () => {
  it("of this process is alive and equal to itself", () => {
    const self = currentProcess();
    expect(self.pid).toBe(process.pid);
    expect(self.startTime).not.toBe("");
    expect(self.bootId).not.toBe("");
    expect(isProcessAlive(self)).toBe(true);
    expect(isSameProcess(self, { ...self })).toBe(true);
  });

  it("does not take a reused pid or another boot for the same process (B26, B99)", () => {
    const self = currentProcess();
    expect(isProcessAlive({ ...self, startTime: "1" })).toBe(false);
    expect(isProcessAlive({ ...self, bootId: "another-boot" })).toBe(false);
    expect(isSameProcess(self, { ...self, startTime: "1" })).toBe(false);
  });

  it("of a zombie is dead although its pid still answers", async () => {
    const parent = spawn("/bin/sh", ["-c", "sleep 0 & echo $!; exec sleep 60"], { stdio: ["ignore", "pipe", "ignore"] });
    try {
      const [line] = await once(parent.stdout, "data");
      const pid = Number(String(line));
      const identity = { bootId: currentBootId(), pid, startTime: "" };
      await vi.waitFor(() => expect(isProcessAlive(identity)).toBe(false), { timeout: 5000, interval: 10 });
      expect(process.kill(pid, 0)).toBe(true);
    } finally {
      parent.kill("SIGKILL");
    }
  });

  it("of a process group ends with its last living member", async () => {
    const leader = spawn("/bin/sh", ["-c", "sleep 60 & echo; wait"], { stdio: ["ignore", "pipe", "ignore"], detached: true });
    const group = leader.pid ?? 0;
    try {
      await once(leader.stdout, "data");
      const exited = once(leader, "exit");
      leader.kill("SIGKILL");
      await exited;
      expect(isProcessGroupAlive(group)).toBe(true);
    } finally {
      process.kill(-group, "SIGKILL");
    }
    await vi.waitFor(() => expect(isProcessGroupAlive(group)).toBe(false), { timeout: 5000, interval: 10 });
    for (const impossible of [0, 1, -5, 2 ** 40]) expect(isProcessGroupAlive(impossible)).toBe(false);
  });

  it("of a killed child is dead", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
    const exited = once(child, "exit");
    const pid = child.pid ?? 0;
    const identity = { bootId: currentBootId(), pid, startTime: processStartTime(pid) ?? "" };
    expect(identity.startTime).not.toBe("");
    expect(isProcessAlive(identity)).toBe(true);
    child.kill("SIGKILL");
    await exited;
    expect(isProcessAlive(identity)).toBe(false);
    expect(processStartTime(pid)).toBeUndefined();
  });

  it.each([0, -1, 1.5, Number.NaN, 2 ** 40])("of the impossible pid %s is dead", (pid) => {
    expect(isProcessAlive({ ...currentProcess(), pid })).toBe(false);
  });

  it("reads a stat line whose command name holds spaces and parentheses", () => {
    const rest = `S ${Array.from({ length: 18 }, (_, i) => i).join(" ")} 4711 5 6`;
    expect(parseProcStat(`12 (a) b) (c) ${rest}`)).toEqual({ kind: "running", startTime: "4711", group: 1 });
    expect(parseProcStat(`12 (x) ${rest.replace("S", "Z")}`)).toEqual({ kind: "zombie" });
    expect(parseProcStat("nonsense")).toBeUndefined();
  });
});
