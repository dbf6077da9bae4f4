import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { currentBootId, isProcessAlive, processStartTime } from "../../src/base/process-identity.ts";
import { startPod } from "../support/pod-harness.ts";
import { TestHome } from "../support/pod-harness-home.ts";
import { bash, bashUntil, sayWhen, untilFile } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

const identityOf = (pid: number) => ({ bootId: currentBootId(), pid, startTime: processStartTime(pid) ?? "gone" });

describe("kill -9", () => {
  verifies(
    ["I5", "N8"],
    "in the middle of two calls: one has its real result, the other says so, and nothing runs twice (B40)",
    async () => {
      await using pod = await startPod({
        script: {
          steps: [
            bash("echo line >> done", `echo line >> half; ${untilFile("never")}`),
            { expect: { last_contains: ["It may or may not have taken effect", "exit code 0"] }, say: "I look what is there." },
          ],
        },
      });
      await pod.run("work");
      await pod.file("never.started");
      await pod.waitForEntries("tool_results");
      await pod.kill();
      await pod.restore();
      await pod.run("go on");
      await pod.waitForEntries("turn_ended", 2);
      expect(pod.entries("turn_ended").map((entry) => entry.outcome)).toEqual(["interrupted", "completed"]);
      expect(await pod.file("done")).toBe("line\n");
      expect(await pod.file("half")).toBe("line\n");
      await pod.verify();
    },
  );

  verifies(["I5"], "while a request is retried runs no tool of before again (B66)", async () => {
    await using pod = await startPod({
      script: {
        steps: [bash("echo x >> f"), { drop: { after: 3, times: 3 }, say: "the follow-up" }],
      },
    });
    await pod.run("work");
    await pod.waitForEntries("turn_ended");
    expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
    expect(pod.entries("llm_request")).toHaveLength(5);
    expect(pod.entries("assistant_items")).toHaveLength(2);
    expect(await pod.file("f")).toBe("x\n");
    await pod.verify();
  });

  verifies(
    ["M-shutdown-running"],
    "leaves processes that the next start ends, and nothing of the user's own (B102)",
    async () => {
      await using pod = await startPod({
        script: {
          steps: [bash("sleep 1000 & echo $! > child; setsid sleep 1000 & echo $! > session; echo $$ > shell; sleep 1000")],
          otherwise: { say: "ok" },
        },
      });
      await pod.run("work");
      await expect
        .poll(() => existsSync(join(pod.cwd, "shell")) && readFileSync(join(pod.cwd, "shell"), "utf8") !== "", {
          timeout: 10_000,
        })
        .toBe(true);
      const pids = await Promise.all(["child", "session", "shell"].map(async (name) => Number(await pod.file(name))));
      const before = pids.map(identityOf);
      expect(before.every(isProcessAlive)).toBe(true);
      // The ledger is told within milliseconds; a Pod that dies before that is another matter.
      await expect.poll(async () => (await pod.home.cli(["ps", "--json"])).stdout, { timeout: 10_000 }).toContain(pod.name);
      await new Promise((resolve) => setTimeout(resolve, 200));
      await pod.kill();
      await pod.restore();
      await expect.poll(() => before.filter(isProcessAlive), { timeout: 10_000 }).toEqual([]);
      expect(isProcessAlive(identityOf(process.pid))).toBe(true);
      await pod.verify();
    },
  );

  verifies(["I4", "L8"], "of a paused Pod: it is paused again, resume runs the calls that never started (B57)", async () => {
    await using pod = await startPod({
      script: {
        steps: [
          {
            call: [
              { tool: "Bash", input: { command: untilFile("a") } },
              { tool: "Bash", input: { command: "echo ran >> b" } },
            ],
          },
          { expect: { last_contains: "done" }, say: "ok" },
        ],
      },
      config: { limits: { parallel_tool_calls: 1 } },
    });
    await pod.run("work");
    await pod.file("a.started");
    const pausing = pod.request("pause", {});
    pod.touch("a");
    await pausing;
    await pod.kill();
    await pod.restore();
    expect(await pod.status()).toMatchObject({ state: "paused", turn: 1 });
    expect(existsSync(join(pod.cwd, "b"))).toBe(false);
    expect(await pod.request("resume", {})).toEqual({ turn: 1 });
    await pod.settled();
    expect(await pod.file("b")).toBe("ran\n");
    expect(pod.entries("turn_ended")).toMatchObject([{ turn: 1, outcome: "completed" }]);
    await pod.verify();
  });

  verifies(
    ["M-cancel-paused", "M-shutdown-paused", "M-pause-paused"],
    "or an orderly end keeps a pause, and cancel ends the paused turn",
    async () => {
      await using pod = await startPod({ script: { steps: [bashUntil("a")], otherwise: { say: "ok" } } });
      await pod.run("work");
      await pod.file("a.started");
      const pausing = pod.request("pause", {});
      pod.touch("a");
      await pausing;
      await pod.request("shutdown", { reason: "for the night" });
      expect(await pod.exited).toBe(0);
      expect(pod.log().at(-1)).toMatchObject({ type: "closed", reason: "for the night" });
      await pod.restore();
      expect((await pod.status()).state).toBe("paused");
      await pod.request("cancel", {});
      expect(await pod.status()).toMatchObject({ state: "idle", last_outcome: "cancelled" });
      expect(await pod.refusal("resume", {})).toBe("not_paused");
      await pod.verify();
    },
  );

  it("never shows a dead Pod as running: not by name, not in the list, not after the runtime folder is gone (B99)", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("never")] } });
    await pod.run("work");
    await pod.file("never.started");
    await pod.kill();
    const living = await pod.cli("ps", "--json");
    expect(living.code).toBe(0);
    expect(living.stdout).not.toContain(pod.session);
    const all = await pod.cli("ps", "--all", "--json");
    expect(all.stdout).toContain(pod.session);
    expect(all.stdout).not.toMatch(/"(status|state)":\s*"running"/);
    rmSync(join(pod.home.root, "run"), { recursive: true });
    expect((await pod.cli("ps", "--json")).stdout).not.toContain(pod.session);
    const sent = await pod.cli("send", pod.name, "hello");
    expect(sent.code).not.toBe(0);
    expect(sent.stderr).toContain("restore");
  });
});

describe("a cancelled call", () => {
  verifies(
    ["M-cancel-running", "I5"],
    "is ended with everything it started, whatever it traps; the Pod lives (B29, B102, B110)",
    async () => {
      await using pod = await startPod({
        script: {
          steps: [
            bash(
              "trap '' TERM INT; sleep 1000 & echo $! > child; setsid sleep 1000 & echo $! > session; echo $$ > shell; while :; do sleep 1; done",
            ),
          ],
          otherwise: { say: "ok" },
        },
      });
      await pod.run("work");
      await expect
        .poll(() => existsSync(join(pod.cwd, "shell")) && readFileSync(join(pod.cwd, "shell"), "utf8") !== "", {
          timeout: 10_000,
        })
        .toBe(true);
      const pids = await Promise.all(["child", "session", "shell"].map(async (name) => Number(await pod.file(name))));
      const before = pids.map(identityOf);
      const begin = performance.now();
      await pod.request("cancel", {});
      expect(performance.now() - begin).toBeLessThan(6500);
      expect(before.filter(isProcessAlive)).toEqual([]);
      expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "cancelled" }]);
      const [result] = pod.entries("tool_results").flatMap((entry) => entry.items);
      expect(result).toMatchObject({ is_error: true, content: expect.stringContaining("cancelled") });
      await pod.run("still there?");
      await pod.waitForEntries("turn_ended", 2);
      expect(pod.entries("turn_ended")[1]?.outcome).toBe("completed");
      await pod.verify();
    },
  );

  it("or a cancelled one-shot run is never told as finished (B29)", async () => {
    await using home = new TestHome();
    writeFileSync(join(home.root, "s.yaml"), JSON.stringify({ steps: [sayWhen("never", "x")] }));
    const run = await home.cli(["run", "-m", `script:${join(home.root, "s.yaml")}`, "--timeout", "1", "go"]);
    expect(run.code).toBe(124);
  });
});

describe("an orderly end", () => {
  verifies(
    ["M-shutdown-running", "M-shutdown-idle", "I5"],
    "by SIGTERM in the middle of a call takes its processes along and is quick",
    async () => {
      await using pod = await startPod({
        script: { steps: [bash("echo $$ > shell; sleep 1000 & sleep 1000")], otherwise: { say: "ok" } },
      });
      await pod.run("work");
      await expect
        .poll(() => existsSync(join(pod.cwd, "shell")) && readFileSync(join(pod.cwd, "shell"), "utf8") !== "", {
          timeout: 10_000,
        })
        .toBe(true);
      const shell = identityOf(Number(await pod.file("shell")));
      await using client = await pod.client();
      const begin = performance.now();
      expect(await pod.terminate()).toBe(0);
      expect(performance.now() - begin).toBeLessThan(5000);
      expect(isProcessAlive(shell)).toBe(false);
      await client.event("shutdown");
      expect(
        pod
          .log()
          .slice(-4)
          .map((entry) => entry.type),
      ).toEqual(["tool_results", "turn_ended", "system_items", "closed"]);
      expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "interrupted" }]);
      expect(existsSync(pod.address.replace(/^unix:/, ""))).toBe(false);
      await pod.restore();
      expect(await pod.status()).toMatchObject({ state: "idle", last_outcome: "interrupted" });
      await pod.verify();
    },
  );
});

describe("what is on disk", () => {
  it("is closed to others, also with an open umask (B95)", async () => {
    await using pod = await startPod({ script: { steps: [bash("true")], otherwise: { say: "ok" } }, umask: "000" });
    await pod.run("work");
    await pod.settled();
    const open: string[] = [];
    const walk = (folder: string) => {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name);
        if ((statSync(path).mode & 0o077) !== 0) open.push(`${path} ${(statSync(path).mode & 0o777).toString(8)}`);
        if (entry.isDirectory()) walk(path);
      }
    };
    expect(statSync(pod.home.data).mode & 0o077).toBe(0);
    walk(pod.home.data);
    walk(join(pod.home.root, "run"));
    expect(open).toEqual([]);
  });
});

describe("a working directory that is gone (B96)", () => {
  verifies(
    ["L8"],
    "fails a command with its name and not the Pod, and does not keep the session from being restored",
    async () => {
      await using pod = await startPod({ script: { steps: [bashUntil("go"), bash("echo hi")], otherwise: { say: "ok" } } });
      await pod.run("work");
      await pod.file("go.started");
      pod.touch("go");
      rmSync(pod.cwd, { recursive: true });
      // The first call never sees its file; it is ended by the cancel.
      await pod.request("cancel", {});
      await pod.run("again");
      await pod.waitForEntries("turn_ended", 2);
      const results = pod.entries("tool_results").flatMap((entry) => entry.items);
      expect(results.at(-1)?.content).toContain(pod.cwd);
      expect(results.at(-1)?.is_error).toBe(true);
      await pod.kill();
      await pod.restore();
      await using client = await pod.client();
      expect([...client.view.blocks].length).toBeGreaterThan(5);
      await pod.kill();
      writeFileSync(pod.cwd, "a file now");
      await pod.restore();
      expect((await pod.status()).state).toBe("idle");
      await pod.verify();
    },
  );
});
