import { execFileSync } from "node:child_process";
import { link, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { createGlobTool, globTool } from "./glob.ts";
import { call, makeTestContext, type TestContext } from "./test-context.ts";
import { toolDefinitions, toolSet } from "./tool-set.ts";

async function fill(root: string, paths: readonly string[]): Promise<void> {
  for (const folder of new Set(paths.map(dirname))) await mkdir(join(root, folder), { recursive: true });
  await Promise.all(paths.map((path) => writeFile(join(root, path), path)));
}

async function list(context: TestContext, pattern: string, more: { readonly path?: string; readonly ignored?: boolean } = {}) {
  const output = await call(globTool, { pattern, ...more }, context);
  expect(output.isError, output.shown).toBe(false);
  return output.shown === "No files match." ? [] : output.shown.split("\n");
}

function deny(path: string, recursive = true) {
  return { path, access: "read", recursive } as const;
}

describe("Glob", () => {
  it("lists files by path, relative to the working directory where they are below it", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, ["b.ts", "src/z.ts", "src/a/b.ts", "src/a.md", ".hidden/c.ts"]);
    await fill(context.outside, ["o.ts"]);
    expect(await list(context, "*.ts")).toEqual([".hidden/c.ts", "b.ts", "src/a/b.ts", "src/z.ts"]);
    expect(await list(context, "src/*.ts")).toEqual(["src/z.ts"]);
    expect(await list(context, "*.ts", { path: "src" })).toEqual(["src/a/b.ts", "src/z.ts"]);
    expect(await list(context, `${context.outside}/*`)).toEqual([join(context.outside, "o.ts")]);
    expect(await list(context, "../outside/*.ts")).toEqual([join(context.outside, "o.ts")]);
    expect(await list(context, "*.nothing")).toEqual([]);
  });

  it("leaves out .git and what .gitignore hides, also for a pattern that names it, unless asked or a folder of it is named", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, [".git/x.js", "keep.js", "app.log", "deps/x.js", "sub/deps/y.js", "important.log"]);
    await writeFile(join(context.cwd, ".gitignore"), "deps/\n*.log\n!important.log\n");
    expect(await list(context, "**")).toEqual([".gitignore", "important.log", "keep.js"]);
    expect(await list(context, "*.log")).toEqual(["important.log"]);
    expect(await list(context, "*.js")).toEqual(["keep.js"]);
    expect(await list(context, "*.js", { ignored: true })).toEqual(["deps/x.js", "keep.js", "sub/deps/y.js"]);
    expect(await list(context, "deps/*.js")).toEqual(["deps/x.js"]);
    expect(await list(context, "*.js", { path: "sub/deps" })).toEqual(["sub/deps/y.js"]);
  });

  it("shows names so that no name looks like two, and names that are not UTF-8 replaced (B113)", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, ["two\nlines", "日本 語.txt", "-x", 'quo"te\\']);
    execFileSync("bash", ["-c", "touch $'bad\\xff'"], { cwd: context.cwd });
    expect(await list(context, "*")).toEqual(["-x", "bad\ufffd", 'quo"te\\', '"two\\nlines"', "日本 語.txt"]);
  });

  it("lists and follows no links, but a folder may be named by one", async () => {
    await using context = await makeTestContext();
    await fill(context.outside, ["secret/s", "open/o"]);
    await symlink(join(context.outside, "open"), join(context.cwd, "door"));
    await symlink(join(context.outside, "open", "o"), join(context.cwd, "file"));
    await fill(context.cwd, ["real"]);
    expect(await list(context, "**")).toEqual(["real"]);
    expect(await list(context, "door/*")).toEqual([join(context.outside, "open", "o")]);
    context.rules = { ...context.rules, deny: [deny(join(context.outside, "open"))] };
    expect(await call(globTool, { pattern: "door/*" }, context)).toMatchObject({
      isError: true,
      shown: expect.stringContaining("denies reading"),
    });
  });

  it("never names what the scope hides or is Wakeful's own", async () => {
    await using context = await makeTestContext();
    const closed = join(context.root, "inside", "data");
    await using closing = await makeTestContext({ closed: [closed] });
    for (const { cwd } of [context, closing]) await fill(cwd, ["a/x", "private/deep/y", "private/z", "one.key", "two.key"]);
    await link(join(context.cwd, "one.key"), join(context.cwd, "a", "same"));
    context.rules = { ...context.rules, deny: [deny(join(context.cwd, "private")), deny(join(context.cwd, "one.key"), false)] };
    expect(await list(context, "**")).toEqual(["a/x", "two.key"]);
    expect(await list(context, "**", { ignored: true })).toEqual(["a/x", "two.key"]);
    for (const path of ["private", "private/deep", "a/../private", `${context.cwd}/private/`]) {
      const output = await call(globTool, { pattern: "*", path }, context);
      expect(output).toMatchObject({ isError: true, shown: expect.stringContaining("denies reading") });
      expect(output.shown).not.toMatch(/\by\b|\bz\b/);
    }
    await fill(context.cwd, ["data/log"]);
    expect(await list({ ...closing, cwd: context.cwd }, "data*/**")).toEqual([]);
    expect(await call(globTool, { pattern: "data/**" }, { ...closing, cwd: context.cwd })).toMatchObject({ isError: true });
  });

  it("takes a rule without what is below it at its word", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, ["dir/x"]);
    context.rules = { ...context.rules, deny: [deny(join(context.cwd, "dir"), false)] };
    expect(await list(context, "**")).toEqual(["dir/x"]);
  });

  it("stops at its cap and at the room there is, and says so", async () => {
    await using context = await makeTestContext({ outputChars: 100_000 });
    for (let folder = 0; folder < 5; folder++)
      await fill(
        context.cwd,
        Array.from({ length: 700 }, (_, i) => `d${folder}/f${String(i).padStart(4, "0")}`),
      );
    const output = await call(globTool, { pattern: "**" }, context);
    const lines = output.shown.split("\n");
    expect(lines).toHaveLength(1001);
    expect(lines[999]).toBe("d1/f0299");
    expect(lines[1000]).toBe("[the first 1000; there are more: narrow the pattern or give a path]");
    // The last one is found behind 3000 that are hidden.
    context.rules = { ...context.rules, deny: [0, 1, 2, 3].map((folder) => deny(join(context.cwd, `d${folder}`))) };
    expect((await list(context, "**"))[0]).toBe("d4/f0000");
    const small = await call(globTool, { pattern: "**" }, { ...context, limits: { ...context.limits, outputChars: 1000 } });
    expect(small.shown.length).toBeLessThanOrEqual(1000);
    expect(small.shown).toMatch(/\[the first \d+; there are more/);
  }, 30_000);

  it.each<[string, { pattern: string; path?: string }, string]>([
    ["a missing folder", { pattern: "*", path: "none" }, "none does not exist"],
    ["a file as folder", { pattern: "*", path: "file" }, "is a file"],
    ["a broken pattern", { pattern: "{a" }, "'{'"],
    ["a NUL (B111)", { pattern: "a\0*" }, "NUL"],
    ["a NUL in the path", { pattern: "*", path: "a\0" }, "NUL"],
    ["a home folder", { pattern: "~/x/*" }, "'~' is not expanded"],
  ])("refuses %s", async (_title, input, reason) => {
    await using context = await makeTestContext();
    await fill(context.cwd, ["file"]);
    expect(await call(globTool, input, context)).toMatchObject({ isError: true, shown: expect.stringContaining(reason) });
  });

  it("names what is missing when there is no ripgrep, and when the working directory is gone (B96)", async () => {
    await using context = await makeTestContext();
    const without = createGlobTool({ findBinary: async () => undefined });
    expect(await call(without, { pattern: "*" }, context)).toMatchObject({
      isError: true,
      shown: expect.stringContaining("ripgrep is missing"),
    });
    await rm(context.cwd, { recursive: true });
    expect(await call(globTool, { pattern: "*" }, context)).toMatchObject({
      isError: true,
      shown: expect.stringContaining("does not exist"),
    });
  });

  it("is a tool of every Pod, and a read-only Pod has no other than those that read", () => {
    expect(toolSet({ readOnly: true }).map((tool) => [tool.name, tool.effect])).toEqual([
      ["Read", "read"],
      ["Glob", "read"],
      ["Grep", "read"],
    ]);
    expect(toolSet({ readOnly: false }).map((tool) => tool.name)).toEqual(["Bash", "Read", "Write", "Edit", "Glob", "Grep"]);
    expect(toolDefinitions(toolSet({ readOnly: true })).every((tool) => tool.description.length < 400)).toBe(true);
  });
});
