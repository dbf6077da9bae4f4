import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseGlob, splitLiteralFolders } from "./glob-pattern.ts";
import { findRipgrep } from "./ripgrep.ts";

function matches(pattern: string, path: string): boolean {
  const glob = parseGlob(pattern);
  if (!glob.ok) throw new Error(glob.reason);
  return glob.matches(path);
}

describe("a glob pattern", () => {
  it.each<[string, readonly string[], readonly string[]]>([
    ["*.ts", ["a.ts", "x/y/a.ts", ".ts"], ["a.tsx", "a.ts/x"]],
    ["src/*.ts", ["src/a.ts"], ["src/x/a.ts", "x/src/a.ts", "src.ts"]],
    ["src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "srcx/a.ts"]],
    ["**/test/**", ["test/a", "x/test/y/a"], ["test", "x/testy/a"]],
    ["src/", ["src/a", "src/x/a"], ["src", "x/src/a"]],
    ["**", ["a", "x/y"], []],
    ["{a,b{c,d}}.js", ["a.js", "bc.js", "x/bd.js"], ["b.js", "c.js"]],
    ["src/{a/x,b}.js", ["src/a/x.js", "src/b.js"], ["src/x.js"]],
    ["[a-c]?[!0-9].md", ["axy.md", "c0-.md"], ["dxy.md", "ax1.md", "ax/.md"]],
    ["[]x].md", ["].md", "x.md"], ["y.md"]],
    ["\\*.md", ["*.md"], ["a.md"]],
    ["./a.ts", ["a.ts"], ["x/a.ts"]],
    ["/a.ts", ["a.ts"], ["x/a.ts"]],
    ["日本*?", ["日本語", "日本👩"], ["日本"]],
  ])("%s matches what it says", (pattern, yes, no) => {
    expect(yes.filter((path) => !matches(pattern, path))).toEqual([]);
    expect(no.filter((path) => matches(pattern, path))).toEqual([]);
  });

  it.each([
    ["{a", "'{'"],
    ["[a", "'['"],
    ["a\0b", "NUL"],
    ["{a,b}".repeat(20), "too many"],
    ["a".repeat(5000), "longer"],
  ])("%j is refused with the reason", (pattern, reason) => {
    expect(parseGlob(pattern)).toMatchObject({ ok: false, reason: expect.stringContaining(reason) });
  });

  it("is never slow", () => {
    const started = performance.now();
    expect(matches(`${"*a".repeat(200)}b`, "a".repeat(255))).toBe(false);
    expect(matches(`${"**/a/".repeat(50)}b`, "a/".repeat(1000))).toBe(false);
    expect(performance.now() - started).toBeLessThan(1000);
  });

  it("gives the folders in front of the first wildcard as where to search", () => {
    expect(splitLiteralFolders("src/a/*.ts")).toEqual({ folder: "src/a", rest: "*.ts" });
    expect(splitLiteralFolders("/*.ts")).toEqual({ folder: "/", rest: "*.ts" });
    expect(splitLiteralFolders("/etc/hosts")).toEqual({ folder: "/etc", rest: "hosts" });
    expect(splitLiteralFolders("*.ts")).toEqual({ folder: "", rest: "*.ts" });
    expect(splitLiteralFolders("src/")).toEqual({ folder: "src", rest: "**" });
    expect(splitLiteralFolders("a/{b/c,d}")).toEqual({ folder: "a", rest: "{b/c,d}" });
  });
});

describe("the glob pattern and ripgrep", () => {
  const paths = [
    "a",
    "b",
    "ab",
    ".a",
    "a.b",
    "c/a",
    "c/.a",
    "c/ab/a",
    "c/ab/b.a",
    "c/c/c/ab",
    "ac/b",
    "abc/a/b",
    ".c/a/b",
    "b-a",
  ];
  let root = "";
  let binary = "";
  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), "wakeful-glob-"));
    for (const path of paths.filter((one) => one !== "c")) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), "");
    }
    binary = (await findRipgrep(process.env["PATH"])) ?? "";
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  // Of ASCII and without negated classes: in ripgrep those match "/" too, and "?" is one byte.
  it("agree on which files match", () => {
    const name = fc
      .stringMatching(/^([abc.]|\*|\?|\[a-b\]|\{a,b\}|\{c,ab\}){1,4}$/)
      .filter((text) => !/^\.{1,2}$|\*\*/.test(text));
    const pattern = fc
      .array(fc.oneof({ weight: 3, arbitrary: name }, { weight: 1, arbitrary: fc.constant("**") }), {
        minLength: 0,
        maxLength: 2,
      })
      .chain((folders) => name.map((last) => [...folders, last].join("/")));
    let found = 0;
    fc.assert(
      fc.property(pattern, (glob) => {
        const theirs = ripgrepFiles(binary, root, glob);
        found += theirs.length;
        const ours = paths.filter((path) => matches(glob, path));
        // A folder that matches is shown with all that is in it by ripgrep; here only files are matched.
        const extra = theirs.filter((path) => !ours.includes(path));
        expect(
          ours.filter((path) => !theirs.includes(path)),
          glob,
        ).toEqual([]);
        expect(
          extra.filter((path) => !foldersOf(path).some((folder) => matches(glob, folder))),
          glob,
        ).toEqual([]);
      }),
      { numRuns: 60 },
    );
    expect(found).toBeGreaterThan(20);
  }, 60_000);

  it("agree on what file names a match must have", () => {
    const glob = parseGlob("c/**/{a,b.*}");
    expect(glob.ok && glob.names).toEqual(["a", "b.*"]);
    for (const pattern of ["c/**", "?.ts"]) expect(parseGlob(pattern)).toMatchObject({ ok: true, names: undefined });
  });
});

function ripgrepFiles(binary: string, cwd: string, glob: string): readonly string[] {
  try {
    const args = ["--no-config", "--files", "--hidden", "--no-ignore", `--glob=${glob}`];
    return execFileSync(binary, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] })
      .split("\n")
      .filter(Boolean);
  } catch (thrown) {
    if (thrown instanceof Error && "status" in thrown && thrown.status === 1) return [];
    throw thrown;
  }
}

function foldersOf(path: string): readonly string[] {
  return path
    .split("/")
    .slice(0, -1)
    .map((_, i, all) => all.slice(0, i + 1).join("/"));
}
