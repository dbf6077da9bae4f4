import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { CALL_VARIABLE } from "../base/call-mark.ts";
import { endCallsOfProcess, endProcessGroup, newCallMark } from "./process-tree.ts";

/** Starts `sleep` as the leader of a group, with a mark. */
function sleeper(mark: string | undefined): ChildProcess & { readonly pid: number } {
  const env = mark === undefined ? {} : { [CALL_VARIABLE]: mark };
  const child = spawn("/bin/sleep", ["1000"], { detached: true, stdio: "ignore", env: { PATH: "/usr/bin:/bin", ...env } });
  const { pid } = child;
  if (pid === undefined) throw new Error("sleep did not start");
  return Object.assign(child, { pid });
}

/** A mark as a Pod that is dead by now would have set it. */
async function markOfDeadProcess(): Promise<{ mark: string; pid: number }> {
  const url = new URL("./process-tree.ts", import.meta.url);
  const script = `import { newCallMark } from ${JSON.stringify(fileURLToPath(url))}; console.log(newCallMark());`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  let mark = "";
  child.stdout.on("data", (chunk) => {
    mark += String(chunk);
  });
  await once(child, "close");
  return { mark: mark.trim(), pid: child.pid ?? 0 };
}

describe.runIf(process.platform === "linux")("what a killed Pod left behind (B102)", () => {
  it("is ended when its mark proves that it was started by a Pod that is dead", async () => {
    const { mark, pid } = await markOfDeadProcess();
    expect(mark.startsWith(`${pid}/`)).toBe(true);
    const left = sleeper(mark);
    const escaped = sleeper(mark);
    const exits = Promise.all([once(left, "exit"), once(escaped, "exit")]);
    expect(await endProcessGroup(left.pid)).toEqual({ ended: 2, resisting: 0 });
    expect(await exits).toEqual([
      [null, "SIGTERM"],
      [null, "SIGTERM"],
    ]);
  });

  it("is found by the dead Pod's pid when only escaped processes are left", async () => {
    const { mark, pid } = await markOfDeadProcess();
    const escaped = sleeper(mark);
    const exit = once(escaped, "exit");
    expect(await endCallsOfProcess(pid)).toEqual({ ended: 1, resisting: 0 });
    await exit;
  });

  it.each([
    ["a process of the user that got the number again", undefined],
    ["a call of a Pod that lives", newCallMark()],
    ["something that only looks like a mark", "12/34"],
  ])("does not touch %s", async (_title, mark) => {
    const other = sleeper(mark);
    try {
      expect(await endProcessGroup(other.pid, { graceMs: 50 })).toEqual({ ended: 0, resisting: 0 });
      expect(await endCallsOfProcess(process.pid, { graceMs: 50 })).toEqual({ ended: 0, resisting: 0 });
      expect(other.exitCode).toBeNull();
      expect(process.kill(other.pid, 0)).toBe(true);
    } finally {
      other.kill("SIGKILL");
      await once(other, "exit");
    }
  });
});
