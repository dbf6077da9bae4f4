import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { LogFile } from "./log-file.ts";
import { repair } from "./repair.ts";
import { chainOf, DiskSession, linesOf, replay, STARTED, testSession, writeLines } from "./test-support.ts";
import { verify } from "./verify.ts";

function makeSession(directory: string): void {
  using disk = new DiskSession(directory);
  disk.turn().turn();
}

describe("a repair", () => {
  verifies(["L9"], "keeps the whole part before the first bad line and every byte of the original beside it", async () => {
    using folder = testSession();
    makeSession(folder.directory);
    const lines = linesOf(folder.file);
    writeLines(folder.file, lines.with(6, (lines[6] ?? "").replace("call_1", "call_X")));
    const damaged = readFileSync(folder.file);
    const report = await repair(folder.directory);
    expect(report).toMatchObject({
      kind: "repaired",
      kept: 6,
      saved: `${folder.file}.damaged-1`,
      first_bad: { line: 7, problem: "bad_hash" },
    });
    if (report.kind !== "repaired") return;
    expect(readFileSync(report.saved).equals(damaged)).toBe(true);
    expect(report.kept_bytes + report.removed_bytes).toBe(damaged.length);
    expect(linesOf(folder.file)).toEqual(lines.slice(0, 6));
    expect(statSync(folder.file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder.directory).sort()).toEqual(["000001.jsonl", "000001.jsonl.damaged-1"]);

    // The session goes on: it opens, takes entries and verifies.
    expect((await verify(folder.directory)).ok).toBe(true);
    {
      using log = LogFile.open(folder.directory, () => undefined);
      log.append([{ type: "closed", reason: "again" }], 9);
    }
    expect(replay(folder.file).lastSeq).toBe(7);
    expect(await repair(folder.directory)).toEqual({
      kind: "nothing_to_do",
      entries: 7,
      head: (await verify(folder.directory)).head,
      torn: false,
      lost: [],
    });
  });

  it("keeps each original under a name of its own", async () => {
    using folder = testSession();
    makeSession(folder.directory);
    for (const [n, keep] of [
      [1, 10],
      [2, 5],
      [3, 1],
    ] as const) {
      writeLines(folder.file, linesOf(folder.file).with(keep, "rubbish"));
      expect(await repair(folder.directory)).toMatchObject({
        kind: "repaired",
        kept: keep,
        saved: `${folder.file}.damaged-${n}`,
      });
      expect(linesOf(folder.file)).toHaveLength(keep);
    }
    expect(linesOf(`${folder.file}.damaged-1`)).toHaveLength(19);
  });

  it("cuts in front of an entry that may not stand where it stands", async () => {
    using folder = testSession();
    writeLines(
      folder.file,
      chainOf([STARTED, { type: "turn_ended", turn: 1, outcome: "completed" }, { type: "closed", reason: "x" }]),
    );
    expect(await repair(folder.directory)).toMatchObject({ kind: "repaired", kept: 1, first_bad: { problem: "bad_order" } });
  });

  verifies(["L9"], "leaves a sound log and one with an unfinished end alone", async () => {
    using folder = testSession();
    makeSession(folder.directory);
    for (const cut of [0, 1, 50]) {
      const bytes = readFileSync(folder.file);
      writeFileSync(folder.file, bytes.subarray(0, bytes.length - cut));
      const before = readFileSync(folder.file);
      expect(await repair(folder.directory)).toMatchObject({ kind: "nothing_to_do", torn: cut > 0 });
      expect(readFileSync(folder.file).equals(before)).toBe(true);
    }
    expect(readdirSync(folder.directory)).toEqual(["000001.jsonl"]);
  });

  it("changes nothing where there is nothing to keep", async () => {
    for (const text of ["", "\n", "rubbish\nmore\n"]) {
      using folder = testSession();
      writeFileSync(folder.file, text);
      await expect(repair(folder.directory)).rejects.toMatchObject({
        code: "damaged",
        hint: expect.stringContaining("nothing was changed"),
      });
      expect(readFileSync(folder.file, "utf8")).toBe(text);
      expect(readdirSync(folder.directory)).toEqual(["000001.jsonl"]);
    }
  });

  it("is told by verify while the head mark still names what was cut", async () => {
    using folder = testSession();
    makeSession(folder.directory);
    const head = (await verify(folder.directory)).head ?? { seq: 0, hash: "" };
    writeLines(folder.file, linesOf(folder.file).with(9, "rubbish"));
    await repair(folder.directory);
    expect(await verify(folder.directory, { mark: { ...head, atMs: 0 } })).toMatchObject({
      ok: false,
      first_bad: { problem: "cut", message: expect.stringContaining("000001.jsonl.damaged-1") },
    });
  });
});
