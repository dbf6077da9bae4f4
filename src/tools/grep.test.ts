import { execFileSync } from "node:child_process";
import { link, mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { createGrepTool, grepTool } from "./grep.ts";
import { call, makeTestContext, type TestContext } from "./test-context.ts";

async function fill(root: string, files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
}

type Input = Parameters<typeof grepTool.run>[0];

async function grep(context: TestContext, pattern: string, more: Omit<Input, "pattern"> = {}): Promise<string> {
  const output = await call(grepTool, { pattern, ...more }, context);
  expect(output.isError, output.shown).toBe(false);
  return output.shown;
}

function deny(path: string, recursive = true) {
  return { path, access: "read", recursive } as const;
}

describe("Grep", () => {
  it("shows matching lines with numbers below their file, sorted by path", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { "b.txt": "one\ntwo\none\n", "a/x.ts": "none\r\nOne\r\n", ".hidden": "one" });
    await fill(context.outside, { o: "one" });
    expect(await grep(context, "^one")).toBe(".hidden\n1:one\n\nb.txt\n1:one\n3:one");
    expect(await grep(context, "one", { case_insensitive: true, path: "a" })).toBe("a/x.ts\n1:none\n2:One");
    expect(await grep(context, "one", { path: "b.txt" })).toBe("b.txt\n1:one\n3:one");
    expect(await grep(context, "one", { path: "../outside" })).toBe(`${context.outside}/o\n1:one`);
    expect(await grep(context, "zero")).toBe("No matches.");
    expect(await grep(context, "-one|--|two")).toBe("b.txt\n2:two");
  });

  it("lists files, and counts matching lines", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { a: "x\nx x\n", b: "y", c: "x" });
    expect(await grep(context, "x", { output: "files" })).toBe("a\nc");
    expect(await grep(context, "x", { output: "count" })).toBe("a: 2\nc: 1");
    expect(await grep(context, "x", { output: "count", path: "a" })).toBe("a: 2");
    expect((await call(grepTool, { pattern: "x", output: "count" }, context)).summary).toBe(
      "Grep x: 3 matching lines in 2 files",
    );
  });

  it("shows context, with a mark where lines are left out, and none for a match that is one too many", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { a: "1\n2\nx\n4\n5\n6\n7\nx\n9\n", b: "1\nx\n" });
    expect(await grep(context, "x", { context: 1 })).toBe("a\n2-2\n3:x\n4-4\n--\n7-7\n8:x\n9-9\n\nb\n1-1\n2:x");
    expect(await grep(context, "x", { context: 1, limit: 1 })).toBe(
      "a\n2-2\n3:x\n4-4\n[the first 1 matching line; there are more: raise limit, or narrow pattern, path, glob or type]",
    );
    expect(await grep(context, "x", { context: 1, limit: 3 })).not.toContain("more");
  });

  it("keeps to files that match glob and type, and never finds what is ignored by naming it", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, {
      ".gitignore": "*.log\nout/\n",
      "app.log": "x",
      "out/x.ts": "x",
      "src/a.ts": "x",
      "src/a.test.ts": "x",
      "src/b/c.css": "x",
      "x.py": "x",
    });
    const files = (more: Omit<Input, "pattern">) => grep(context, "x", { ...more, output: "files" });
    expect(await files({ glob: "*.ts" })).toBe("src/a.test.ts\nsrc/a.ts");
    expect(await files({ glob: "!*.test.*" })).toBe("src/a.ts\nsrc/b/c.css\nx.py");
    expect(await files({ glob: "src/**/*.{css,py}" })).toBe("src/b/c.css");
    expect(await files({ glob: "src/**" })).toBe("src/a.test.ts\nsrc/a.ts\nsrc/b/c.css");
    expect(await files({ type: "py" })).toBe("x.py");
    expect(await files({ type: "ts", glob: "*.test.ts" })).toBe("src/a.test.ts");
    expect(await files({ glob: "*.log" })).toBe("No matches.");
    expect(await files({ glob: "*.log", ignored: true })).toBe("app.log");
    expect(await files({ path: "out" })).toBe("out/x.ts");
  });

  it.each<[string, Partial<Input>, RegExp]>([
    ["a pattern that is none", { pattern: "(" }, /regex parse error[\s\S]*unclosed group/],
    ["look-around", { pattern: "(?=x)" }, /look-around[\s\S]*Grep has no such option/],
    ["an unknown type", { type: "nonsense" }, /unrecognized file type: nonsense/],
    ["a broken glob", { glob: "[a" }, /The glob \[a has a '\['/],
    ["a NUL (B111)", { pattern: "a\0b" }, /NUL/],
    ["a NUL in the glob", { glob: "a\0b" }, /NUL/],
    ["what is not there", { path: "none" }, /none does not exist/],
    ["a pattern that no process can be given", { pattern: "x".repeat(200_000) }, /too long/],
  ])("refuses %s with the reason", async (_title, input, reason) => {
    await using context = await makeTestContext();
    await fill(context.cwd, { a: "x" });
    const output = await call(grepTool, { pattern: "x", ...input }, context);
    expect(output.isError).toBe(true);
    expect(output.shown).toMatch(reason);
  });

  it("does not wait for FIFOs and sockets, and refuses to search one (B109)", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { z: "x" });
    execFileSync("mkfifo", [join(context.cwd, "fifo")]);
    const server = createServer().listen(join(context.cwd, "socket"));
    try {
      expect(await grep(context, "x")).toBe("z\n1:x");
      for (const path of ["fifo", "socket", "/dev/zero"])
        expect(await call(grepTool, { pattern: "x", path }, context)).toMatchObject({
          isError: true,
          shown: expect.stringContaining("not a regular file"),
        });
    } finally {
      server.close();
    }
  });

  it("skips binary files, and says so where one was named or begins like text", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, {
      "a.png": "\x89PNG\r\n\x1a\n\0\0hello",
      "late.bin": `hello\n${"a\n".repeat(100_000)}\0`,
      text: "hello",
    });
    expect(await grep(context, "hello")).toBe("late.bin\n1:hello\n[binary from here on: not searched further]\n\ntext\n1:hello");
    expect(await grep(context, "hello", { path: "a.png" })).toMatch(/^\[binary file \(.+\), \d+ bytes: not searched\]$/);
  });

  it("shows Latin-1 replaced and UTF-16 as text (B113)", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { latin: Buffer.from("caf\xe9 x\n", "latin1"), utf16: Buffer.from("\ufeffcafé x\r\n", "utf16le") });
    const output = await grep(context, "caf.*x|caf");
    expect(output).toBe("latin\n1:caf\ufffd x\n\nutf16\n1:café x");
    expect(output.isWellFormed()).toBe(true);
  });

  it("cuts long lines, one of 30 MB too, in flat memory", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { long: `${"x".repeat(30 * 1024 * 1024)}needle\nneedle\n`, wide: `needle ${"日本".repeat(2000)}` });
    const before = process.memoryUsage.rss();
    const output = await grep(context, "needle");
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
    expect(output).toMatch(/^long\n1:x{400,}.*long line\]\n2:needle\n\nwide\n1:needle 日本/);
    expect(output.length).toBeLessThan(2500);
  });

  it("never shows what the scope hides: no name, no content, no count, no error", async () => {
    await using context = await makeTestContext();
    const secret = "hidden-content";
    await fill(context.cwd, { "a/x": "open", "private/deep/y": secret, "private/z": secret, "one.key": secret, "pr\nx": secret });
    await fill(context.outside, { o: secret });
    await link(join(context.cwd, "one.key"), join(context.cwd, "same"));
    await symlink(join(context.cwd, "private"), join(context.cwd, "door"));
    await symlink(context.outside, join(context.cwd, "out"));
    context.rules = {
      ...context.rules,
      deny: [deny(join(context.cwd, "private")), deny(join(context.cwd, "one.key"), false), deny(context.outside)],
    };
    for (const output of ["content", "files", "count"] as const) {
      expect(await grep(context, secret, { output })).toBe("No matches.");
      expect(await grep(context, ".", { output, ignored: true, limit: 1 })).not.toMatch(/hidden|private|key|same|more/);
    }
    for (const path of ["private", "private/z", "door", "door/deep/y", "one.key", "same", "out", "../outside/o"])
      expect(await call(grepTool, { pattern: ".", path }, context), path).toMatchObject({
        isError: true,
        shown: expect.stringContaining("denies reading"),
      });
    context.rules = { ...context.rules, deny: [] };
    expect(await grep(context, secret, { output: "files" })).toBe("one.key\nprivate/deep/y\nprivate/z\nsame");
  });

  it("asks the scope again for every file: a rule that comes while it searches counts", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { a: "x", b: "x" });
    const { check } = context.scope;
    const scope = {
      ...context.scope,
      check: (...args: Parameters<typeof check>) => {
        if (args[0].realPath.endsWith("/a")) context.rules = { ...context.rules, deny: [deny(join(context.cwd, "b"), false)] };
        return check(...args);
      },
    };
    expect((await call(grepTool, { pattern: "x", output: "files" }, { ...context, scope })).shown).toBe("a");
  });

  it("stops when the answer is full, and says so", async () => {
    await using context = await makeTestContext({ outputChars: 2000 });
    await fill(context.cwd, { many: "some words to find\n".repeat(50_000) });
    const output = await grep(context, "words", { limit: 10_000 });
    expect(output.length).toBeLessThanOrEqual(2000);
    expect(output).toMatch(/\n\[the first \d+ matching lines; there are more: narrow pattern, path, glob or type\]$/);
  });

  it("finds its matches among thousands of files, without asking for each hidden one", async () => {
    await using context = await makeTestContext();
    for (let folder = 0; folder < 60; folder++) {
      await mkdir(join(context.cwd, `d${folder}`));
      await Promise.all(Array.from({ length: 50 }, (_, i) => writeFile(join(context.cwd, `d${folder}`, `f${i}`), `needle ${i}`)));
    }
    context.rules = { ...context.rules, deny: Array.from({ length: 59 }, (_, i) => deny(join(context.cwd, `d${i}`))) };
    const check = vi.spyOn(context.scope, "check");
    const output = await call(grepTool, { pattern: "needle", output: "count" }, context);
    expect(output.summary).toBe("Grep needle: 50 matching lines in 50 files");
    // One question for the root, each folder, and each file that is shown.
    expect(check.mock.calls.length).toBe(1 + 60 + 50);
  }, 30_000);

  it("says that the time limit was reached, with what was found until then, and stops when it is cancelled", async () => {
    await using context = await makeTestContext();
    await fill(context.cwd, { a: "x" });
    const slow = join(context.root, "rg");
    await writeFile(slow, "#!/bin/sh\nprintf './a\\0001:x\\n'\nexec sleep 1000\n", { mode: 0o755 });
    const tool = createGrepTool({ findBinary: async () => slow, timeoutMs: 500 });
    const output = await call(tool, { pattern: "x" }, context);
    expect(output.shown).toMatch(/^a\n1:x\n\[time limit of 0\.5 s reached: not everything was searched/);
    expect(output.isError).toBe(false);
    const patient = createGrepTool({ findBinary: async () => slow });
    const running = call(patient, { pattern: "x" }, context);
    context.cancel();
    expect(await running).toMatchObject({ isError: true, shown: "The call was cancelled." });
    expect(context.groups.size).toBe(0);
  });
});
