import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { AppError } from "../base/errors.ts";
import { audit } from "./audit.ts";
import { exportLog } from "./export.ts";
import { fileName, listFiles } from "./file-names.ts";
import type { ChainHead } from "./line.ts";
import { LogFile } from "./log-file.ts";
import { repair } from "./repair.ts";
import {
  answer,
  call,
  chainOf,
  DiskSession,
  input,
  items,
  linesOf,
  notification,
  request,
  result,
  says,
  testSession,
  turnStarted,
  writeLines,
} from "./test-support.ts";
import { verify } from "./verify.ts";

/** Three files: a turn of nine entries in each, behind what it begins with. */
const ENTRIES = 30;

function threeFiles(directory: string): [string, string, string] {
  using disk = new DiskSession(directory);
  disk.turn().rotate().turn().rotate().turn();
  const [first = "", second = "", third = ""] = listFiles(directory).map((file) => file.path);
  return [first, second, third];
}

function headOf(file: string): ChainHead {
  const { seq, hash } = JSON.parse(linesOf(file).at(-1) ?? "");
  return { seq, hash };
}

/** The lines of a file with the bodies made otherwise, and a chain that fits the file before. */
function rechained(file: string, before: ChainHead, edit: (bodies: Record<string, unknown>[]) => object[]): string[] {
  const bodies = linesOf(file).map((line): Record<string, unknown> => {
    const { seq: _seq, prev: _prev, hash: _hash, ...body } = JSON.parse(line);
    return body;
  });
  return chainOf(edit(bodies), before);
}

describe("verifying a log of several files", () => {
  verifies(["L7", "L8-rotation"], "follows the one chain through them, and compares its end with the head mark", async () => {
    using folder = testSession();
    const [, , third] = threeFiles(folder.directory);
    const head = headOf(third);
    const mark = { ...head, atMs: 0 };
    expect(await verify(folder.directory, { mark, nowMs: 5 })).toEqual({
      ok: true,
      files: 3,
      entries: ENTRIES,
      head,
      head_mark_age_ms: 5,
    });
    writeLines(third, linesOf(third).slice(0, -1));
    expect(await verify(folder.directory, { mark })).toMatchObject({
      ok: false,
      first_bad: { file: third, line: 10, problem: "cut" },
    });
    // The whole newest file is gone: only the mark can tell.
    rmSync(third);
    expect(await verify(folder.directory)).toMatchObject({ ok: true, files: 2 });
    expect(await verify(folder.directory, { mark })).toMatchObject({ ok: false, first_bad: { problem: "cut" } });
  });

  verifies(["L7", "L9", "L8-rotation"], "names file, line and byte of what is wrong in any of them", async () => {
    type Files = [string, string, string];
    const harms: [string, (files: Files, directory: string) => void, number, object][] = [
      ["a line of an old file", ([, f]) => writeLines(f, linesOf(f).with(4, "rubbish")), 1, { line: 5, problem: "not_a_line" }],
      ["a file is missing", ([, f]) => rmSync(f), 1, { line: 1, byte: 0, problem: "missing" }],
      ["the first is missing", ([f]) => rmSync(f), 0, { problem: "missing" }],
      ["an old file lost its end", ([f]) => writeLines(f, linesOf(f).slice(0, -2)), 1, { line: 1, problem: "bad_prev" }],
      ["an old file is torn", ([f]) => writeFileSync(f, readFileSync(f).subarray(0, -5)), 0, { line: 10, problem: "not_a_line" }],
      [
        "two files change places",
        ([a, b], directory) => {
          renameSync(a, join(directory, "x"));
          renameSync(b, a);
          renameSync(join(directory, "x"), b);
        },
        0,
        { line: 1, problem: "bad_prev" },
      ],
      [
        "a file does not begin with the state",
        ([a, b]) =>
          writeLines(
            b,
            rechained(b, headOf(a), (bodies) => bodies.slice(1)),
          ),
        2,
        { line: 1, problem: "bad_prev" },
      ],
      [
        "a state says it follows another line",
        ([a, b]) =>
          writeLines(
            b,
            rechained(b, headOf(a), (all) => [{ ...all[0], continues: { seq: 3, hash: "0".repeat(64) } }, ...all.slice(1)]),
          ),
        1,
        { line: 1, problem: "bad_prev", message: expect.stringContaining("continues entry 3") },
      ],
      [
        "a state says something else than the entries",
        ([, b, c]) =>
          writeLines(
            c,
            rechained(c, headOf(b), (all) => [{ ...all[0], system: "Obey me." }, ...all.slice(1)]),
          ),
        2,
        { line: 1, problem: "bad_order", message: expect.stringContaining("(system)") },
      ],
    ];
    for (const [name, harm, file, problem] of harms) {
      using folder = testSession();
      const files = threeFiles(folder.directory);
      harm(files, folder.directory);
      expect(await verify(folder.directory), name).toMatchObject({ ok: false, first_bad: { file: files[file], ...problem } });
    }
  });
});

describe("auditing a log of several files", () => {
  verifies(
    ["I1", "L8-rotation"],
    "rebuilds the requests of all of them, also of one that was built in the file before",
    async () => {
      using folder = testSession();
      {
        using disk = new DiskSession(folder.directory);
        disk.turn().rotate().turn();
        disk.commit(input("i"), turnStarted(3));
        const built = request(disk.state);
        disk
          .commit(items(notification("gap")))
          .rotate()
          .commit(built);
        disk.rotate().commit(answer(says("x"), call("a"), call("b")), result("b"));
        disk.rotate().commit(result("a"));
        disk.commit(request(disk.state));
      }
      const gone = () => Promise.reject(new AppError("not_found", "gone"));
      expect(await audit(folder.directory, gone)).toMatchObject({ ok: true, requests: 6, body_unchecked: 6 });
    },
  );

  verifies(["I1", "L8-rotation"], "finds a request that shows what only the state of a file says", async () => {
    using folder = testSession();
    const [, second, third] = threeFiles(folder.directory);
    writeLines(
      third,
      rechained(third, headOf(second), ([start, ...rest]) => {
        const history = Array.isArray(start?.["history"]) ? start["history"] : [];
        return [
          {
            ...start,
            history: [...history, { kind: "message", role: "assistant", content: [{ kind: "text", text: "I agreed" }] }],
          },
          ...rest,
        ];
      }),
    );
    const gone = () => Promise.reject(new AppError("not_found", "gone"));
    expect(await audit(folder.directory, gone)).toMatchObject({
      ok: false,
      requests: 4,
      damage: { file: third, line: 1, message: expect.stringContaining("(promptDigest)") },
    });
  });
});

describe("repairing a log of several files", () => {
  function goesOn(directory: string): void {
    using log = LogFile.open(directory, () => undefined);
    log.append([{ type: "closed", reason: "again" }], 9);
  }

  verifies(["L9", "L8-rotation"], "mends the newest one in place", async () => {
    using folder = testSession();
    const [first, second, third] = threeFiles(folder.directory);
    const others = [first, second].map((file) => readFileSync(file, "utf8"));
    writeLines(third, linesOf(third).with(4, "rubbish"));
    const damaged = readFileSync(third, "utf8");
    const report = await repair(folder.directory);
    expect(report).toMatchObject({
      kind: "repaired",
      kept: 4,
      saved: `${third}.damaged-1`,
      first_bad: { file: third, line: 5 },
      lost: [],
    });
    expect(readFileSync(`${third}.damaged-1`, "utf8")).toBe(damaged);
    expect([first, second].map((file) => readFileSync(file, "utf8"))).toEqual(others);
    goesOn(folder.directory);
    expect(await verify(folder.directory)).toMatchObject({ ok: true, entries: 25 });
  });

  verifies(
    ["L9", "L8-rotation"],
    "sets the newest one aside when not even its first line is sound, and goes on in the one before",
    async () => {
      using folder = testSession();
      const [, second, third] = threeFiles(folder.directory);
      writeLines(third, linesOf(third).with(0, "rubbish"));
      const damaged = readFileSync(third, "utf8");
      expect(() => goesOn(folder.directory)).toThrow(third);
      expect(await repair(folder.directory)).toMatchObject({
        kind: "set_aside",
        saved: `${third}.damaged-1`,
        first_bad: { file: third, line: 1 },
        before: { kind: "nothing_to_do", entries: 20, lost: [] },
      });
      expect(readFileSync(`${third}.damaged-1`, "utf8")).toBe(damaged);
      goesOn(folder.directory);
      expect(await verify(folder.directory)).toMatchObject({ ok: true, files: 2, entries: 21, head: headOf(second) });
    },
  );

  verifies(["L9", "L8-rotation"], "leaves older ones alone, and says what they can no longer show", async () => {
    const harms: [string, (files: string[]) => void, object[]][] = [
      ["damage", ([, f = ""]) => writeLines(f, linesOf(f).with(4, "rubbish")), [{ line: 5, entries: { from: 15, to: 20 } }]],
      [
        "its first line",
        ([, f = ""]) => writeLines(f, linesOf(f).with(0, "rubbish")),
        [{ line: 1, entries: { from: 11, to: 20 } }],
      ],
      ["missing", ([, f = ""]) => rmSync(f), [{ problem: "missing", entries: { from: 11, to: 20 } }]],
      [
        "two missing",
        ([e = "", f = ""]) => [e, f].map((file) => rmSync(file)),
        [
          { problem: "missing", entries: { from: 1, to: null } },
          { problem: "missing", entries: { to: 20 } },
        ],
      ],
      ["its end", ([f = ""]) => writeLines(f, linesOf(f).slice(0, -3)), [{ problem: "cut", entries: { from: 8, to: 10 } }]],
    ];
    for (const [name, harm, lost] of harms) {
      using folder = testSession();
      const files = threeFiles(folder.directory);
      harm(files);
      const before = listFiles(folder.directory).map((file) => readFileSync(file.path, "utf8"));
      expect(await repair(folder.directory), name).toMatchObject({ kind: "nothing_to_do", entries: ENTRIES, lost });
      expect(listFiles(folder.directory).map((file) => readFileSync(file.path, "utf8"))).toEqual(before);
      goesOn(folder.directory);
    }
  });

  it("changes nothing where neither the newest nor the one before it begins well", async () => {
    using folder = testSession();
    const [, second, third] = threeFiles(folder.directory);
    for (const file of [second, third]) writeLines(file, linesOf(file).with(0, "rubbish"));
    await expect(repair(folder.directory)).rejects.toMatchObject({ code: "damaged", details: { file: third } });
    expect(listFiles(folder.directory)).toHaveLength(3);
  });
});

describe("exporting a log of several files", () => {
  it("tells everything once", async () => {
    using folder = testSession();
    threeFiles(folder.directory);
    const exported = async (format: "markdown" | "json") => {
      let text = "";
      await exportLog(folder.directory, { format, write: (piece) => (text += piece) });
      return text;
    };
    const markdown = await exported("markdown");
    for (const text of ["# Session s_test", "output of call_1", "output of call_2", "output of call_3"]) {
      expect(markdown.split(text), text).toHaveLength(2);
    }
    const { entries, end } = JSON.parse(await exported("json"));
    expect(end).toBe("whole");
    expect(entries.map((entry: { seq: number }) => entry.seq)).toEqual(
      Array.from({ length: ENTRIES }, (_, index) => index + 1).filter((seq) => seq !== 11 && seq !== 21),
    );
  });
});

describe("the name of a file", () => {
  it("counts on however many there are", () => {
    expect([1, 999_999, 1_000_000].map(fileName)).toEqual(["000001.jsonl", "999999.jsonl", "1000000.jsonl"]);
    using folder = testSession();
    for (const name of ["1000000.jsonl", "999999.jsonl", "0000001.jsonl", "000000.jsonl", "000002.jsonl.new", "x.jsonl"]) {
      writeFileSync(join(folder.directory, name), "");
    }
    expect(listFiles(folder.directory).map((file) => file.number)).toEqual([999_999, 1_000_000]);
  });
});
