import { createHash } from "node:crypto";
import { appendFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import {
  chainOf,
  DiskSession,
  editedLine,
  items,
  linesOf,
  notification,
  STARTED,
  testSession,
  writeLines,
} from "./test-support.ts";
import { type HeadMark, verify } from "./verify.ts";

/** A session of two turns, and the mark that a Pod left at its end. */
function twoTurns(directory: string): HeadMark {
  using disk = new DiskSession(directory);
  disk.turn().turn();
  return { ...disk.log.head, atMs: 1000 };
}

const ENTRIES = 19;

describe("verifying", () => {
  verifies(["L7"], "a log as it was written finds every entry, its head, and how old the mark is", async () => {
    using folder = testSession();
    const mark = twoTurns(folder.directory);
    const { seq, hash } = mark;
    expect(await verify(folder.directory, { mark, nowMs: 4500 })).toEqual({
      ok: true,
      files: 1,
      entries: ENTRIES,
      head: { seq, hash },
      head_mark_age_ms: 3500,
    });
    expect(await verify(folder.directory)).toEqual({
      ok: true,
      files: 1,
      entries: ENTRIES,
      head: { seq, hash },
      head_mark_age_ms: null,
    });
  });

  const tampering: {
    readonly name: string;
    readonly edit: (lines: string[]) => string[];
    readonly line: number;
    readonly problem: string;
  }[] = [
    {
      name: "two lines swapped",
      edit: (l) => [...l.slice(0, 5), l[6] ?? "", l[5] ?? "", ...l.slice(7)],
      line: 6,
      problem: "bad_prev",
    },
    { name: "a line in the middle deleted", edit: (l) => l.toSpliced(8, 1), line: 9, problem: "bad_prev" },
    { name: "a copy inserted", edit: (l) => l.toSpliced(8, 0, l[7] ?? ""), line: 9, problem: "bad_prev" },
    {
      name: "a line edited and its own hash recomputed",
      edit: (l) =>
        l.with(
          4,
          editedLine(l[4] ?? "", (text) => text.replace("turn 1", "turn X")),
        ),
      line: 6,
      problem: "bad_prev",
    },
    { name: "a line edited", edit: (l) => l.with(4, (l[4] ?? "").replace("turn 1", "turn X")), line: 5, problem: "bad_hash" },
    { name: "a line that is none", edit: (l) => l.toSpliced(3, 0, "hello"), line: 4, problem: "not_a_line" },
    { name: "an empty line", edit: (l) => l.toSpliced(3, 0, ""), line: 4, problem: "not_a_line" },
    { name: "the first line deleted", edit: (l) => l.slice(1), line: 1, problem: "bad_prev" },
  ];
  verifies(["L7", "L9"], "names the first bad line of a log that was tampered with (field report B90)", async () => {
    for (const { name, edit, line, problem } of tampering) {
      using folder = testSession();
      const mark = twoTurns(folder.directory);
      const edited = edit(linesOf(folder.file));
      writeLines(folder.file, edited);
      const before = createHash("sha256").update(readFileSync(folder.file)).digest("hex");
      const byte = edited.slice(0, line - 1).join("\n").length + (line === 1 ? 0 : 1);
      for (const options of [{}, { mark }]) {
        const report = await verify(folder.directory, options);
        expect(report, name).toMatchObject({
          ok: false,
          entries: line - 1,
          first_bad: { file: folder.file, line, byte, problem },
        });
      }
      expect(createHash("sha256").update(readFileSync(folder.file)).digest("hex")).toBe(before);
    }
  });

  verifies(
    ["L7"],
    "notices through the head mark that whole lines at the end are gone, and only through it (field report B90)",
    async () => {
      using folder = testSession();
      const mark = twoTurns(folder.directory);
      writeLines(folder.file, linesOf(folder.file).slice(0, -3));
      expect(await verify(folder.directory, { mark })).toMatchObject({
        ok: false,
        entries: ENTRIES - 3,
        first_bad: { line: ENTRIES - 2, problem: "cut", message: expect.stringContaining(`entry ${ENTRIES} was synced`) },
      });
      expect(await verify(folder.directory)).toMatchObject({ ok: true, entries: ENTRIES - 3, head_mark_age_ms: null });
    },
  );

  verifies(["L7"], "notices through the head mark a chain that was written anew", async () => {
    using folder = testSession();
    const mark = twoTurns(folder.directory);
    const bodies = linesOf(folder.file).map((line) => {
      const { seq: _seq, prev: _prev, hash: _hash, ...body } = JSON.parse(line.replace("turn 2", "turn X"));
      return body;
    });
    writeLines(folder.file, chainOf(bodies));
    expect(await verify(folder.directory)).toMatchObject({ ok: true });
    expect(await verify(folder.directory, { mark })).toMatchObject({
      ok: false,
      first_bad: { line: ENTRIES, problem: "rewritten" },
    });
  });

  it("accepts a log that is ahead of its mark, as that of a living Pod is", async () => {
    using folder = testSession();
    using disk = new DiskSession(folder.directory);
    disk.turn();
    const mark = { ...disk.log.head, atMs: 0 };
    disk.turn();
    expect(await verify(folder.directory, { mark })).toMatchObject({ ok: true, entries: ENTRIES });
  });

  verifies(
    ["L9"],
    "tells a torn tail apart from damage, at every length of it",
    async () => {
      using folder = testSession();
      const mark = twoTurns(folder.directory);
      const whole = readFileSync(folder.file);
      const lastStart = whole.lastIndexOf(0x0a, -2) + 1;
      const earlier = { seq: ENTRIES - 1, hash: JSON.parse(linesOf(folder.file).at(-2) ?? "").hash, atMs: 0 };
      for (let size = lastStart + 1; size < whole.length; size++) {
        writeFileSync(folder.file, whole.subarray(0, size));
        const complete = size === whole.length - 1;
        expect(await verify(folder.directory, { mark: earlier })).toMatchObject({
          ok: true,
          entries: complete ? ENTRIES : ENTRIES - 1,
          torn: { line: ENTRIES, byte: lastStart, bytes: size - lastStart, complete },
        });
      }
      // The mark says that the line had been synced: then it was cut afterwards.
      truncateSync(folder.file, whole.length - 20);
      expect(await verify(folder.directory, { mark })).toMatchObject({ ok: false, first_bad: { problem: "cut" }, torn: {} });
    },
    { timeoutMs: 60_000 },
  );

  verifies(["L9"], "names an entry that is sound and may not stand where it stands", async () => {
    using folder = testSession();
    writeLines(folder.file, chainOf([STARTED, { type: "turn_ended", turn: 1, outcome: "completed" }]));
    expect(await verify(folder.directory)).toMatchObject({
      ok: false,
      entries: 1,
      first_bad: { line: 2, problem: "bad_order", message: "turn 1 is not open" },
    });
  });

  it("finds a log without an entry not ok, and throws for none at all", async () => {
    using folder = testSession();
    await expect(verify(folder.directory)).rejects.toMatchObject({ code: "not_found" });
    writeFileSync(folder.file, "");
    expect(await verify(folder.directory)).toMatchObject({
      ok: false,
      entries: 0,
      head: null,
      first_bad: { line: 1, byte: 0, problem: "empty" },
    });
    appendFileSync(folder.file, "\n");
    expect(await verify(folder.directory)).toMatchObject({ ok: false, first_bad: { line: 1, problem: "not_a_line" } });
  });

  it("ends when nobody waits for it any more", async () => {
    using folder = testSession();
    {
      using disk = new DiskSession(folder.directory);
      disk.commit(...Array.from({ length: 2000 }, (_, n) => items(notification(`n${n}`))));
    }
    const stop = new AbortController();
    const verifying = verify(folder.directory, { signal: stop.signal });
    stop.abort();
    await expect(verifying).rejects.toMatchObject({ code: "cancelled" });
  });
});
