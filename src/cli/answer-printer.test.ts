import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnswerPrinter } from "./answer-printer.ts";
import { toInert } from "./inert.ts";

function printed(play: (printer: AnswerPrinter) => void): string {
  let text = "";
  play(new AnswerPrinter((piece) => (text += piece)));
  return text;
}

describe("AnswerPrinter", () => {
  test("whatever the cuts and the attempts that failed alike, the committed text stands there once", () => {
    const attempts = fc.array(fc.nat(), { maxLength: 3 });
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), attempts, fc.array(fc.integer({ min: 1, max: 7 })), (text, failures, sizes) => {
        const stream = (printer: AnswerPrinter, length: number) => {
          for (let at = 0, i = 0; at < length; i++) {
            const end = Math.min(length, at + (sizes[i % Math.max(1, sizes.length)] ?? 3));
            printer.delta(text.slice(at, end));
            at = end;
          }
        };
        const all = printed((printer) => {
          for (const failure of failures) {
            stream(printer, failure % (text.length + 1));
            printer.reset();
          }
          stream(printer, text.length);
          printer.commit(text);
        });
        expect(all.replace(/\n$/, "")).toBe(toInert(text).replace(/\n$/, ""));
      }),
    );
  });

  test("an attempt that says something else starts on a new line", () => {
    const text = printed((printer) => {
      printer.delta("I think A");
      printer.reset();
      printer.delta("I kn");
      printer.delta("ow B");
      printer.commit("I know B");
    });
    expect(text).toBe("I think A\nI know B\n");
  });

  test("a notice in between breaks the line and loses nothing", () => {
    const text = printed((printer) => {
      printer.delta("one ");
      printer.breakLine();
      printer.delta("two");
      printer.commit("one two");
    });
    expect(text).toBe("one \ntwo\n");
  });
});

describe("toInert", () => {
  test("no control character but line break and tab survives, and no text changes otherwise", () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the control characters are the point
    const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;
    // A plain comparison: an `expect` for each run costs a hundred times as much.
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const inert = toInert(text);
        return !control.test(inert) && (control.test(text) || inert === text);
      }),
    );
    expect(toInert("\u001b]52;c;eA==\u0007a\r\nb\tc")).toBe("\u241b]52;c;eA==\u2407a\nb\tc");
  });
});
