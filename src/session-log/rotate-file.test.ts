import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { AppError } from "../base/errors.ts";
import { continuationOf } from "./carried.ts";
import type { NewEntry } from "./entry.ts";
import { FIRST_FILE, fileName } from "./file-names.ts";
import { applyEntry, checkEntry } from "./fold.ts";
import { LogDisk } from "./log-disk.ts";
import { LogFile } from "./log-file.ts";
import { emptyState, type SessionState } from "./session-state.ts";
import {
  answer,
  call,
  DiskSession,
  input,
  items,
  notification,
  replayAll,
  replayNewest,
  request,
  result,
  STARTED,
  testSession,
  turnStarted,
} from "./test-support.ts";
import { verify } from "./verify.ts";

const SECOND = fileName(2);

/** Calls of the disk that a rotation makes, in order. */
type Step = "syncNow" | "write" | "rename" | "syncDirectory";

/** A disk on which a named call fails, and whose async syncs wait until the test lets them go. */
class FailingDisk extends LogDisk {
  fails: { readonly step: Step; readonly nth: number } | undefined;
  holdSyncs = false;
  readonly held: ((error: Error | null) => void)[] = [];
  #calls = 0;

  failAt(step: Step, nth = 1): void {
    this.#calls = 0;
    this.fails = { step, nth };
  }

  #meet(step: Step): void {
    if (this.fails?.step !== step) return;
    this.#calls += 1;
    if (this.#calls >= this.fails.nth)
      throw Object.assign(new Error(`ENOSPC: no space left on device, ${step}`), { code: "ENOSPC" });
  }

  override write(descriptor: number, bytes: Buffer, offset: number, position: number): number {
    this.#meet("write");
    return super.write(descriptor, bytes.subarray(0, Math.min(bytes.length, offset + 300)), offset, position);
  }
  override syncNow(descriptor: number): void {
    this.#meet("syncNow");
    super.syncNow(descriptor);
  }
  override rename(from: string, to: string): void {
    this.#meet("rename");
    super.rename(from, to);
  }
  override syncDirectory(path: string): void {
    this.#meet("syncDirectory");
    super.syncDirectory(path);
  }
  override sync(descriptor: number, done: (error: Error | null) => void): void {
    if (this.holdSyncs) this.held.push((error) => (error ? done(error) : super.sync(descriptor, done)));
    else super.sync(descriptor, done);
  }
}

/** A session in the middle of a batch, with something pending and owed. */
function busy(disk: DiskSession): void {
  disk.turn().commit(input("i"), turnStarted(2), items(notification("n")));
  disk.commit(request(disk.state));
  disk.commit(answer(call("a"), call("b")), { type: "tool_started", call_id: "a" }, result("a"), items(notification("late")));
}

function reopened(directory: string): { readonly state: SessionState; readonly log: LogFile } {
  const state = emptyState();
  const log = LogFile.open(directory, (entry) => {
    const objection = checkEntry(state, entry);
    if (objection === undefined) applyEntry(state, entry);
    return objection;
  });
  return { state, log };
}

function without(state: SessionState): object {
  return { ...state, lastSeq: 0 };
}

describe("a rotation that is cut off", () => {
  verifies(
    ["L8-rotation", "L9"],
    "at any step leaves a session that opens with everything that was there, and no leftover",
    async () => {
      using origin = testSession();
      let before: SessionState;
      let line: Buffer;
      {
        using disk = new DiskSession(origin.directory);
        busy(disk);
        before = disk.state;
        disk.rotate();
        line = readFileSync(disk.log.file);
      }
      const cuts = [0, 1, 40, Math.floor(line.length / 2), line.length - 2, line.length - 1];
      const states: [string, (directory: string) => void][] = [
        ...cuts.map((size): [string, (directory: string) => void] => [
          `${size} bytes under the other name`,
          (directory) => writeFileSync(join(directory, `${SECOND}.new`), line.subarray(0, size)),
        ]),
        ["whole under the other name", (directory) => writeFileSync(join(directory, `${SECOND}.new`), line)],
        // What a disk may make of it that keeps names and contents in another order.
        ...cuts.map((size): [string, (directory: string) => void] => [
          `${size} bytes under its name`,
          (directory) => writeFileSync(join(directory, SECOND), line.subarray(0, size)),
        ]),
        ["NUL bytes under its name", (directory) => writeFileSync(join(directory, SECOND), Buffer.alloc(line.length))],
        ["whole under its name", (directory) => writeFileSync(join(directory, SECOND), line)],
      ];
      for (const [name, make] of states) {
        using folder = testSession();
        cpSync(origin.file, folder.file);
        make(folder.directory);
        const isRotated = name === "whole under its name";
        // Looking changes nothing and calls it no damage.
        expect(await verify(folder.directory), name).toMatchObject({ ok: true, entries: before.lastSeq - (isRotated ? 0 : 1) });
        const { state, log } = reopened(folder.directory);
        using _log = log;
        expect(isDeepStrictEqual(without(state), without(before)), name).toBe(true);
        expect(log.file, name).toBe(join(folder.directory, isRotated ? SECOND : FIRST_FILE));
        for (const entry of log.append([result("b")], 5)) applyEntry(state, entry);
        applyEntry(state, log.rotate(continuationOf(state, log.head), 6));
        expect(isDeepStrictEqual(replayNewest(folder.directory), state), name).toBe(true);
        expect(isDeepStrictEqual(replayAll(folder.directory), state), name).toBe(true);
        expect(await verify(folder.directory), name).toMatchObject({ ok: true, files: isRotated ? 3 : 2 });
        expect(
          readdirSync(folder.directory).every((file) => /^\d{6}\.jsonl$/.test(file)),
          name,
        ).toBe(true);
      }
    },
    { timeoutMs: 60_000 },
  );
});

describe("a disk that fails at a rotation", () => {
  const steps: readonly [Step, number][] = [
    ["write", 1],
    ["write", 3],
    ["syncNow", 2],
    ["rename", 1],
  ];
  verifies(["L8-rotation", "I2"], "leaves everything as it was; it is tried again some time later, and then works", async () => {
    for (const [step, nth] of steps) {
      using folder = testSession();
      const disk = new FailingDisk();
      const state = emptyState();
      using log = LogFile.create(folder.directory, disk);
      const commit = (...entries: NewEntry[]) => {
        for (const entry of log.append(entries, 1)) applyEntry(state, entry);
      };
      commit(STARTED, items(notification("a", { text: "x".repeat(5000) })));
      log.rotateBytes = 4000;
      expect(log.wantsRotation).toBe(true);
      const bytes = readFileSync(folder.file);
      disk.failAt(step, nth);
      expect(() => log.rotate(continuationOf(state, log.head), 2), step).toThrow("cannot begin a new file");
      disk.fails = undefined;
      expect(readdirSync(folder.directory)).toEqual([FIRST_FILE]);
      expect(readFileSync(folder.file).equals(bytes)).toBe(true);
      expect(log.failure).toBeUndefined();
      expect(log.wantsRotation, "at once again").toBe(false);
      commit(items(notification("b", { text: "y".repeat(1000) })));
      await log.sync();
      expect(log.wantsRotation, "some time later").toBe(true);
      applyEntry(state, log.rotate(continuationOf(state, log.head), 3));
      commit({ type: "closed", reason: "done" });
      expect(isDeepStrictEqual(replayNewest(folder.directory), state)).toBe(true);
      expect(await verify(folder.directory)).toMatchObject({ ok: true, files: 2 });
      expect(statSync(log.file).mode & 0o777).toBe(0o600);
    }
  });

  verifies(
    ["I2"],
    "so that it is unknown whether the new file will be there, or the old one whole, closes the log for good",
    () => {
      for (const step of ["syncDirectory", "syncNow"] as const) {
        using folder = testSession();
        const disk = new FailingDisk();
        using log = LogFile.create(folder.directory, disk);
        const state = emptyState();
        for (const entry of log.append([STARTED], 1)) applyEntry(state, entry);
        disk.failAt(step);
        expect(() => log.rotate(continuationOf(state, log.head), 2)).toThrow(AppError);
        disk.fails = undefined;
        expect(log.failure?.code).toBe("storage_failed");
        expect(() => log.append([{ type: "closed", reason: "x" }], 3)).toThrow(AppError);
        expect(() => log.rotate(continuationOf(state, log.head), 2)).toThrow(AppError);
        expect(log.wantsRotation).toBe(false);
        const again = reopened(folder.directory);
        using _log = again.log;
        expect(isDeepStrictEqual(without(again.state), without(state))).toBe(true);
      }
    },
  );

  it("does not write over a file that somebody else made", () => {
    using folder = testSession();
    using disk = new DiskSession(folder.directory);
    writeFileSync(join(folder.directory, SECOND), "foreign");
    expect(() => disk.rotate()).toThrow("somebody else writes this session");
    expect(disk.log.failure).toBeDefined();
    expect(readFileSync(join(folder.directory, SECOND), "utf8")).toBe("foreign");
  });
});

describe("a sync that is under way at a rotation", () => {
  function begun(directory: string) {
    const disk = new FailingDisk();
    const log = LogFile.create(directory, disk);
    const state = emptyState();
    for (const entry of log.append([STARTED], 1)) applyEntry(state, entry);
    disk.holdSyncs = true;
    const first = log.sync();
    for (const entry of log.append([items(notification("a"))], 2)) applyEntry(state, entry);
    const second = log.sync();
    applyEntry(state, log.rotate(continuationOf(state, log.head), 3));
    const third = log.sync();
    return { disk, log, state, first, second, third };
  }

  verifies(["I2", "L8-rotation"], "ends harmlessly, and all who wait are answered, each only when he may be", async () => {
    using folder = testSession();
    const { disk, log, first, second, third } = begun(folder.directory);
    using _log = log;
    const answered: number[] = [];
    const waiting = [first, second, third].map((sync, index) => sync.then(() => answered.push(index + 1)));
    expect(disk.held).toHaveLength(1);
    expect(log.synced.seq).toBe(3); // The rotation has synced everything itself.
    disk.held[0]?.(null);
    await waiting[0];
    expect(answered).toEqual([1]);
    expect(log.synced.seq).toBe(3);
    log.append([{ type: "closed", reason: "x" }], 4);
    await expect.poll(() => disk.held.length).toBe(2);
    disk.held[1]?.(null);
    await Promise.all(waiting);
    expect(answered).toEqual([1, 2, 3]);
    disk.holdSyncs = false;
    await log.sync();
    expect(log.synced).toEqual(log.head);
    expect(await verify(folder.directory)).toMatchObject({ ok: true, entries: 4, files: 2 });
  });

  verifies(["I2"], "and fails closes the log for good: nobody who waits is told that it worked", async () => {
    using folder = testSession();
    const { disk, log, first, second, third } = begun(folder.directory);
    using _log = log;
    disk.held[0]?.(new Error("EIO: i/o error, fdatasync"));
    for (const sync of [first, second, third]) await expect(sync).rejects.toMatchObject({ code: "storage_failed" });
    await expect(log.sync()).rejects.toMatchObject({ code: "storage_failed" });
    expect(() => log.append([{ type: "closed", reason: "x" }], 4)).toThrow("cannot sync");
  });

  it("keeps no descriptor open behind it", async () => {
    using folder = testSession();
    using disk = new DiskSession(folder.directory);
    const open = () => readdirSync("/proc/self/fd").length;
    disk.turn().rotate();
    const before = open();
    for (let n = 0; n < 20; n++) {
      disk.turn();
      const sync = disk.log.sync();
      disk.rotate();
      await sync;
    }
    await expect.poll(open).toBeLessThanOrEqual(before + 1);
  });
});

describe("reading back", () => {
  verifies(["L8-rotation"], "goes through all files, and leaves out what later ones begin with", () => {
    using folder = testSession();
    const starts: number[] = [];
    {
      using disk = new DiskSession(folder.directory);
      for (let n = 0; n < 5; n++) {
        disk.turn().rotate();
        starts.push(disk.state.lastSeq);
      }
      disk.turn();
    }
    const { log } = reopened(folder.directory);
    using _log = log;
    const all = Array.from({ length: log.head.seq }, (_, index) => index + 1).filter((seq) => !starts.includes(seq));
    expect(log.read(1, 999).map((entry) => entry.seq)).toEqual(all);
    for (let from = 1; from <= log.head.seq; from++) {
      for (const to of [from, from + 3, from + 30]) {
        expect(log.read(from, to).map((entry) => entry.seq)).toEqual(all.filter((seq) => seq >= from && seq <= to));
      }
    }
    rmSync(join(folder.directory, fileName(3)));
    const fresh = reopened(folder.directory).log;
    using _fresh = fresh;
    expect(fresh.read((starts[3] ?? 0) + 1, 999).length).toBeGreaterThan(0);
    expect(() => fresh.read(2, 3)).toThrow(`${fileName(3)} is missing`);
  });
});
