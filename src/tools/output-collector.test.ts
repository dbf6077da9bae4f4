import { Buffer } from "node:buffer";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OutputCollector, withoutCutEnd, withoutCutStart } from "./output-collector.ts";

describe("collected output", () => {
  it("is whole when it fits, however it was cut into chunks", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 60 }),
        fc.array(fc.integer({ min: 0, max: 200 }), { maxLength: 6 }),
        (text, cuts) => {
          const bytes = Buffer.from(text.toWellFormed().replaceAll("\0", "x"));
          const collector = new OutputCollector(150);
          const borders = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b), bytes.length];
          for (let i = 1; i < borders.length; i++) collector.add(bytes.subarray(borders[i - 1], borders[i]));
          expect(collector.text(150)).toBe(bytes.toString("utf8"));
        },
      ),
    );
  });

  it("begins with its start, ends with its end and stays within its cap when it does not fit", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 200, max: 5000 }),
        fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 30 }),
        (cap, sizes) => {
          const collector = new OutputCollector(cap);
          let all = "";
          for (const size of sizes) {
            const piece = Array.from({ length: size }, (_, i) => `${all.length + i},é😀`).join("");
            collector.add(Buffer.from(piece));
            all += piece;
          }
          const text = collector.text(cap);
          if (all.length <= cap) {
            expect(text).toBe(all);
            return;
          }
          expect(text.length).toBeLessThanOrEqual(cap);
          const [start, end] = text.split(/\n\[\.\.\. about .* left out \.\.\.\]\n/);
          expect(start).not.toBe("");
          expect(all.startsWith(start ?? "?")).toBe(true);
          expect(all.endsWith(end ?? "?")).toBe(true);
          expect(text.isWellFormed()).toBe(true);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("counts all that came", () => {
    const collector = new OutputCollector(100);
    for (let i = 0; i < 1000; i++) collector.add(Buffer.alloc(1000, "a"));
    expect(collector.totalBytes).toBe(1_000_000);
    expect(collector.text(100)).toContain("976.5 KiB left out");
  });
});

describe("the border of a character", () => {
  it("is found from both sides of any cut", () => {
    const bytes = Buffer.from("aé日😀z");
    for (let at = 0; at <= bytes.length; at++) {
      expect(withoutCutEnd(bytes.subarray(0, at)).toString("utf8")).not.toContain("\ufffd");
      expect(withoutCutStart(bytes.subarray(at)).toString("utf8")).not.toContain("\ufffd");
    }
  });
});
