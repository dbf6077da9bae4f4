import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LineDecoder } from "./line-decoder.ts";

function decodeAll(chunks: readonly Uint8Array[], maxBytes = 1000) {
  const decoder = new LineDecoder({ maxBytes });
  const lines: string[] = [];
  const errors: string[] = [];
  for (const chunk of chunks) {
    const result = decoder.push(chunk);
    lines.push(...result.lines);
    if (result.error) errors.push(result.error.code);
  }
  return { lines, errors, decoder };
}

function cut(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const places = [...new Set(cuts.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...places, bytes.length].map((end, i) => bytes.subarray(i === 0 ? 0 : places[i - 1], end));
}

const cuts = fc.array(fc.nat(10_000), { maxLength: 40 });
const line = fc.string({ unit: "binary", maxLength: 60 }).map((text) => text.toWellFormed().replaceAll(/[\n\r]/g, "") || "x");

describe("LineDecoder", () => {
  test("any way of cutting the bytes gives the same lines", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\n\n", "\r\n\r\n"))), cuts, (rows, places) => {
        const bytes = Buffer.from(rows.map(([text, end]) => text + end).join(""));
        const expected = rows.map(([text]) => text);
        expect(decodeAll(cut(bytes, places)).lines).toEqual(expected);
        expect(decodeAll([...bytes].map((byte) => Uint8Array.of(byte))).lines).toEqual(expected);
      }),
    );
  });

  test("random bytes cut anywhere give the same lines and at most one error", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), cuts, (bytes, places) => {
        const whole = decodeAll([bytes], 20);
        const pieces = decodeAll(cut(bytes, places), 20);
        expect(pieces.lines).toEqual(whole.lines);
        expect(whole.errors.length).toBeLessThanOrEqual(1);
        expect(pieces.errors.length).toBeLessThanOrEqual(1);
        // A newline after the rest makes both decide about the same bytes.
        const end = (all: Uint8Array[]) => decodeAll([...all, Buffer.from("\n")], 20);
        expect(end(cut(bytes, places)).lines).toEqual(end([bytes]).lines);
        expect(end(cut(bytes, places)).errors.length).toBe(end([bytes]).errors.length);
      }),
    );
  });

  test("the line separators of Unicode are part of a line", () => {
    expect(decodeAll([Buffer.from("a\u2028b\u2029c\u0085d\u000b\u000ce\n")]).lines).toEqual([
      "a\u2028b\u2029c\u0085d\u000b\u000ce",
    ]);
  });

  test("an unfinished line is not a line", () => {
    const { lines, decoder } = decodeAll([Buffer.from('{"a":1}\n{"b":2}')]);
    expect(lines).toEqual(['{"a":1}']);
    expect(decoder.pendingBytes).toBe(7);
  });

  test("the cap counts bytes without the line break and is reported once, behind the lines before it", () => {
    const max = 10;
    expect(decodeAll([Buffer.from(`${"x".repeat(10)}\r\n`)], max)).toMatchObject({ lines: ["x".repeat(10)], errors: [] });
    expect(decodeAll([Buffer.from("x".repeat(10)), Buffer.from("\r"), Buffer.from("\n")], max)).toMatchObject({ errors: [] });
    expect(decodeAll([Buffer.from("é".repeat(6))], max).errors).toEqual(["too_large"]);
    const late = decodeAll(
      [Buffer.from("ok\n"), Buffer.from("y".repeat(11)), Buffer.from("\nlost\n"), Buffer.from("lost\n")],
      max,
    );
    expect(late).toMatchObject({ lines: ["ok"], errors: ["too_large"] });
    expect(late.decoder.failed).toBe(true);
  });

  test("a flood without a newline is refused before it is stored", () => {
    const decoder = new LineDecoder({ maxBytes: 64 * 1024 });
    const chunk = Buffer.alloc(64 * 1024, 120);
    let errors = 0;
    let highest = 0;
    for (let i = 0; i < 16 * 1024; i++) {
      if (decoder.push(chunk).error) errors++;
      highest = Math.max(highest, decoder.pendingBytes);
    }
    expect(errors).toBe(1);
    expect(highest).toBeLessThanOrEqual(64 * 1024 + 1);
  });

  test("bytes that are not UTF-8 are a typed error, not replacement characters", () => {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98]]) {
      expect(decodeAll([Buffer.from([...bytes, 0x0a])])).toMatchObject({ lines: [], errors: ["invalid_input"] });
    }
  });

  test("the work for a line that arrives byte by byte grows with its length, not with its square", () => {
    const decoder = new LineDecoder({ maxBytes: 8 * 1024 * 1024 });
    const byte = Buffer.from("a");
    for (let i = 0; i < 1024 * 1024; i++) decoder.push(byte);
    expect(decoder.push(Buffer.from("\n")).lines[0]?.length).toBe(1024 * 1024);
  }, 10_000);
});
