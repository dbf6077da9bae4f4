import { existsSync } from "node:fs";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { findRipgrep, type RipgrepRun, runRipgrep } from "./ripgrep.ts";
import { makeTestContext, type TestContext } from "./test-context.ts";

/** A program in place of ripgrep. */
async function program(context: TestContext, script: string): Promise<RipgrepRun> {
  const binary = join(context.root, "rg");
  await writeFile(binary, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return { binary, args: [], where: { directory: context.cwd }, terminator: 10, timeoutMs: 20_000, context };
}

async function collect(run: RipgrepRun) {
  const records: string[] = [];
  const end = await runRipgrep(run, async (record) => {
    records.push(record.toString("utf8"));
    return "go_on";
  });
  return { records, end };
}

describe("finding ripgrep", () => {
  it("takes the one that came with the package, whatever PATH is (B107)", async () => {
    const found = await findRipgrep(undefined);
    expect(found).toMatch(/ripgrep-[a-z0-9]+-[a-z0-9]+\/bin\/rg$/);
    expect(await findRipgrep("/nonexistent:.")).toBe(found);
  });
});

describe("running ripgrep", () => {
  it("hands over whole records, cuts endless ones and drops what has no end", async () => {
    await using context = await makeTestContext();
    const run = await program(
      context,
      "printf 'a\\n\\nb'; printf 'c\\n'; head -c 50000000 /dev/zero | tr '\\0' x; printf '\\nlast\\nrest'",
    );
    const before = process.memoryUsage.rss();
    const { records, end } = await collect(run);
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
    expect(records.map((record) => record.slice(0, 10))).toEqual(["a", "", "bc", "xxxxxxxxxx", "last"]);
    expect(records[3]?.length).toBeLessThanOrEqual(16 * 1024);
    expect(end).toEqual({ how: "ended", someUnreadable: false });
  });

  it.each<[string, string, object]>([
    ["nothing found", "exit 1", { how: "ended", someUnreadable: false }],
    ["files that could not be read", "exit 2", { how: "ended", someUnreadable: true }],
    ["its complaint", "echo 'rg: bad pattern' >&2; exit 2", { how: "failed", message: "bad pattern" }],
    ["a crash", "kill -SEGV $$", { how: "failed", message: "it was ended by SIGSEGV" }],
  ])("tells %s", async (_title, script, end) => {
    await using context = await makeTestContext();
    expect((await collect(await program(context, script))).end).toEqual(end);
    expect(context.groups.size).toBe(0);
  });

  it("tells that it cannot be started", async () => {
    await using context = await makeTestContext();
    const run = await program(context, "");
    await chmod(run.binary, 0o644);
    expect((await collect(run)).end).toMatchObject({ how: "failed", message: expect.stringContaining("EACCES") });
  });

  it("ends it when enough was found, at the time limit and on cancel, and then nothing of it is left", async () => {
    await using context = await makeTestContext();
    const run = await program(context, `echo $$ > ${context.root}/pid; trap '' TERM INT; echo line; exec sleep 1000`);
    const isRunning = async () => existsSync(`/proc/${(await readFile(join(context.root, "pid"), "utf8")).trim()}`);
    expect(await runRipgrep(run, async () => "stop")).toEqual({ how: "stopped" });
    await vi.waitFor(async () => expect(await isRunning()).toBe(false));
    expect((await collect({ ...run, timeoutMs: 300 })).end).toEqual({ how: "timed_out" });
    await vi.waitFor(async () => expect(await isRunning()).toBe(false));
    const cancelled = runRipgrep(run, async () => {
      context.cancel();
      return "go_on";
    });
    expect(await cancelled).toEqual({ how: "cancelled" });
    await vi.waitFor(async () => expect(await isRunning()).toBe(false));
    expect(context.groups.size).toBe(0);
    expect(await runRipgrep(run, async () => "go_on")).toEqual({ how: "cancelled" });
  });

  it("has it wait while a record is worked on", async () => {
    await using context = await makeTestContext();
    const run = await program(context, "yes | head -c 400000000; echo done > finished");
    const before = process.memoryUsage.rss();
    let seen = 0;
    const end = await runRipgrep(run, async () => {
      seen++;
      if (seen === 1) await new Promise((resolve) => setTimeout(resolve, 200));
      return seen === 10 ? "stop" : "go_on";
    });
    expect(end).toEqual({ how: "stopped" });
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
    expect(existsSync(join(context.cwd, "finished"))).toBe(false);
  });
});
