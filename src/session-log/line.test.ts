import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import type { NewEntry } from "./entry.ts";
import { type ChainHead, decodeLine, EMPTY_HEAD, encodeLine, GENESIS } from "./line.ts";
import { answer, call, input, items, notification, STARTED, says } from "./test-support.ts";

const text = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("", "\n", '","hash":"', '"prev":"', "\ud800", "日本語"));
const entry: fc.Arbitrary<NewEntry> = fc.oneof(
  text.map((said) => answer(says(said))),
  text.map((said) => items(notification("n", { text: said }))),
  text.map((said) => input("i", { text: said })),
  text.map((reason): NewEntry => ({ type: "closed", reason })),
  fc.constant(STARTED),
);
const head: fc.Arbitrary<ChainHead> = fc.record({
  seq: fc.integer({ min: 0, max: 1e9 }),
  hash: fc.stringMatching(/^[0-9a-f]{64}$/),
});

describe("a line", () => {
  verifies(["L7"], "decodes to what was encoded, is one line, and stands in its place of the chain only", () => {
    fc.assert(
      fc.property(entry, head, fc.integer({ min: 0, max: 2e12 }), (one, before, ts) => {
        const line = encodeLine(one, before, ts);
        const bytes = line.bytes.subarray(0, -1);
        expect(bytes.includes(0x0a)).toBe(false);
        expect(line.bytes.at(-1)).toBe(0x0a);
        const decoded = decodeLine(bytes, before);
        expect(decoded).toEqual({ ok: true, entry: { seq: before.seq + 1, ts, ...one }, head: line.head });
        const elsewhere = decodeLine(bytes, { seq: before.seq, hash: "f".repeat(64) });
        expect(elsewhere).toMatchObject({ ok: false, problem: { code: "bad_prev" } });
        expect(decodeLine(bytes, { seq: before.seq + 1, hash: before.hash })).toMatchObject({
          ok: false,
          problem: { code: "bad_seq" },
        });
      }),
    );
  });

  verifies(["L7"], "with any one bit flipped is no line any more", () => {
    const { bytes } = encodeLine(answer(says("hello"), call("c")), EMPTY_HEAD, 5);
    const line = bytes.subarray(0, -1);
    let flipped = 0;
    for (let at = 0; at < line.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const copy = Buffer.from(line);
        copy[at] = (copy[at] ?? 0) ^ (1 << bit);
        expect(decodeLine(copy, EMPTY_HEAD).ok).toBe(false);
        flipped += 1;
      }
    }
    expect(flipped).toBeGreaterThan(2000);
  });

  it("says what is wrong with it", () => {
    const line = (json: object) => {
      const { bytes } = encodeLine({ type: "closed", reason: "x" }, EMPTY_HEAD, 5);
      return { bytes: bytes.subarray(0, -1), json };
    };
    const whole = line({}).bytes;
    const cases: [Buffer, string][] = [
      [Buffer.from(""), "not_a_line"],
      [Buffer.from("{}"), "not_a_line"],
      [Buffer.from("x".repeat(500)), "not_a_line"],
      [whole.subarray(1), "bad_hash"],
      [Buffer.concat([whole, Buffer.from("\r")]), "not_a_line"],
    ];
    for (const [bytes, code] of cases) expect(decodeLine(bytes, EMPTY_HEAD)).toMatchObject({ ok: false, problem: { code } });
    expect(GENESIS).toBe("0".repeat(64));
  });

  it("of an unknown type is a problem and not skipped: it may hold context", () => {
    // Written with a sound chain, as a newer version would.
    const forged = encodeLine(JSON.parse('{"type":"from_the_future","text":"x"}'), EMPTY_HEAD, 5).bytes.subarray(0, -1);
    expect(decodeLine(forged, EMPTY_HEAD)).toMatchObject({ ok: false, problem: { code: "bad_entry" } });
  });
});
