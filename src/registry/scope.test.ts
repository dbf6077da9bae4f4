import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Scope, ScopeRule } from "../protocol/scope-rule.ts";
import { accessTo, foldedName, isReadOnly, isWithin, overlap, pathComponents, ruleCovers } from "./scope.ts";

const rule = (path: string, access: ScopeRule["access"] = "write", recursive = true): ScopeRule => ({ path, access, recursive });

const component = fc.constantFrom("a", "b", "ab", "A");
const path = fc.array(component, { maxLength: 3 }).map((parts) => `/${parts.join("/")}`);
const anyRule = fc.record({ path, access: fc.constantFrom("read" as const, "write" as const), recursive: fc.boolean() });
const scope: fc.Arbitrary<Scope> = fc.record({
  allow: fc.array(anyRule, { maxLength: 3 }),
  deny: fc.array(anyRule, { maxLength: 3 }),
});

/** Every path of up to four components; "z" stands in no rule, so it is the name that nobody thought of. */
function universe(): string[] {
  const names = ["a", "b", "ab", "A", "z"];
  const paths: string[][] = [[]];
  for (let from = 0, depth = 0; depth < 4; depth++) {
    const to = paths.length;
    for (; from < to; from++) for (const name of names) paths.push([...(paths[from] ?? []), name]);
  }
  return paths.map((parts) => `/${parts.join("/")}`);
}
const everywhere = universe();

describe("a rule", () => {
  it.each([
    ["/w/a", "/w/a", true],
    ["/w/a", "/w/a/x", true],
    ["/w/a", "/w/a/x/y", true],
    ["/w/a", "/w/a-evil/x", false],
    ["/w/a", "/w/a/../b/x", false],
    ["/w/a", "/w//a/./x", true],
    ["/w/a/", "/w/a/x/", true],
    ["/w/a", "/w/A/x", false],
    ["/w/a", "/w", false],
    ["/", "/anything", true],
  ])("on %s and the path %s: covered is %s (B115)", (of, asked, covered) => {
    expect(ruleCovers(rule(of), asked)).toBe(covered);
  });

  it("that is not recursive covers its own path alone", () => {
    expect(ruleCovers(rule("/w/a", "write", false), "/w/a")).toBe(true);
    expect(ruleCovers(rule("/w/a", "write", false), "/w/a/x")).toBe(false);
  });

  it("covers what folds to the same name where the file system folds, and only there (B116)", () => {
    const composed = "/w/caf\u00e9";
    const decomposed = "/W/CAFE\u0301/x";
    expect(ruleCovers(rule(composed), decomposed)).toBe(false);
    expect(ruleCovers(rule(composed), decomposed, { folds: true })).toBe(true);
  });
});

describe("access", () => {
  it.each<[string, Scope, string]>([
    ["an empty scope reads", { allow: [], deny: [] }, "read"],
    ["a write rule writes", { allow: [rule("/w")], deny: [] }, "write"],
    ["denied writing reads", { allow: [rule("/w")], deny: [rule("/w/a", "write")] }, "read"],
    ["denied reading takes all", { allow: [rule("/w")], deny: [rule("/w/a", "read")] }, "none"],
    ["a read rule does not write", { allow: [rule("/w", "read")], deny: [] }, "read"],
  ])("%s", (_title, given, expected) => {
    expect(accessTo(given, "/w/a/x")).toBe(expected);
  });

  it("never grows by a further denial, whatever is allowed", () => {
    const rank = { none: 0, read: 1, write: 2 };
    fc.assert(
      fc.property(scope, anyRule, path, (given, denial, asked) => {
        const before = accessTo(given, asked);
        const after = accessTo({ ...given, deny: [...given.deny, denial] }, asked);
        expect(rank[after]).toBeLessThanOrEqual(rank[before]);
        if (ruleCovers(denial, asked)) expect(after).not.toBe("write");
      }),
    );
  });

  it("is the same for two spellings of one path", () => {
    fc.assert(
      fc.property(scope, path, (given, asked) => {
        expect(accessTo(given, `/.${asked.replaceAll("/", "//")}/q/../`)).toBe(accessTo(given, asked));
      }),
    );
  });

  it("is read-only exactly when nothing anywhere may be written without a denial", () => {
    fc.assert(
      fc.property(scope, (given) => {
        const writable = everywhere.some((p) => accessTo({ ...given, deny: [] }, p) === "write");
        expect(isReadOnly(given)).toBe(!writable);
      }),
      { numRuns: 50 },
    );
  });
});

describe("the overlap of two write scopes", () => {
  it("names a path when, and only when, some path could be written by both (I9)", () => {
    let overlaps = 0;
    fc.assert(
      fc.property(scope, scope, (a, b) => {
        const both = everywhere.filter((p) => accessTo(a, p) === "write" && accessTo(b, p) === "write");
        const named = overlap(a, b);
        expect(named !== undefined).toBe(both.length > 0);
        if (named === undefined) return;
        overlaps++;
        expect(both.some((p) => isWithin(named, p))).toBe(true);
      }),
      { numRuns: 400 },
    );
    expect(overlaps).toBeGreaterThan(10);
  });

  it("does not depend on who asks first", () => {
    fc.assert(
      fc.property(scope, scope, (a, b) => {
        expect(overlap(a, b) === undefined).toBe(overlap(b, a) === undefined);
      }),
    );
  });

  it("leaves two names apart that differ in case, until the file system folds (B116)", () => {
    const upper = { allow: [rule("/w/Dir")], deny: [] };
    const lower = { allow: [rule("/w/dir")], deny: [] };
    expect(overlap(upper, lower)).toBeUndefined();
    expect(overlap(upper, lower, { folds: true })).toBe("/w/Dir");
  });
});

describe("names and components", () => {
  it("fold to a form that folds to itself, for every letter case and Unicode form", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (name) => {
        const folded = foldedName(name);
        expect(foldedName(folded)).toBe(folded);
        expect(foldedName(name.normalize("NFD"))).toBe(folded);
        expect(foldedName(name.normalize("NFC"))).toBe(folded);
      }),
    );
    expect(foldedName("Straße ΑΣ k\u212a")).toBe(foldedName("STRASSE ας KK"));
  });

  it("never lead above the root", () => {
    expect(pathComponents("/../../a/./b//c/..")).toEqual(["a", "b"]);
  });
});
