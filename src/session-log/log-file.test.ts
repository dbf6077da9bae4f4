import { createHash } from "node:crypto";
import { fdatasync, ftruncateSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { AppError } from "../base/errors.ts";
import type { NewEntry } from "./entry.ts";
import { LogDisk } from "./log-disk.ts";
import { LogFile } from "./log-file.ts";
import { scanLines, walkFile } from "./log-scan.ts";
import { answer, chainOf, items, linesOf, notification, replay, STARTED, says, testSession, writeLines } from "./test-support.ts";
import { verify } from "./verify.ts";

const NOTHING = () => undefined;

function open(directory: string, disk?: LogDisk): LogFile {
  return disk === undefined ? LogFile.open(directory, NOTHING) : LogFile.open(directory, NOTHING, disk);
}

function digestOf(file: string): string {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

function errorOf(action: () => unknown): AppError {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof AppError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was thrown");
}

/** Three whole lines. */
function threeLines(directory: string): Buffer {
  using log = LogFile.create(directory);
  log.append([STARTED], 1);
  log.append([items(notification("a", { text: "ä€😀" }))], 2);
  log.append([{ type: "closed", reason: "done" }], 3);
  return readFileSync(log.file);
}

describe("a torn last line", () => {
  verifies(
    ["L9"],
    "cut at any byte is removed at the next open, and what is appended then is whole (field report B83)",
    async () => {
      using folder = testSession();
      const whole = threeLines(folder.directory);
      const lastStart = whole.lastIndexOf(0x0a, -2) + 1;
      let cuts = 0;
      for (let size = lastStart; size < whole.length; size++) {
        writeFileSync(folder.file, whole.subarray(0, size));
        const keepsLast = size === whole.length - 1; // Only the line break is missing: nothing is lost.
        {
          using log = open(folder.directory);
          expect(log.head.seq).toBe(keepsLast ? 3 : 2);
          const bytes = size - lastStart;
          expect(log.repair).toEqual(
            keepsLast ? { kind: "completed", line: 3 } : bytes === 0 ? { kind: "none" } : { kind: "cut", bytes, line: 3 },
          );
          log.append([{ type: "closed", reason: "again" }], 4);
        }
        expect(replay(folder.file).lastSeq).toBe(keepsLast ? 4 : 3);
        expect((await verify(folder.directory)).ok).toBe(true);
        using again = open(folder.directory);
        expect(again.repair).toEqual({ kind: "none" });
        cuts += 1;
      }
      expect(cuts).toBeGreaterThan(150);
    },
    { timeoutMs: 60_000 },
  );

  verifies(["L9"], "of NUL bytes, as a power cut leaves, is removed", () => {
    for (const tail of ["\0", "\0".repeat(5000), '{"seq":4,"ts"\0\0\0']) {
      using folder = testSession();
      writeFileSync(folder.file, Buffer.concat([threeLines(folder.directory), Buffer.from(tail)]));
      using log = open(folder.directory);
      expect(log.repair).toEqual({ kind: "cut", bytes: tail.length, line: 4 });
      log.append([{ type: "closed", reason: "again" }], 4);
      expect(replay(folder.file).lastSeq).toBe(4);
    }
  });

  verifies(["L9"], "with something else where its line break should be loses nothing", () => {
    for (const junk of ["\0", "\0\0\0", "\x0b"]) {
      using folder = testSession();
      writeFileSync(folder.file, Buffer.concat([threeLines(folder.directory).subarray(0, -1), Buffer.from(junk)]));
      using log = open(folder.directory);
      expect(log.repair).toEqual({ kind: "completed", line: 3 });
      log.append([{ type: "closed", reason: "again" }], 4);
      expect(replay(folder.file).lastSeq).toBe(4);
    }
  });
});

describe("damage", () => {
  verifies(
    ["L7", "L9"],
    "of one byte anywhere is found, and named with its line unless it only hit the last line break (field report B81)",
    () => {
      using folder = testSession();
      const whole = threeLines(folder.directory);
      for (let at = 0; at < whole.length; at++) {
        const bytes = Buffer.from(whole);
        bytes[at] = (bytes[at] ?? 0) ^ 0x01;
        writeFileSync(folder.file, bytes);
        const line = whole.subarray(0, at).filter((byte) => byte === 0x0a).length + 1;
        const end = scanLines(walkFile(folder.file), NOTHING);
        if (at === whole.length - 1)
          expect(end.kind).toBe("torn"); // And nothing is lost: see above.
        else expect(end).toMatchObject({ kind: "damaged", line });
      }
    },
  );

  verifies(
    ["L9"],
    "inside stops the opening with file, line, byte and what to do, and changes nothing (field report B81)",
    () => {
      using folder = testSession();
      const whole = threeLines(folder.directory);
      const secondLine = whole.indexOf(0x0a) + 1;
      whole[secondLine + 40] = (whole[secondLine + 40] ?? 0) ^ 0x20;
      writeFileSync(folder.file, whole);
      const before = digestOf(folder.file);
      const error = errorOf(() => open(folder.directory));
      expect(error.code).toBe("damaged");
      expect(error.message).toContain(folder.file);
      expect(error.message).toContain(`line 2 (byte ${secondLine})`);
      expect(error.hint).toContain("wakeful log repair");
      expect(error.details).toMatchObject({ file: folder.file, line: 2, byte: secondLine, problem: "bad_hash" });
      expect(digestOf(folder.file)).toBe(before);
    },
  );

  verifies(["L9"], "is told also where an entry is sound and may not stand there", () => {
    using folder = testSession();
    writeLines(folder.file, chainOf([STARTED, { type: "turn_ended", turn: 5, outcome: "completed" }]));
    const error = errorOf(() => LogFile.open(folder.directory, (entry) => (entry.seq === 2 ? "turn 5 is not open" : undefined)));
    expect(error.details).toMatchObject({ line: 2, problem: "bad_order" });
  });

  verifies(["L9"], "of a whole file is an error and never a fresh session (field report B84)", () => {
    const states: [string, (file: string) => void][] = [
      ["empty", (file) => writeFileSync(file, "")],
      ["one line break", (file) => writeFileSync(file, "\n")],
      ["line breaks of another system", (file) => writeFileSync(file, `${chainOf([STARTED]).join("\r\n")}\r\n`)],
      ["half of a first line", (file) => writeFileSync(file, chainOf([STARTED]).join("").slice(0, 50))],
      ["a folder", (file) => mkdirSync(file)],
    ];
    for (const [name, make] of states) {
      using folder = testSession();
      make(folder.file);
      const before = statSync(folder.file).isFile() ? digestOf(folder.file) : "";
      expect(errorOf(() => open(folder.directory)).code, name).toBe("damaged");
      if (before !== "") expect(digestOf(folder.file), name).toBe(before);
      expect(() => LogFile.create(folder.directory), name).toThrow("cannot create");
    }
  });

  const isRoot = process.getuid?.() === 0;
  it.skipIf(isRoot)("of its permissions is an error (skipped for root, to whom every file is open)", () => {
    using folder = testSession();
    threeLines(folder.directory);
    writeFileSync(folder.file, readFileSync(folder.file), { mode: 0o000 });
    expect(errorOf(() => open(folder.directory)).code).toBe("storage_failed");
  });

  it("that is no log at all is told apart: it is missing", () => {
    using folder = testSession();
    expect(errorOf(() => open(folder.directory)).code).toBe("not_found");
  });
});

/** A disk that fails when it is told to. */
class TestDisk extends LogDisk {
  /** Bytes that still fit. */
  space = Number.POSITIVE_INFINITY;
  /** Most bytes one write takes. */
  perWrite = Number.POSITIVE_INFINITY;
  canTruncate = true;
  syncError: Error | null = null;
  readonly syncs: (() => void)[] = [];
  syncCount = 0;
  /** When true, a sync ends only when the test lets it. */
  holdSyncs = false;

  override write(descriptor: number, bytes: Buffer, offset: number, position: number): number {
    const count = Math.min(bytes.length - offset, this.perWrite, this.space);
    if (count === 0) throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    this.space -= count;
    return writeSync(descriptor, bytes, offset, count, position);
  }

  override truncate(descriptor: number, size: number): void {
    if (!this.canTruncate) throw Object.assign(new Error("EIO: i/o error, ftruncate"), { code: "EIO" });
    ftruncateSync(descriptor, size);
  }

  override sync(descriptor: number, done: (error: Error | null) => void): void {
    this.syncCount += 1;
    const { syncError } = this;
    const run = () => (syncError === null ? fdatasync(descriptor, done) : done(syncError));
    if (this.holdSyncs) this.syncs.push(run);
    else run();
  }
}

describe("a disk that fails", () => {
  verifies(
    ["I2"],
    "in the middle of a write leaves no half entry: it is taken back, said, and works again when there is space (field report B89)",
    async () => {
      using folder = testSession();
      const disk = new TestDisk();
      using log = LogFile.create(folder.directory, disk);
      log.append([STARTED], 1);
      const sizes = [0, 1, 7, 100];
      for (const space of sizes) {
        const before = digestOf(folder.file);
        disk.space = space;
        const error = errorOf(() => log.append([items(notification("x"))], 2));
        expect(error.code).toBe("storage_failed");
        expect(error.message).toContain("no space left");
        expect(error.hint).toContain("free some");
        expect(digestOf(folder.file)).toBe(before);
        expect(log.head.seq).toBe(1);
      }
      disk.space = Number.POSITIVE_INFINITY;
      expect(log.append([items(notification("x")), { type: "closed", reason: "r" }], 3).map((entry) => entry.seq)).toEqual([
        2, 3,
      ]);
      await log.sync();
      expect(await verify(folder.directory)).toMatchObject({ ok: true, entries: 3 });
    },
  );

  it("at writing several entries keeps none of them", () => {
    using folder = testSession();
    const disk = new TestDisk();
    using log = LogFile.create(folder.directory, disk);
    log.append([STARTED], 1);
    const { size } = statSync(folder.file);
    disk.space = 600; // The first fits, the second does not.
    const big: NewEntry[] = [items(notification("a")), items(notification("b", { text: "x".repeat(1000) }))];
    expect(() => log.append(big, 2)).toThrow("cannot write");
    expect(statSync(folder.file).size).toBe(size);
    expect(replay(folder.file).lastSeq).toBe(1);
  });

  it("that takes little at a time still gets everything", () => {
    using folder = testSession();
    const disk = new TestDisk();
    disk.perWrite = 7;
    using log = LogFile.create(folder.directory, disk);
    log.append([STARTED, items(notification("a"))], 1);
    expect(replay(folder.file).pending.has("a")).toBe(true);
  });

  it("that cannot even take a write back is not written to any more, and the next open mends it", () => {
    using folder = testSession();
    const disk = new TestDisk();
    {
      using log = LogFile.create(folder.directory, disk);
      log.append([STARTED], 1);
      disk.space = 20;
      disk.canTruncate = false;
      expect(() => log.append([items(notification("a"))], 2)).toThrow("no space left");
      disk.space = Number.POSITIVE_INFINITY;
      expect(errorOf(() => log.append([items(notification("a"))], 2)).message).toContain("cannot take back");
      expect(log.failure?.code).toBe("storage_failed");
    }
    using again = open(folder.directory);
    expect(again.repair).toEqual({ kind: "cut", bytes: 20, line: 2 });
  });

  verifies(["I2"], "at a sync closes the log for good: nobody is told that it worked", async () => {
    using folder = testSession();
    const disk = new TestDisk();
    using log = LogFile.create(folder.directory, disk);
    log.append([STARTED], 1);
    disk.syncError = new Error("EIO: i/o error, fdatasync");
    disk.holdSyncs = true;
    const first = log.sync();
    log.append([items(notification("a"))], 2);
    const second = log.sync();
    disk.syncs[0]?.();
    await expect(first).rejects.toMatchObject({ code: "storage_failed" });
    await expect(second).rejects.toMatchObject({ code: "storage_failed" });
    disk.syncError = null;
    await expect(log.sync()).rejects.toMatchObject({ code: "storage_failed" });
    expect(() => log.append([items(notification("b"))], 3)).toThrow("cannot sync");
    expect(log.synced.seq).toBe(0);
    expect(disk.syncCount).toBe(1); // Not tried again: the kernel may have dropped the pages.
  });
});

describe("a sync", () => {
  verifies(["I2"], "resolves only after one that began behind the last write, and one serves all who wait", async () => {
    using folder = testSession();
    const disk = new TestDisk();
    disk.holdSyncs = true;
    using log = LogFile.create(folder.directory, disk);
    const done: number[] = [];
    const waiting: Promise<unknown>[] = [];
    for (let n = 1; n <= 20; n++) {
      log.append([n === 1 ? STARTED : items(notification(`n${n}`))], n);
      waiting.push(log.sync().then(() => done.push(n)));
    }
    expect(disk.syncCount).toBe(1);
    disk.syncs[0]?.(); // It began when only the first entry was written.
    await waiting[0];
    expect(done).toEqual([1]);
    expect(log.synced.seq).toBe(1);
    await expect.poll(() => disk.syncCount).toBe(2);
    expect(done).toEqual([1]);
    disk.syncs[1]?.();
    await Promise.all(waiting);
    expect(done).toHaveLength(20);
    expect(log.synced).toEqual(log.head);
    expect(disk.syncCount).toBe(2);
    await log.sync();
    expect(disk.syncCount).toBe(2); // Nothing new to sync.
  });
});

describe("an open log", () => {
  it("is private, made once, and reads back any part of itself", () => {
    using folder = testSession();
    using log = LogFile.create(folder.directory);
    expect(statSync(log.file).mode & 0o777).toBe(0o600);
    log.append([STARTED, items(notification("a")), items(notification("b")), { type: "closed", reason: "r" }], 1);
    expect(log.read(2, 3).map((entry) => entry.seq)).toEqual([2, 3]);
    expect(log.read(-5, 99).map((entry) => entry.seq)).toEqual([1, 2, 3, 4]);
    expect([log.read(4, 3), log.read(5, 9)]).toEqual([[], []]);
    expect(() => LogFile.create(folder.directory)).toThrow("cannot create");
    truncateSync(log.file, log.size - 10);
    expect(() => log.read(1, 4)).toThrow("became shorter");
  });

  verifies(
    ["L8"],
    "of a line of 20 MB and of 20 000 small lines costs what it holds, read once (field report B93)",
    () => {
      using folder = testSession();
      const times: number[] = [];
      const bytesRead: number[] = [];
      for (const size of [2, 20]) {
        using big = testSession();
        {
          using log = LogFile.create(big.directory);
          log.append([STARTED, answer(says("x".repeat(size * 1024 * 1024)))], 1);
        }
        const begin = process.cpuUsage();
        const { size: fileSize } = statSync(big.file);
        const end = scanLines(walkFile(big.file), (line) => {
          bytesRead.push(line.end - line.start);
          return undefined;
        });
        expect(end).toMatchObject({ kind: "whole", size: fileSize });
        const { user, system } = process.cpuUsage(begin);
        times.push((user + system) / size);
      }
      // A quadratic reader would be ten times slower for each byte; here it is about as fast.
      expect(times[1]).toBeLessThan((times[0] ?? 0) * 5);
      const { directory, file } = folder;
      {
        using log = LogFile.create(directory);
        log.append([STARTED], 1);
        for (let batch = 0; batch < 20; batch++) {
          log.append(
            Array.from({ length: 1000 }, (_, n) => items(notification(`n${batch}_${n}`, { wake: false }))),
            2,
          );
        }
      }
      let covered = 0;
      using log = LogFile.open(directory, () => {
        covered += 1;
        return undefined;
      });
      expect([covered, log.head.seq]).toEqual([20_001, 20_001]);
      expect(linesOf(file)).toHaveLength(20_001);
      expect(log.read(20_000, 20_001)).toHaveLength(2);
    },
    { timeoutMs: 60_000 },
  );
});
