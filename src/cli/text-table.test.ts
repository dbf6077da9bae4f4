import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { displayWidth, fitWidth } from "./display-width.ts";
import { textTable } from "./text-table.ts";

describe("the width of a text on a terminal", () => {
  test.each([
    ["", 0],
    ["abc", 3],
    ["日本語", 6],
    ["한국", 4],
    ["ｱｲｳ", 3],
    ["é", 1],
    ["e\u0301", 1],
    ["👩‍👩‍👧‍👦", 2],
    ["🇯🇵", 2],
    ["❤️", 2],
    ["a\u200bb", 2],
    ["①", 1],
    ["，。", 4],
  ])("of %j is %d", (text, width) => {
    expect(displayWidth(text)).toBe(width);
  });

  test("is never exceeded by a cut text, and a text that fits is left as it is", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), fc.nat(30), (text, columns) => {
        const fitted = fitWidth(text, columns);
        expect(displayWidth(fitted)).toBeLessThanOrEqual(columns);
        if (displayWidth(text) <= columns) expect(fitted).toBe(text);
      }),
    );
  });
});

describe("a table", () => {
  test("has its columns one below the other, whatever their characters", () => {
    expect(
      textTable([
        ["NAME", "TURN"],
        ["見張り", "1"],
        ["watcher", "12"],
      ]),
    ).toEqual(["NAME     TURN", "見張り   1", "watcher  12"]);
  });

  test("fits a narrow terminal by giving up the widest cells first", () => {
    const lines = textTable([["a".repeat(40), "b".repeat(60), "short"]], { columns: 40 });
    expect(lines).toEqual([`${"a".repeat(14)}…  ${"b".repeat(15)}…  short`]);
    expect(displayWidth(lines[0] ?? "")).toBeLessThanOrEqual(40);
  });

  test("is never wider than the terminal, however narrow that is", () => {
    const cells = fc.array(fc.string({ unit: "grapheme", maxLength: 20 }), { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(fc.array(cells, { maxLength: 4 }), fc.nat(60), (rows, columns) =>
        textTable(rows, { columns }).every((line) => displayWidth(line) <= columns),
      ),
    );
  });
});
