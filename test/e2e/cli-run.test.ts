import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FakeUser, jsonLines } from "../support/fake-user.ts";
import { waitForChange } from "../support/pod-harness.ts";
import type { CommandResult } from "../support/pod-harness-home.ts";
import { ALWAYS, bash, bashUntil, sayWhen } from "../support/scripts.ts";

const last = (stdout: string) => jsonLines(stdout).at(-1);

/** The rows of `ps`. */
async function podsOf(user: FakeUser, ...more: readonly string[]): Promise<readonly Record<string, unknown>[]> {
  return JSON.parse((await user.wakeful(["ps", "--json", ...more])).stdout);
}

async function started(user: FakeUser, file: string): Promise<void> {
  const path = join(user.home.cwd, `${file}.started`);
  await waitForChange(path, () => existsSync(path) || undefined);
}

describe("run", () => {
  it("streams the answer alone to standard output, and its Pod ends and stays restorable", async () => {
    await using user = new FakeUser();
    const result = await user.wakeful([
      "run",
      "-m",
      user.script({ steps: [{ ...bash("echo x"), say: "I look." }, { say: "It says x." }] }),
      "go",
    ]);
    expect(result).toMatchObject({ code: 0, stdout: "I look.\nIt says x.\n" });
    expect(result.stderr).toContain("> Bash echo x\n");
    expect(await podsOf(user)).toEqual([]);
    expect(await podsOf(user, "--all")).toMatchObject([{ status: "stopped", reason: "run is done", turn: 1 }]);
    const again = await user.wakeful(["run", "-c", "--json", "and now?"]);
    expect(last(again.stdout)).toMatchObject({ type: "result", outcome: "failed", error: { code: "script" } });
    expect(again.code).toBe(1);
  });

  it("with --json closes with the line of type result, also after a failure, a timeout, a stop and a kill", async () => {
    await using user = new FakeUser();
    const done = await user.wakeful(["run", "--json", "-m", user.script(ALWAYS), "x"]);
    expect(done.code).toBe(0);
    expect(last(done.stdout)).toMatchObject({ type: "result", outcome: "completed", text: "Noted.", turns: 1, children: [] });
    expect(last(done.stdout)).not.toHaveProperty("error");

    const slow = user.script({ steps: [bashUntil("go")] });
    const late = await user.wakeful(["run", "--json", "--timeout", "1", "-m", slow, "x"]);
    expect(late.code).toBe(124);
    expect(last(late.stdout)).toMatchObject({ type: "result", outcome: "cancelled" });

    const stopped = user.start(["run", "--json", "-n", "pod", "-m", user.script({ steps: [bashUntil("b")] }), "x"]);
    await started(user, "b");
    expect((await user.wakeful(["stop", "pod"])).code).toBe(0);
    expect(await stopped.exited).toBe(1);
    expect(last(stopped.stdout())).toMatchObject({
      type: "result",
      pod: "pod",
      outcome: expect.stringMatching(/^(cancelled|interrupted)$/),
    });

    const killed = user.start(["run", "--json", "-n", "victim", "-m", user.script({ steps: [bashUntil("c")] }), "x"]);
    await started(user, "c");
    const [{ pid }] = (await podsOf(user)) as [{ pid: number }];
    process.kill(pid, "SIGKILL");
    expect(await killed.exited).toBe(1);
    expect(last(killed.stdout())).toMatchObject({
      type: "result",
      outcome: "interrupted",
      pod: "victim",
      error: { code: "unavailable", message: "the Pod victim was lost before its turn ended" },
    });
  });

  it("at the first Ctrl-C cancels the turn and ends its Pod, and says 130", async () => {
    await using user = new FakeUser();
    const run = user.start(["run", "--json", "-m", user.script({ steps: [bashUntil("go")] }), "x"]);
    await started(user, "go");
    run.child.kill("SIGINT");
    expect(await run.exited).toBe(130);
    expect(last(run.stdout())).toMatchObject({ type: "result", outcome: "cancelled" });
    expect(await podsOf(user)).toEqual([]);
  });

  it("at the second Ctrl-C leaves at once", async () => {
    await using user = new FakeUser();
    const model = user.script({ steps: [bash("trap '' TERM INT; touch go.started; while :; do sleep 0.05; done")] });
    const run = user.start(["run", "-m", model, "x"]);
    await started(user, "go");
    run.child.kill("SIGINT");
    await waitForChange(user.home.cwd, () => run.stderr().includes("Ctrl-C again leaves at once") || undefined);
    run.child.kill("SIGINT");
    expect(await run.exited).toBe(130);
  });

  it("--detach names the Pod, which works on; a second task is refused, or waits its turn", async () => {
    await using user = new FakeUser();
    const model = user.script({ steps: [sayWhen("go", "Done."), { say: "Again." }] });
    const detached = await user.wakeful(["run", "--detach", "-n", "worker", "-m", model, "x"]);
    expect(detached).toMatchObject({ code: 0, stdout: "worker\n" });
    expect(detached.stderr).toContain("wakeful attach worker");
    const busy = await user.wakeful(["send", "worker", "y"]);
    expect(busy).toMatchObject({ code: 4, stdout: "" });
    const queued = user.start(["send", "worker", "y", "--queue", "--wait", "--json"]);
    await queued.said((text) => text.includes('"user_message"'));
    writeFileSync(join(user.home.cwd, "go"), "");
    expect(await queued.exited).toBe(0);
    expect(last(queued.stdout())).toMatchObject({ type: "result", text: "Again.", turns: 1 });
    expect(await podsOf(user)).toMatchObject([{ name: "worker", status: "idle", turn: 2 }]);
  });
});

describe("the Pod of a name", () => {
  it("takes notifications once an id, and gives its output from a place on", async () => {
    await using user = new FakeUser();
    const model = user.script(ALWAYS);
    expect((await user.wakeful(["start", "-n", "pod", "-m", model])).code).toBe(0);
    expect((await user.wakeful(["send", "pod", "--wait", "first"])).stdout).toBe("Noted.\n");
    const once = await user.wakeful(["notify", "pod", "news", "--source", "ci", "--id", "b-512", "--json"]);
    expect(JSON.parse(once.stdout)).toMatchObject({ state: "woke" });
    const again = await user.wakeful(["notify", "pod", "news", "--source", "ci", "--id", "b-512", "--json"]);
    expect(JSON.parse(again.stdout)).toEqual(JSON.parse(once.stdout));
    await user.wakeful(["send", "pod", "--wait", "--queue", "second"]);
    const log = await user.wakeful(["log", "show", "pod", "--json"]);
    expect(jsonLines(log.stdout).filter((line) => line["type"] === "system_items")).toHaveLength(1);
    const all = JSON.parse((await user.wakeful(["output", "pod", "--json"])).stdout);
    const { seq, index } = all.cursor;
    await user.wakeful(["send", "pod", "--wait", "third"]);
    expect((await user.wakeful(["output", "pod", "--since", `${seq}.${index}`])).stdout).toBe("Noted.\n");
    expect((await user.wakeful(["stop", "pod"])).stdout).toBe("pod stopped\n");
    const gone = await user.wakeful(["send", "pod", "x"]);
    expect(gone).toMatchObject({ code: 3, stderr: "wakeful: Pod pod is not running. Bring it back: wakeful restore pod\n" });
    const attached = await user.wakeful(["attach", "pod"], { input: "hello\n" });
    expect(attached.code).toBe(0);
    expect(attached.stdout).toMatch(/Noted\.\n$/);
  });

  it("can have 255 bytes, be Japanese, or need quotes, and every command reaches it (B100)", async () => {
    await using user = new FakeUser({ env: { XDG_RUNTIME_DIR: undefined } });
    const model = user.script(ALWAYS);
    for (const name of ["n".repeat(255), "字".repeat(40), "it's a  pod $x"]) {
      expect(await user.wakeful(["start", "-n", name, "-m", model])).toMatchObject({ code: 0, stdout: `${name}\n` });
      expect(await user.wakeful(["send", name, "--wait", "x"])).toMatchObject({ code: 0, stdout: "Noted.\n" });
      expect(await podsOf(user)).toMatchObject([{ name }]);
      expect(await user.wakeful(["stop", name])).toMatchObject({ code: 0 });
    }
    expect((await user.wakeful(["send", "it's a  pod $x", "x"])).stderr).toContain(`wakeful restore 'it'\\''s a  pod $x'`);
    const long = await user.wakeful(["start", "-n", "n".repeat(256), "-m", model]);
    expect([long.code, long.stderr]).toEqual([2, expect.stringContaining("it has 256 bytes")]);
  });

  it("that is suspended holds up nobody: ps tells, and afterwards it goes on (B70)", async () => {
    await using user = new FakeUser();
    const model = user.script({ otherwise: { say: "Awake." } });
    expect((await user.wakeful(["start", "-n", "sleeper", "-m", model])).code).toBe(0);
    const [{ pid }] = (await podsOf(user)) as [{ pid: number }];
    process.kill(pid, "SIGSTOP");
    let sent: Promise<CommandResult>;
    try {
      expect(await podsOf(user)).toMatchObject([{ name: "sleeper", reason: "does not answer" }]);
      const late = await user.wakeful(["run", "-n", "sleeper", "--timeout", "1", "x"]);
      expect([late.code, late.stdout]).toEqual([124, ""]);
      sent = user.wakeful(["send", "sleeper", "--wait", "--queue", "hello"]);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    expect(await sent).toMatchObject({ code: 0, stdout: expect.stringMatching(/Awake\.\n$/) });
    expect(await podsOf(user)).toMatchObject([{ name: "sleeper", pid, status: "idle" }]);
  });

  it("hands the causal chain of a command's caller on, one hop further, and wakes nobody beyond the limit (B21)", async () => {
    await using user = new FakeUser();
    const program = `${process.execPath} ${join(import.meta.dirname, "../../bin/wakeful.js")}`;
    const model = user.script({ steps: [bash(`${program} notify "$WAKEFUL_POD" again`)], otherwise: { say: "end" } });
    expect((await user.wakeful(["start", "-n", "loop", "-m", model])).code).toBe(0);
    expect((await user.wakeful(["send", "loop", "--wait", "go"])).code).toBe(0);
    const notify = (chain: string) =>
      user
        .wakeful(["notify", "loop", "more", "--json"], { env: { WAKEFUL_CHAIN: chain } })
        .then(({ stdout }) => JSON.parse(stdout));
    expect(await notify("far:3")).toMatchObject({ state: "woke" });
    expect(await notify("far:16")).not.toMatchObject({ state: "woke" });
    await user.wakeful(["send", "loop", "--wait", "--queue", "last"]);
    const entries = jsonLines((await user.wakeful(["log", "show", "loop", "--json"])).stdout);
    const text = (type: string) => JSON.stringify(entries.filter((entry) => entry["type"] === type));
    const first = /"chain":\{"id":"([^"]+)","hops":0\}/.exec(text("turn_started"))?.[1];
    expect(text("system_items")).toContain(`"chain":{"id":"${first}","hops":1}`);
    expect(text("turn_started")).toContain('"chain":{"id":"far","hops":4}');
    expect(text("turn_started")).not.toContain('"hops":17');
  });
});
