import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it, vi } from "vitest";
import { currentProcess } from "../base/process-identity.ts";
import type { ClaimRequest } from "./claim.ts";
import { openRegistry } from "./registry.ts";
import { STAY, startProcess, type TestFolder, type TestProcess, testFolder } from "./test-support.ts";

function request(session: string, changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    name: `pod-${session}`,
    session,
    cwd: "/w",
    address: `unix:/run/${session}.sock`,
    scope: { allow: [], deny: [] },
    scopeEnforcement: "tools_only",
    model: "script:/story.yaml",
    isRestore: false,
    ...changes,
  };
}

function writes(path: string): ClaimRequest["scope"] {
  return { allow: [{ path, access: "write", recursive: true }], deny: [] };
}

const CLAIM = `
  import { openRegistry } from "$URLregistry.ts";
  const registry = openRegistry(args.places);
  const { kind, holder, reclaimed } = await registry.claim(args.request);
  say({ kind, holder: holder && { name: holder.name, session: holder.session, pid: holder.process.pid }, reclaimed });
`;

/** A living Pod in a process of its own; it has answered its claim when this resolves. */
async function startPod(folder: TestFolder, claim: ClaimRequest, more = ""): Promise<TestProcess & { readonly answer: unknown }> {
  const child = startProcess(`${CLAIM} ${more} ${STAY}`, { places: folder.places, request: claim });
  const answer = await child.next();
  return Object.assign(child, { answer });
}

describe("the registry", () => {
  it("is empty and makes nothing while nobody claimed", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places);
    expect(await registry.list({ all: true })).toEqual([]);
    expect(await registry.find("x")).toBeUndefined();
    expect(await registry.latestIn("/w")).toBeUndefined();
    expect(await registry.update("ses_1", { turn: 1 })).toBe("not_owner");
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it("keeps what a Pod says about itself", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places);
    expect(await registry.claim(request("ses_1", { scope: writes("/w") }))).toEqual({ kind: "claimed", reclaimed: [] });
    const usage = { input: 1, output: 2, cache_read: 3, cache_write: 4 };
    const wakeHeld = { reason: "bucket_empty", until: 5 } as const;
    const patch = {
      state: "running",
      turn: 3,
      trigger: "user",
      pending: 2,
      wake_held: wakeHeld,
      last_outcome: "failed",
      model: "a/b",
      usage,
    } as const;
    expect(await registry.update("ses_1", patch)).toBe("updated");
    expect(await registry.setHead("ses_1", { seq: 17, hash: "abc" })).toBe("updated");
    expect(await registry.find("pod-ses_1")).toMatchObject({
      session: "ses_1",
      alive: true,
      status: "running",
      turn: 3,
      trigger: "user",
      pending: 2,
      wakeHeld,
      lastOutcome: "failed",
      model: "a/b",
      usage,
      head: { seq: 17, hash: "abc" },
      process: currentProcess(),
      ended: null,
    });
    await registry.update("ses_1", { wake_held: null, trigger: null });
    expect(await registry.find("ses_1")).toMatchObject({ wakeHeld: null, trigger: null, turn: 3, lastOutcome: "failed" });
  });

  it("changes nothing for a process that does not own the row", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places);
    await registry.claim(request("ses_1"));
    const before = await registry.find("ses_1");
    const self = currentProcess();
    for (const identity of [
      { ...self, startTime: "1" },
      { ...self, pid: self.pid + 1 },
      { ...self, bootId: "other" },
    ]) {
      await using other = openRegistry(folder.places, { identity });
      expect(await other.update("ses_1", { turn: 9 })).toBe("not_owner");
      expect(await other.setHead("ses_1", { seq: 9, hash: "x" })).toBe("not_owner");
      expect(await other.setProcessGroups("ses_1", [process.pid])).toBe("not_owner");
      expect(await other.release("ses_1", "stopped")).toBe("not_owner");
    }
    expect(await registry.find("ses_1")).toEqual(before);
  });

  it("forgets a session that never came to be, for the process that claimed it only", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places);
    await registry.claim(request("ses_1"));
    await using other = openRegistry(folder.places, { identity: { ...currentProcess(), startTime: "1" } });
    expect(await other.forget("ses_1")).toBe("not_owner");
    expect(await registry.forget("ses_1")).toBe("updated");
    expect(await registry.list({ all: true })).toEqual([]);
  });

  it("keeps a released session as stopped and restorable, with its name and scope free", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places);
    await registry.claim(request("ses_1", { name: "a", scope: writes("/w") }));
    await registry.update("ses_1", { state: "running", turn: 4 });
    expect(await registry.release("ses_1", "stopped")).toBe("updated");
    expect(await registry.release("ses_1", "stopped")).toBe("not_owner");
    expect(await registry.list()).toEqual([]);
    expect(await registry.list({ all: true })).toMatchObject([
      { session: "ses_1", alive: false, status: "stopped", ended: { reason: "stopped" } },
    ]);
    expect(await registry.claim(request("ses_2", { name: "a", scope: writes("/w/x") }))).toMatchObject({ kind: "claimed" });
    // The living one has the name now; the stopped one is found by its session.
    expect(await registry.find("a")).toMatchObject({ session: "ses_2" });
    expect(await registry.claim(request("ses_1", { name: "a", isRestore: true }))).toMatchObject({ kind: "name_taken" });
    expect(await registry.claim(request("ses_1", { name: "b", isRestore: true }))).toMatchObject({ kind: "claimed" });
    expect(await registry.find("ses_1")).toMatchObject({ name: "b", alive: true, turn: 4, ended: null });
  });

  it("refuses a new session under an id that is known", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places);
    await registry.claim(request("ses_1"));
    await registry.release("ses_1", "stopped");
    expect(await registry.claim(request("ses_1"))).toMatchObject({
      kind: "session_taken",
      holder: { session: "ses_1", alive: false },
    });
  });

  it("finds the session of a directory that was started last, whatever the clocks say", async () => {
    using folder = testFolder();
    let now = 1000;
    const clock = { nowMs: () => now, sleep: async () => {} };
    await using registry = openRegistry(folder.places, { clock });
    await registry.claim(request("ses_1", { cwd: "/w" }));
    now = 10;
    await registry.claim(request("ses_2", { cwd: "/w" }));
    await registry.claim(request("ses_3", { cwd: "/other" }));
    expect(await registry.latestIn("/w")).toMatchObject({ session: "ses_2" });
    expect((await registry.list()).map((row) => row.session)).toEqual(["ses_3", "ses_2", "ses_1"]);
  });
});

describe("claims of several processes", () => {
  it("let one living Pod have a name, a session, and a path to write; readers do not conflict", async () => {
    using folder = testFolder();
    await using pod = await startPod(folder, request("ses_1", { name: "a", scope: writes("/w/a") }));
    expect(pod.answer).toEqual({ kind: "claimed", reclaimed: [] });
    await using registry = openRegistry(folder.places);
    const holder = { name: "a", session: "ses_1", alive: true, process: { pid: pod.pid } };
    expect(await registry.claim(request("ses_2", { name: "a" }))).toMatchObject({ kind: "name_taken", holder });
    expect(await registry.claim(request("ses_1", { name: "b", isRestore: true }))).toMatchObject({
      kind: "session_taken",
      holder,
    });
    expect(await registry.claim(request("ses_2", { scope: writes("/w/a/deep") }))).toMatchObject({
      kind: "scope_held",
      path: "/w/a/deep",
      holder,
    });
    expect(await registry.claim(request("ses_2", { scope: writes("/w") }))).toMatchObject({
      kind: "scope_held",
      path: "/w/a",
      holder,
    });
    expect(await registry.list()).toHaveLength(1);
    const reads = { allow: [{ path: "/w/a", access: "read" as const, recursive: true }], deny: [] };
    expect(await registry.claim(request("ses_2", { scope: reads }))).toMatchObject({ kind: "claimed" });
    expect(await registry.claim(request("ses_3", { scope: writes("/w/b") }))).toMatchObject({ kind: "claimed" });
  });

  it("take back what a killed Pod held, and name the processes it left", async () => {
    using folder = testFolder();
    const left = spawn("/bin/sh", ["-c", "sleep 60"], { detached: true, stdio: "ignore" });
    const group = left.pid ?? 0;
    try {
      await using pod = await startPod(
        folder,
        request("ses_1", { name: "a", scope: writes("/w") }),
        `await registry.update("ses_1", { state: "running", trigger: "user" });
         say(await registry.setProcessGroups("ses_1", [${group}, ${process.pid + 1_000_000}]));`,
      );
      expect(await pod.next()).toBe("updated");
      await pod.kill();
      await using registry = openRegistry(folder.places);
      // Nobody marked it; reading judges by reality (B99).
      expect(await registry.find("a")).toMatchObject({ alive: false, status: "stopped", ended: null });
      expect(await registry.list()).toEqual([]);
      const reclaimed = [{ session: "ses_1", name: "a", groups: [group] }];
      expect(await registry.claim(request("ses_2", { name: "a", scope: writes("/w") }))).toEqual({ kind: "claimed", reclaimed });
      expect(await registry.find("ses_1")).toMatchObject({ ended: { reason: "crashed" }, status: "stopped", trigger: null });
      // Reported until it is gone.
      expect(await registry.claim(request("ses_3"))).toEqual({ kind: "claimed", reclaimed });
      const exited = once(left, "exit");
      process.kill(-group, "SIGKILL");
      await exited;
      const again = () => registry.claim(request("ses_3", { isRestore: true }));
      await vi.waitFor(async () => expect(await again()).toEqual({ kind: "claimed", reclaimed: [] }), 5000);
      expect(await registry.find("ses_1")).toMatchObject({ processGroups: [] });
    } finally {
      if (left.exitCode === null && left.signalCode === null) left.kill("SIGKILL");
    }
  });

  it("do not take a reused process group number for a leftover", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places, { identity: { ...currentProcess(), pid: 2 ** 22 + 1 } });
    await registry.claim(request("ses_1"));
    await registry.setProcessGroups("ses_1", [process.pid]);
    const database = new DatabaseSync(join(folder.places.data, "registry.db"));
    database.prepare("UPDATE pods SET process_groups = ?").run(JSON.stringify([{ group: process.pid, leaderStartTime: "1" }]));
    database.close();
    await using other = openRegistry(folder.places);
    expect(await other.claim(request("ses_2"))).toEqual({ kind: "claimed", reclaimed: [] });
  });

  it("after a reboot find every Pod dead and its scope free", async () => {
    using folder = testFolder();
    const before = { ...currentProcess(), bootId: "the boot before" };
    await using old = openRegistry(folder.places, { identity: before });
    await old.claim(request("ses_1", { name: "a", scope: writes("/w") }));
    await old.setProcessGroups("ses_1", [process.pid]);
    await using registry = openRegistry(folder.places);
    expect(await registry.find("a")).toMatchObject({ alive: false });
    expect(await registry.claim(request("ses_1", { name: "a", scope: writes("/w"), isRestore: true }))).toEqual({
      kind: "claimed",
      reclaimed: [],
    });
    expect(await old.update("ses_1", { turn: 5 })).toBe("not_owner");
  });

  it("of 20 processes for one name are won by exactly one, also when the registry has to be made", async () => {
    using folder = testFolder();
    const go = join(folder.path, "go");
    const wait = `const { existsSync } = await import("node:fs"); say("ready");
      while (!existsSync(args.go)) await new Promise((resolve) => setTimeout(resolve, 2));`;
    const script = CLAIM.replace("const registry", `${wait} const registry`);
    const children = Array.from({ length: 20 }, (_, i) =>
      startProcess(`${script} ${STAY}`, { places: folder.places, go, request: request(`ses_${i}`, { name: "one" }) }),
    );
    try {
      for (const child of children) expect(await child.next()).toBe("ready");
      writeFileSync(go, "");
      const answers = await Promise.all(children.map((child) => child.next()));
      const kinds = answers.map((answer) => Object(answer)["kind"]).sort();
      expect(kinds).toEqual(["claimed", ...Array.from({ length: 19 }, () => "name_taken")]);
      const winner = children[answers.findIndex((answer) => Object(answer)["kind"] === "claimed")]?.pid;
      for (const answer of answers) if (Object(answer)["holder"]) expect(answer).toMatchObject({ holder: { pid: winner } });
      expect(readdirSync(folder.places.data).filter((name) => name.includes(".new-"))).toEqual([]);
    } finally {
      await Promise.all(children.map((child) => child.kill()));
    }
  }, 60_000);

  it("lose nothing when many write at once and one of them is killed", async () => {
    using folder = testFolder();
    const work = `for (let turn = 1; turn <= 40; turn++) { const done = await registry.update(args.request.session, { turn }); if (done !== "updated") say(done); }
      say("done");`;
    const children = await Promise.all([1, 2, 3].map((i) => startPod(folder, request(`ses_${i}`), work)));
    await using victim = await startPod(
      folder,
      request("ses_0"),
      "for (let turn = 1; ; turn++) await registry.update('ses_0', { turn });",
    );
    await victim.kill();
    await using registry = openRegistry(folder.places);
    for (const child of children) expect(await child.next()).toBe("done");
    expect((await registry.list()).map((row) => row.turn)).toEqual([40, 40, 40]);
    for (const child of children) await child.kill();
    const database = new DatabaseSync(join(folder.places.data, "registry.db"), { readOnly: true });
    expect(database.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    database.close();
  }, 30_000);
});

describe("the registry's file", () => {
  it("is closed to others whatever the umask (B95)", async () => {
    using folder = testFolder();
    const places = { ...folder.places, data: join(folder.path, "new/deep") };
    await using child = startProcess(`${CLAIM} ${STAY}`, { places, request: request("ses_1") }, { umask: "000" });
    await child.next();
    for (const name of ["new", "new/deep"]) expect(statSync(join(folder.path, name)).mode & 0o777).toBe(0o700);
    const files = readdirSync(places.data);
    expect(files.sort()).toEqual(["registry.db", "registry.db-shm", "registry.db-wal"]);
    for (const name of files) expect(statSync(join(places.data, name)).mode & 0o777).toBe(0o600);
  });

  it("is closed again when somebody opened it to others", async () => {
    using folder = testFolder();
    {
      await using registry = openRegistry(folder.places);
      await registry.claim(request("ses_1"));
    }
    const path = join(folder.places.data, "registry.db");
    chmodSync(path, 0o644);
    await using registry = openRegistry(folder.places);
    expect(await registry.list()).toHaveLength(1);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it("can be read while somebody holds it for writing, and says busy to a writer after its time limit", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places, { waitMs: 150 });
    await registry.claim(request("ses_1"));
    const script = `import { DatabaseSync } from "node:sqlite"; const db = new DatabaseSync(args); db.exec("BEGIN IMMEDIATE"); say("held"); ${STAY}`;
    await using writer = startProcess(script, join(folder.places.data, "registry.db"));
    await writer.next();
    expect(await registry.list()).toHaveLength(1);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 5);
    await expect(registry.update("ses_1", { turn: 1 })).rejects.toMatchObject({ code: "busy" });
    clearInterval(timer);
    // The event loop was free all the time.
    expect(ticks).toBeGreaterThan(3);
    const abort = new AbortController();
    const cancelled = registry.update("ses_1", { turn: 1 }, { signal: abort.signal });
    abort.abort();
    await expect(cancelled).rejects.toMatchObject({ code: "cancelled" });
    await writer.kill();
    expect(await registry.update("ses_1", { turn: 1 })).toBe("updated");
  });

  it.each([
    ["empty", (path: string) => writeFileSync(path, "")],
    ["text", (path: string) => writeFileSync(path, "this is no database, only text, and more of it ".repeat(100))],
    ["a foreign database", (path: string) => new DatabaseSync(path).exec("CREATE TABLE other (x)")],
  ])("that is %s is reported with its path and a remedy, and left as it is", async (_, make) => {
    using folder = testFolder();
    mkdirSync(folder.places.data, { mode: 0o700 });
    const path = join(folder.places.data, "registry.db");
    make(path);
    const before = readFileSync(path);
    await using registry = openRegistry(folder.places);
    for (const attempt of [() => registry.list(), () => registry.claim(request("ses_1"))]) {
      await expect(attempt()).rejects.toMatchObject({
        code: "damaged",
        message: expect.stringContaining(path),
        hint: expect.stringContaining("sessions"),
      });
    }
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("that was cut in the middle is reported as damaged", async () => {
    using folder = testFolder();
    {
      await using registry = openRegistry(folder.places);
      for (let i = 0; i < 40; i++) await registry.claim(request(`ses_${i}`, { cwd: "/w".repeat(200) }));
    }
    const path = join(folder.places.data, "registry.db");
    truncateSync(path, 8192);
    await using registry = openRegistry(folder.places);
    await expect(registry.list({ all: true })).rejects.toMatchObject({ code: "damaged" });
  });

  it("of a newer version is refused as such", async () => {
    using folder = testFolder();
    {
      await using registry = openRegistry(folder.places);
      await registry.claim(request("ses_1"));
    }
    const database = new DatabaseSync(join(folder.places.data, "registry.db"));
    database.exec("PRAGMA user_version = 99");
    database.close();
    await using registry = openRegistry(folder.places);
    await expect(registry.list()).rejects.toMatchObject({ code: "configuration", message: expect.stringContaining("newer") });
  });

  it("is noticed to be gone: a Pod does not write into a file that was moved away", async () => {
    using folder = testFolder();
    await using registry = openRegistry(folder.places);
    await registry.claim(request("ses_1"));
    renameSync(join(folder.places.data, "registry.db"), join(folder.places.data, "old.db"));
    expect(await registry.update("ses_1", { turn: 1 })).toBe("not_owner");
    expect(existsSync(join(folder.places.data, "registry.db"))).toBe(false);
    expect(await registry.claim(request("ses_1"))).toMatchObject({ kind: "claimed" });
    expect(await registry.list()).toHaveLength(1);
  });

  it.runIf(process.getuid?.() === 0)("in somebody else's folder is refused in one line", async () => {
    using folder = testFolder();
    mkdirSync(folder.places.data, { mode: 0o755 });
    chownSync(folder.places.data, 4711, 4711);
    await using registry = openRegistry(folder.places);
    await expect(registry.claim(request("ses_1"))).rejects.toMatchObject({
      code: "configuration",
      message: expect.stringContaining("4711"),
    });
  });
});
