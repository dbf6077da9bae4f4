import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { bashTool } from "./bash.ts";
import { scanProcesses } from "./process-scan.ts";
import { call, makeTestContext } from "./test-context.ts";

const linux = process.platform === "linux";

/** Living processes whose command line holds a text. */
async function running(text: string): Promise<readonly number[]> {
  const all = await scanProcesses({ variable: "WAKEFUL_CALL", descriptor: 29 });
  const lines = await Promise.all(all.map(({ pid }) => readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "")));
  return all.filter((_, i) => lines[i]?.includes(text)).map(({ pid }) => pid);
}

/** A number of seconds that no other sleep on the machine has, to find it by. */
const unique = () => `1000.${Math.floor(Math.random() * 1e9)}`;

describe("Bash", () => {
  it("shows both outputs in order, the exit code, and runs in the working directory without input", async () => {
    await using context = await makeTestContext();
    const output = await call(bashTool, { command: "pwd; echo one; echo two >&2; echo three; cat; exit 3" }, context);
    expect(output.shown).toBe(`${context.cwd}\none\ntwo\nthree\n[exit code 3]`);
    expect(output.isError).toBe(true);
    expect(context.groups.size).toBe(0);
  });

  it("says that a quiet command was quiet, and shows syntax errors", async () => {
    await using context = await makeTestContext();
    expect(await call(bashTool, { command: "true" }, context)).toMatchObject({
      shown: "[no output; exit code 0]",
      isError: false,
    });
    expect((await call(bashTool, { command: "if true; then" }, context)).shown).toMatch(/syntax error.*\[exit code 2\]/s);
    expect((await call(bashTool, { command: "kill -9 $$" }, context)).shown).toContain("ended by SIGKILL");
  });

  it("gives programs the context's environment and nothing of our own", async () => {
    await using context = await makeTestContext();
    vi.stubEnv("WAKEFUL_TEST_SECRET", "hidden");
    try {
      const { shown } = await call(bashTool, { command: "env" }, context);
      expect(shown).not.toContain("hidden");
      expect(shown).toContain("WAKEFUL_CALL=");
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it.each(["gone", "a file"])("names the working directory when it is %s (B96)", async (kind) => {
    await using context = await makeTestContext();
    await rm(context.cwd, { recursive: true });
    if (kind === "a file") await writeFile(context.cwd, "");
    const output = await call(bashTool, { command: "touch made" }, context);
    expect(output.isError).toBe(true);
    expect(output.shown).toContain(`The working directory ${context.cwd} `);
    expect(output.shown).toContain("Nothing was run");
  });

  it("refuses a command with NUL and shows NUL in output (B111)", async () => {
    await using context = await makeTestContext();
    expect(await call(bashTool, { command: "touch a\0b" }, context)).toMatchObject({ isError: true });
    expect((await call(bashTool, { command: "printf 'a\\0b'" }, context)).shown).toBe("a\u2400b\n[exit code 0]");
  });

  it("replaces what is not UTF-8 (B113)", async () => {
    await using context = await makeTestContext();
    expect((await call(bashTool, { command: "printf '\\xff\\xfe'" }, context)).shown).toBe("\ufffd\ufffd\n[exit code 0]");
    const noise = await call(bashTool, { command: "head -c 5000 /dev/urandom" }, context);
    expect(noise.shown.isWellFormed()).toBe(true);
    expect(noise.shown).not.toContain("\0");
  });

  it("keeps start and end of long output and says what is left out, in flat memory (B109)", async () => {
    await using context = await makeTestContext();
    const before = process.memoryUsage.rss();
    const output = await call(bashTool, { command: "echo START; yes | head -c 300M; echo END" }, context);
    expect(output.shown.length).toBeLessThanOrEqual(context.limits.outputChars);
    expect(output.shown).toMatch(/^START\ny\n.*\[\.\.\. about 300\.0 MiB left out \.\.\.\].*END\n\[exit code 0\]$/s);
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
  }, 60_000);

  it("cuts a single long line of wide characters between characters", async () => {
    await using context = await makeTestContext();
    const output = await call(bashTool, { command: "yes 日本👩‍👩‍👧 | tr -d '\\n' | head -c 1000000" }, context);
    // head may end inside a character: that one is the output's own.
    expect(output.shown.slice(0, -100)).not.toContain("\ufffd");
    expect(output.shown.length).toBeLessThanOrEqual(context.limits.outputChars);
  });

  it("publishes live output before the command ends", async () => {
    await using context = await makeTestContext();
    const run = bashTool.run({ command: "echo early; while [ ! -e go ]; do sleep 0.02; done" }, context);
    await vi.waitFor(() => expect(context.progress.join("")).toContain("early"), { timeout: 5000 });
    await writeFile(join(context.cwd, "go"), "");
    expect((await run).isError).toBe(false);
  });

  it("ends at its time limit with the output so far", async () => {
    await using context = await makeTestContext();
    const output = await call(bashTool, { command: "echo so far; sleep 100", timeout_s: 1 }, context);
    expect(output).toMatchObject({ isError: true });
    expect(output.shown).toMatch(/^so far\n\[time limit of 1 s reached/);
  });

  it("never runs longer than the session's limit, whatever the model asks", async () => {
    await using context = await makeTestContext();
    const output = await call(
      bashTool,
      { command: "sleep 100", timeout_s: 5000 },
      { ...context, limits: { ...context.limits, bashTimeoutS: 1 } },
    );
    expect(output.shown).toContain("time limit of 1 s reached");
  });

  it("is cancelled at once, and with a trapped TERM after the grace (B110)", async () => {
    await using context = await makeTestContext();
    const seconds = unique();
    const run = call(bashTool, { command: `trap '' TERM INT; echo ready; sleep ${seconds}; sleep ${seconds}` }, context);
    await vi.waitFor(() => expect(context.progress.join("")).toContain("ready"), { timeout: 5000 });
    const [group] = context.groups;
    expect(group).toBeGreaterThan(1);
    const cancelledAt = performance.now();
    context.cancel();
    const output = await run;
    expect(performance.now() - cancelledAt).toBeLessThan(5000);
    expect(output.shown).toContain("ready\n[cancelled");
    expect(context.groups.size).toBe(0);
    if (linux) expect(await running(seconds)).toEqual([]);
  }, 15_000);

  it("does not start when the turn is cancelled already", async () => {
    await using context = await makeTestContext();
    context.cancel();
    expect(await call(bashTool, { command: "touch made" }, context)).toMatchObject({ isError: true });
    expect(existsSync(join(context.cwd, "made"))).toBe(false);
  });
});

describe.runIf(linux)("what a command leaves behind (B102)", () => {
  it("background jobs do not hold the call and end with it", async () => {
    await using context = await makeTestContext();
    const seconds = unique();
    const output = await call(bashTool, { command: `sleep ${seconds} & echo started`, timeout_s: 30 }, context);
    expect(output.shown).toBe("started\n[exit code 0; what it left running in the background was ended]");
    expect(await running(seconds)).toEqual([]);
  });

  it.each([
    ["a background job with closed outputs", (s: string) => `sleep ${s} >/dev/null 2>&1 &`],
    ["a session of its own", (s: string) => `setsid sleep ${s} &`],
    ["a session of its own, all outputs closed", (s: string) => `setsid sleep ${s} </dev/null >/dev/null 2>&1 &`],
    ["a session of its own with an empty environment", (s: string) => `setsid env -i sleep ${s} >/dev/null 2>&1 &`],
    ["a daemon two forks away", (s: string) => `(setsid bash -c 'sleep ${s} & disown' >/dev/null 2>&1 &)`],
    ["one that ignores TERM", (s: string) => `bash -c "trap '' TERM; sleep ${s}; sleep ${s}" >/dev/null 2>&1 & sleep 0.2`],
  ])(
    "ends %s",
    async (_title, command) => {
      await using context = await makeTestContext();
      const seconds = unique();
      // The shell waits until the process is there: it could be ended before it exists otherwise, and the test would prove nothing.
      const wait = `for i in $(seq 250); do pgrep -f '[s]leep ${seconds}' >/dev/null && break; sleep 0.02; done; pgrep -fc '[s]leep ${seconds}'`;
      const output = await call(bashTool, { command: `${command(seconds)}\n${wait}`, timeout_s: 30 }, context);
      expect(output.shown).toMatch(/^[1-9]/);
      expect(await running(seconds)).toEqual([]);
      expect(context.groups.size).toBe(0);
    },
    20_000,
  );

  it("cancel ends the whole tree, setsid included, and nothing else", async () => {
    await using context = await makeTestContext();
    const seconds = unique();
    const bystander = spawn("sleep", [`${seconds}1`], { detached: true, stdio: "ignore" });
    try {
      const run = call(
        bashTool,
        { command: `setsid sleep ${seconds} & sleep ${seconds} & echo ready; sleep ${seconds}` },
        context,
      );
      await vi.waitFor(async () => expect(await running(`sleep\0${seconds}\0`)).toHaveLength(3), { timeout: 5000 });
      context.cancel();
      await run;
      expect(await running(`sleep\0${seconds}\0`)).toEqual([]);
      expect(await running(`sleep\0${seconds}1\0`)).toEqual([bystander.pid]);
    } finally {
      bystander.kill("SIGKILL");
    }
  });
});
