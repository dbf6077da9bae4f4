import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { utf8Bytes } from "../base/text.ts";
import { defaultPodName, freshPodName, MAX_NAME_BYTES, parsePodName } from "./pod-name.ts";

describe("a Pod's name", () => {
  it.each(["a", "reviewer-1", "ポッド", "a b", "...", ".hidden", "n".repeat(255), "ポ".repeat(85), "🦉"])("can be %j", (name) => {
    expect(parsePodName(name)).toBe(name);
  });

  it.each([
    ["", "empty"],
    [".", "folder"],
    ["..", "folder"],
    ["-x", "begins with '-'"],
    ["a/b", "'/'"],
    ["a\nb", "control"],
    ["a\0", "control"],
    ["a\u0085", "control"],
    ["a\u2028", "control"],
    ["n".repeat(256), "256 bytes"],
    ["ポ".repeat(86), "258 bytes"],
    ["a\ud800", "Unicode"],
  ])("cannot be %j", (name, why) => {
    expect(() => parsePodName(name)).toThrow(
      expect.objectContaining({ code: "invalid_input", message: expect.stringContaining(why) }),
    );
  });

  it("is one name in both Unicode forms", () => {
    expect(parsePodName("cafe\u0301")).toBe(parsePodName("caf\u00e9"));
  });

  it("in its error is one line", () => {
    expect(() => parsePodName("a\r\n\u2028b")).toThrow(
      expect.objectContaining({ message: expect.stringMatching(/^[^\p{Cc}\p{Zl}\p{Zp}]*$/u) }),
    );
  });

  it("once parsed stays as it is", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        let name: string;
        try {
          name = parsePodName(text);
        } catch {
          return;
        }
        expect(parsePodName(name)).toBe(name);
        expect(utf8Bytes(name)).toBeLessThanOrEqual(MAX_NAME_BYTES);
      }),
    );
  });

  it("made for a directory is always a good one", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary", maxLength: 80 }), { maxLength: 4 }), (parts) => {
        const cwd = `/${parts.join("/")}`;
        for (const name of [defaultPodName(cwd), freshPodName(cwd)]) expect(parsePodName(name)).toBe(name);
        expect(defaultPodName(cwd)).toBe(defaultPodName(cwd));
        expect(freshPodName(cwd)).not.toBe(freshPodName(cwd));
      }),
    );
  });

  it("tells directories of one name apart", () => {
    expect(defaultPodName("/a/project")).toMatch(/^project-[0-9a-f]{6}$/);
    expect(defaultPodName("/a/project")).not.toBe(defaultPodName("/b/project"));
    expect(defaultPodName("/")).toMatch(/^pod-/);
  });
});
