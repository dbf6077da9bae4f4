import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { LaunchReport } from "../../src/protocol/launch.ts";
import { startPod } from "../support/pod-harness.ts";
import type { TestHome } from "../support/pod-harness-home.ts";
import { ALWAYS } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

/** Hash of every log below the data folder. */
function logHashes(home: TestHome): Record<string, string> {
  const sessions = join(home.data, "sessions");
  const names = existsSync(sessions) ? readdirSync(sessions) : [];
  return Object.fromEntries(
    names.map((name) => [
      name,
      createHash("sha256")
        .update(readFileSync(join(sessions, name, "000001.jsonl")))
        .digest("hex"),
    ]),
  );
}

function refusal(report: LaunchReport): { readonly code: string; readonly message: string } {
  if (report.ok) throw new Error(`it started: ${JSON.stringify(report)}`);
  return report;
}

describe("one session", () => {
  verifies(["I3"], "has one owner, however many start at once over what a killed Pod left (B87, B98)", async () => {
    await using pod = await startPod({ script: ALWAYS, name: "contested" });
    for (let round = 1; round <= 3; round++) {
      await pod.notify(`round ${round}`);
      await pod.kill();
      const starts = await Promise.all(
        Array.from({ length: 10 }, () => pod.home.launch({ cwd: pod.cwd, open: { kind: "restore", target: pod.session } })),
      );
      const winners = starts.filter((start) => start.report.ok);
      expect(winners).toHaveLength(1);
      for (const loser of starts.filter((start) => !start.report.ok)) {
        expect(await loser.exited).toBe(1);
        expect(refusal(loser.report)).toMatchObject({ code: expect.stringMatching(/busy|already_exists/) });
        expect(refusal(loser.report).message).toMatch(new RegExp(`process ${winners[0]?.pid}|another process`));
      }
      // The socket on disk is the winner's.
      expect((await pod.status()).state).not.toBe("stopped");
      const [winner] = winners;
      winner?.child.kill("SIGKILL");
      await winner?.exited;
      await pod.restore();
    }
    await pod.settled();
    await pod.verify();
  });

  it("by another road to its folder is the same session (B87)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    const link = join(pod.home.root, "link");
    symlinkSync(pod.home.data, link);
    const other = await pod.home.launch(
      { cwd: pod.cwd, open: { kind: "restore", target: pod.session } },
      { env: { WAKEFUL_HOME: link } },
    );
    expect(refusal(other.report).code).toMatch(/busy|already_exists/);
    await pod.verify();
  });

  it("and one name: a second Pod of a living one's name is refused and leaves nothing", async () => {
    await using pod = await startPod({ script: ALWAYS, name: "taken" });
    const sessions = readdirSync(join(pod.home.data, "sessions"));
    mkdirSync(join(pod.home.root, "elsewhere"));
    const script = `script:${join(pod.home.root, "taken.yaml")}`;
    const second = await pod.home.launch({
      cwd: join(pod.home.root, "elsewhere"),
      open: { kind: "new", name: "taken" },
      model: script,
    });
    expect(refusal(second.report)).toMatchObject({
      code: "already_exists",
      message: expect.stringContaining(`process ${pod.pid}`),
    });
    expect(readdirSync(join(pod.home.data, "sessions"))).toEqual(sessions);
    expect((await pod.status()).state).toBe("idle");
  });

  verifies(
    ["I9"],
    "holds its write scope alone: an overlapping one is refused naming the holder, and comes back when it dies (B120)",
    async () => {
      await using pod = await startPod({ script: ALWAYS, name: "holder" });
      const script = `script:${join(pod.home.root, "holder.yaml")}`;
      mkdirSync(join(pod.cwd, "below"));
      const wanted = (scope: string[]) =>
        pod.home.launch({ cwd: pod.cwd, open: { kind: "new", name: "second" }, model: script, scope });
      for (const scope of [[pod.cwd], [join(pod.cwd, "below")], [pod.home.root]]) {
        expect(refusal((await wanted(scope)).report)).toMatchObject({ code: "busy", message: expect.stringContaining("holder") });
      }
      const reader = await wanted([`${pod.cwd}:read`]);
      expect(reader.report.ok).toBe(true);
      reader.child.kill("SIGTERM");
      await reader.exited;
      await pod.kill();
      const heir = await pod.home.launch({ cwd: pod.cwd, open: { kind: "new", name: "heir" }, model: script });
      expect(heir.report.ok).toBe(true);
    },
  );
});

describe("restoring what cannot be restored changes nothing", () => {
  it("with an unknown, cut, foreign or otherwise spelt id, or without a key (B85)", async () => {
    await using pod = await startPod({ script: ALWAYS, name: "keeper" });
    await pod.run("hello");
    await pod.settled();
    await pod.terminate();
    const before = logHashes(pod.home);
    const targets = [
      "nope",
      pod.session.slice(0, -1),
      `../sessions/${pod.session}`,
      pod.session.toUpperCase(),
      "KEEPER",
      "keepe",
      "",
      "../../etc/passwd",
    ];
    for (const target of targets) {
      const start = await pod.home.launch({ cwd: pod.cwd, open: { kind: "restore", target } });
      expect(refusal(start.report).code, target).toMatch(/not_found|invalid_input/);
      expect(logHashes(pod.home)).toEqual(before);
    }
    writeFileSync(join(pod.home.home, ".config", "wakeful", "config.toml"), "[model\nbroken");
    const broken = await pod.home.launch({ cwd: pod.cwd, open: { kind: "restore", target: pod.session } });
    expect(refusal(broken.report)).toMatchObject({ code: "configuration", message: expect.stringContaining("config.toml") });
    expect(logHashes(pod.home)).toEqual(before);
  });

  verifies(["L9", "L7"], "a damaged log is refused with file and line, and stays as it was (B81, B84)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    for (let turn = 1; turn <= 5; turn++) {
      await pod.run(`turn ${turn}`);
      await pod.waitForEntries("turn_ended", turn);
    }
    await pod.terminate();
    const whole = readFileSync(pod.logFile);
    const lines = whole.toString("utf8").split("\n");
    const flip = (at: number) => {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      return bytes;
    };
    const cases: readonly (readonly [string, Buffer, RegExp])[] = [
      ["a byte in the middle", flip(Math.floor(whole.length / 2)), /line \d+ .*changed/],
      ["a byte of the first line", flip(40), /line 1 .*changed/],
      ["a line gone", Buffer.from(lines.toSpliced(4, 1).join("\n")), /line 5 .*missing/],
      ["two lines swapped", Buffer.from([...lines.slice(0, 4), lines[5], lines[4], ...lines.slice(6)].join("\n")), /line 5/],
      ["a line twice", Buffer.from(lines.toSpliced(4, 0, lines[4] ?? "").join("\n")), /line 6/],
      ["nothing", Buffer.alloc(0), /no entry/],
      ["an empty line", Buffer.from("\n"), /line 1/],
    ];
    for (const [title, bytes, words] of cases) {
      writeFileSync(pod.logFile, bytes);
      const start = await pod.home.launch({ cwd: pod.cwd, open: { kind: "restore", target: pod.session } });
      expect(refusal(start.report).code, title).toBe("damaged");
      expect(refusal(start.report).message, title).toMatch(words);
      expect(refusal(start.report).message, title).toContain(pod.logFile);
      expect(readFileSync(pod.logFile).equals(bytes), title).toBe(true);
      const list = await pod.cli("ps", "--all");
      expect(list.stdout, title).toContain(pod.name);
    }
    writeFileSync(pod.logFile, whole);
    await pod.restore();
    await pod.verify();
  });

  verifies(["L9", "S8"], "but a torn last line is cut, said, and nothing else is lost (B83)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await pod.run("hello");
    await pod.settled();
    await pod.terminate();
    const whole = readFileSync(pod.logFile);
    const lastStart = whole.lastIndexOf("\n", whole.length - 2) + 1;
    for (const cut of [lastStart + 1, lastStart + 20, whole.length - 30, whole.length - 2]) {
      writeFileSync(pod.logFile, whole.subarray(0, cut));
      await pod.restore();
      await using client = await pod.client();
      expect(client.snapshot.alerts.map((alert) => alert.code)).toContain("tail_repaired");
      expect(readFileSync(pod.logFile).equals(whole.subarray(0, lastStart))).toBe(true);
      await pod.run("again");
      await client.event("turn_ended");
      await pod.verify();
      await pod.terminate();
    }
    // Only the line break is missing: nothing is lost.
    writeFileSync(pod.logFile, whole.subarray(0, whole.length - 1));
    await pod.restore();
    expect(readFileSync(pod.logFile).equals(whole)).toBe(true);
    await pod.verify();
  });
});

describe("a restored session", () => {
  verifies(["L8", "S4"], "keeps model, effort, scope, tools and prompts, whatever the configuration says now (B63)", async () => {
    await using pod = await startPod({
      script: ALWAYS,
      config: { model: { reasoning: "high", max_output_tokens: 1234 } },
      scope: ["."],
    });
    const [started] = pod.entries("session_started");
    await pod.terminate();
    pod.home.writeConfig({ model: { default: "anthropic/claude-haiku-4-5", reasoning: "low", max_output_tokens: 99 } });
    mkdirSync(join(pod.cwd, ".wakeful", "prompts"), { recursive: true });
    writeFileSync(join(pod.cwd, ".wakeful", "prompts", "system.md"), "Another system prompt.");
    await pod.restore();
    expect(pod.report.notes.join("\n")).toMatch(/keeps its model.*\n.*keeps its reasoning effort high/);
    expect((await pod.status()).model).toBe(started?.config.model);
    await pod.run("hello");
    await pod.settled();
    expect(pod.entries("session_started")).toEqual([started]);
    expect(pod.entries("llm_request").at(-1)?.model).toBe(started?.config.model);
    expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
  });

  verifies(["M-set_config-idle", "M-set_config-running"], "also keeps what set_config changed", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await pod.request("set_config", { reasoning: "low" });
    expect(await pod.refusal("set_config", { model: "nonsense" })).toBe("invalid_input");
    await pod.kill();
    await pod.restore();
    await pod.request("set_config", { reasoning: "low" });
    expect(pod.entries("config_changed").map((entry) => entry.changes)).toEqual([{ reasoning: "low" }]);
  });
});

/** A file system of 2 MiB, or the reason why there is none here. */
function smallDisk(): { readonly path: string; readonly unmount: () => void } | { readonly why: string } {
  const path = mkdtempSync(join(tmpdir(), "wk-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m,mode=0700", "none", path], { stdio: "pipe" });
    return {
      path,
      unmount: () => {
        execFileSync("umount", ["-l", path]);
        rmSync(path, { recursive: true });
      },
    };
  } catch (thrown) {
    rmSync(path, { recursive: true });
    return { why: String(thrown) };
  }
}

const disk = smallDisk();
describe.skipIf("why" in disk)("a full disk (B89)", () => {
  it("refuses inputs, sends nothing that is not logged, and works again with room, without a restart", async () => {
    if ("why" in disk) throw new Error(disk.why);
    try {
      await using pod = await startPod({ script: { otherwise: { say: "ok" } }, env: { WAKEFUL_HOME: disk.path } });
      await pod.run("before");
      await pod.settled();
      const fill = () => {
        for (const size of [256 * 1024, 4096, 512, 1]) {
          for (let n = 0; ; n++) {
            try {
              writeFileSync(join(disk.path, `fill-${size}-${n}`), Buffer.alloc(size, 1));
            } catch {
              break;
            }
          }
        }
      };
      fill();
      const requests = pod.entries("llm_request").length;
      const big = "x".repeat(30_000);
      expect(await pod.refusal("run", { input: [{ kind: "text", text: big }] })).toBe("storage_failed");
      expect(await pod.refusal("notify", { source: "ci", message: big })).toBe("storage_failed");
      expect(pod.entries("llm_request")).toHaveLength(requests);
      await pod.verify();
      for (const name of readdirSync(disk.path)) if (name.startsWith("fill-")) rmSync(join(disk.path, name));
      await pod.run("after");
      await pod.settled();
      expect(pod.entries("turn_ended").at(-1)?.outcome).toBe("completed");
      await pod.verify();
      await pod.kill();
      await pod.restore();
      await pod.verify();
    } finally {
      disk.unmount();
    }
  });
});
