import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { replaceLiterally } from "./literal-edit.ts";

const edit = (units: string, oldUnits: string, newUnits: string, all = false) =>
  replaceLiterally(units, { oldUnits, newUnits, all });
const edited = (units: string, oldUnits: string, newUnits: string, all = false) => {
  const outcome = edit(units, oldUnits, newUnits, all);
  return outcome.kind === "edited" ? outcome.units : outcome.kind;
};

describe("a literal replacement", () => {
  it.each<[string, string, string, string, string]>([
    ["takes $& and $1 for what they are", "a b", "b", "$& $1 $$ $`", "a $& $1 $$ $`"],
    ["writes CRLF in a CRLF file", "1\r\n2\r\n3\r\n", "1\n2\n", "x\ny\nz\n", "x\r\ny\r\nz\r\n3\r\n"],
    ["keeps a missing final line end", "1\r\n2\r\nlast", "2\nlast", "two\nnew last", "1\r\ntwo\r\nnew last"],
    ["takes CRLF in old and new for LF in an LF file", "1\n2\n3", "1\r\n2", "x\r\ny", "x\ny\n3"],
    ["keeps each line end of a mixed file", "1\r\n2\n3\r\n4\n", "2\n3\n4", "2\nthree\n4", "1\r\n2\nthree\r\n4\n"],
    ["takes the line end of the place in a mixed file", "1\n2\n3\r\n4\r\n", "3", "3\nb", "1\n2\n3\r\nb\r\n4\r\n"],
    ["matches from a line break on", "a\r\nb\r\n", "\nb", "\nc\nd", "a\r\nc\r\nd\r\n"],
    ["deletes lines", "1\r\n2\r\n3\r\n", "2\n", "", "1\r\n3\r\n"],
    ["leaves a lone CR alone", "a\rb\r\nc", "c", "d", "a\rb\r\nd"],
    ["adds at the end of a file without line ends", "abc", "c", "c\nd", "abc\nd"],
  ])("%s", (_title, units, oldUnits, newUnits, expected) => {
    expect(edited(units, oldUnits, newUnits)).toBe(expected);
  });

  it("replaces every occurrence when asked to, each with the line end of its place", () => {
    expect(edited("x\r\nx\nx", "x", "a\nb", true)).toBe("a\r\nb\r\na\nb\na\nb");
    expect(edit("xxx", "x", "xx", true)).toMatchObject({ units: "xxxxxx", count: 3, lines: [1, 1, 1] });
  });

  it("names how often and where a text occurs that is not unique, also when it overlaps itself", () => {
    expect(edit("a\nb\r\na\n", "a", "c")).toEqual({ kind: "ambiguous", count: 2, lines: [1, 3] });
    expect(edit("aaa", "aa", "b")).toMatchObject({ kind: "ambiguous" });
    expect(edit("a\r\nb\nc\na\nb\n", "a\nb", "c")).toMatchObject({ kind: "ambiguous", count: 2 });
  });

  it("refuses to grow without bound", () => {
    expect(edit("a".repeat(100_000), "a", "b".repeat(1000), true)).toEqual({ kind: "too_large" });
  });

  it("is what a split and join of the text without CR says, for any file", () => {
    const file = fc.array(fc.constantFrom("a", "b", "$&", "\n", "\r\n", "é"), { maxLength: 30 }).map((parts) => parts.join(""));
    const text = fc.array(fc.constantFrom("a", "b", "\n", "$1"), { minLength: 1, maxLength: 3 }).map((parts) => parts.join(""));
    const flat = (units: string) => units.replaceAll("\r\n", "\n");
    let changed = 0;
    fc.assert(
      fc.property(file, text, text, (units, oldUnits, newUnits) => {
        fc.pre(oldUnits !== newUnits);
        const outcome = edit(units, oldUnits, newUnits, true);
        const expected = flat(units).split(oldUnits).join(newUnits);
        if (outcome.kind !== "edited") {
          expect(flat(units)).not.toContain(oldUnits);
          return;
        }
        changed++;
        expect(flat(outcome.units)).toBe(expected);
        // The line ends before the first and behind the last occurrence are the file's own.
        const first = flat(units).indexOf(oldUnits);
        const kept = units.slice(0, first);
        if (flat(kept) === kept) expect(outcome.units.startsWith(kept)).toBe(true);
        if (!/(?<!\r)\n/.test(units)) expect(/(?<!\r)\n/.test(outcome.units) && units.includes("\n")).toBe(false);
      }),
      { numRuns: 500 },
    );
    expect(changed).toBeGreaterThan(50);
  });
});
