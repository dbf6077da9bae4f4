import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isOwned, takeOwnerLock } from "./owner-lock.ts";
import { STAY, startProcess, testFolder } from "./test-support.ts";

const TAKE = `
  import { isOwned, takeOwnerLock } from "$URLowner-lock.ts";
  const result = await takeOwnerLock(args.folder, { waitMs: args.waitMs ?? 0 });
  say(result.kind === "taken" ? { kind: "taken" } : result);
`;

function sessionFolder(root: string): string {
  const folder = join(root, "ses_1");
  mkdirSync(folder, { mode: 0o700 });
  return folder;
}

describe("the owner lock", () => {
  it("is held by one process until that is killed, also when its memory was collected and others looked", async () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    const collect = `import { setFlagsFromString } from "node:v8"; import { runInNewContext } from "node:vm";
      setFlagsFromString("--expose-gc"); const gc = runInNewContext("gc"); for (let i = 0; i < 5; i++) { gc(); await new Promise((r) => setImmediate(r)); }
      say([isOwned(args.folder), (await takeOwnerLock(args.folder, { waitMs: 0 })).kind]);`;
    await using owner = startProcess(`${TAKE} ${collect} ${STAY}`, { folder: session });
    expect(await owner.next()).toEqual({ kind: "taken" });
    // The owner itself knows without opening the file (that would drop the lock).
    expect(await owner.next()).toEqual([true, "held"]);
    expect(isOwned(session)).toBe(true);
    expect(await takeOwnerLock(session, { waitMs: 20 })).toEqual({
      kind: "held",
      pid: process.platform === "linux" ? owner.pid : undefined,
    });
    expect(isOwned(session)).toBe(true);
    await owner.kill();
    expect(isOwned(session)).toBe(false);
    const again = await takeOwnerLock(session, { waitMs: 0 });
    expect(again.kind).toBe("taken");
    if (again.kind === "taken") again.lock[Symbol.dispose]();
  });

  it("is one lock for two paths to one folder (B87)", async () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    symlinkSync(session, join(folder.path, "alias"));
    await using owner = startProcess(`${TAKE} ${STAY}`, { folder: join(folder.path, "alias") });
    expect(await owner.next()).toEqual({ kind: "taken" });
    expect(await takeOwnerLock(session, { waitMs: 0 })).toMatchObject({ kind: "held" });
  });

  it("is refused to the process that has it, and free again after it was given back (twice is once)", async () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    for (let round = 0; round < 3; round++) {
      const taken = await takeOwnerLock(session);
      if (taken.kind !== "taken") throw new Error("not taken");
      expect(await takeOwnerLock(session, { waitMs: 0 })).toEqual({ kind: "held", pid: process.pid });
      await using other = startProcess(TAKE, { folder: session });
      expect(await other.next()).toMatchObject({ kind: "held" });
      await other.exited;
      taken.lock[Symbol.dispose]();
      taken.lock[Symbol.dispose]();
    }
    expect(isOwned(session)).toBe(false);
  });

  it("waits for a holder that goes, and no longer than it may", async () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    await using holder = startProcess(`${TAKE} ${STAY}`, { folder: session });
    await holder.next();
    expect(await takeOwnerLock(session, { waitMs: 30 })).toMatchObject({ kind: "held" });
    const waiting = takeOwnerLock(session, { waitMs: 20_000 });
    await holder.kill();
    const result = await waiting;
    expect(result.kind).toBe("taken");
    if (result.kind === "taken") result.lock[Symbol.dispose]();
  });

  it("can be given up waiting for", async () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    await using holder = startProcess(`${TAKE} ${STAY}`, { folder: session });
    await holder.next();
    const abort = new AbortController();
    const waiting = takeOwnerLock(session, { waitMs: 20_000, signal: abort.signal });
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: "cancelled" });
  });

  it("of 20 processes is taken by exactly one, with the leftovers of a killed one in place (B98)", async () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    const go = (round: number) => join(folder.path, `go-${round}`);
    const script = `
      import { existsSync } from "node:fs";
      import { takeOwnerLock } from "$URLowner-lock.ts";
      for (let round = 0; round < 5; round++) {
        say("ready");
        while (!existsSync(args + round)) await new Promise((resolve) => setTimeout(resolve, 1));
        const result = await takeOwnerLock(${JSON.stringify(session)}, { waitMs: 0 });
        say(result.kind);
        while (!existsSync(args + round + "-end")) await new Promise((resolve) => setTimeout(resolve, 1));
        if (result.kind === "taken") result.lock[Symbol.dispose]();
      }
      ${STAY}`;
    await using victim = startProcess(`${TAKE} ${STAY}`, { folder: session });
    await victim.next();
    await victim.kill();
    const children = Array.from({ length: 20 }, () => startProcess(script, join(folder.path, "go-")));
    try {
      for (let round = 0; round < 5; round++) {
        for (const child of children) expect(await child.next()).toBe("ready");
        writeFileSync(go(round), "");
        const kinds = await Promise.all(children.map((child) => child.next()));
        expect(kinds.sort()).toEqual([...Array.from({ length: 19 }, () => "held"), "taken"]);
        writeFileSync(`${go(round)}-end`, "");
      }
    } finally {
      await Promise.all(children.map((child) => child.kill()));
    }
  }, 60_000);

  it("leaves only files that are closed to others (B95)", async () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    await using owner = startProcess(`${TAKE} ${STAY}`, { folder: session }, { umask: "000" });
    await owner.next();
    const files = readdirSync(session);
    expect(files).toContain("owner.lock");
    for (const name of files) expect(statSync(join(session, name)).mode & 0o777).toBe(0o600);
  });

  it("makes nothing when it is only looked at", () => {
    using folder = testFolder();
    const session = sessionFolder(folder.path);
    expect(isOwned(session)).toBe(false);
    expect(existsSync(join(session, "owner.lock"))).toBe(false);
  });

  it("in a folder that is not there, or on a file that is no lock, fails in one line", async () => {
    using folder = testFolder();
    await expect(takeOwnerLock(join(folder.path, "none"))).rejects.toMatchObject({ code: "not_found" });
    const session = sessionFolder(folder.path);
    writeFileSync(join(session, "owner.lock"), "no database at all, just text ".repeat(100));
    await expect(takeOwnerLock(session)).rejects.toMatchObject({
      code: "damaged",
      message: expect.stringContaining("owner.lock"),
    });
  });
});
