import { Buffer } from "node:buffer";
import { chmod, mkdir, readdir, readFile, rm, stat, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { editTool } from "./edit.ts";
import { readTool } from "./read.ts";
import { call, makeTestContext, type TestContext } from "./test-context.ts";
import { writeTool } from "./write.ts";

const bytesOf = (context: TestContext, name: string) => readFile(join(context.cwd, name));
const put = (context: TestContext, name: string, content: string | Uint8Array) => writeFile(join(context.cwd, name), content);

describe("Read", () => {
  it("shows a file exactly as it is", async () => {
    await using context = await makeTestContext();
    await put(context, "a.txt", "one\n\ttwo  \n日本 no end");
    expect(await call(readTool, { path: "a.txt" }, context)).toEqual({
      summary: "Read a.txt: 3 lines",
      content: "one\n\ttwo  \n日本 no end",
      isError: false,
      shown: "one\n\ttwo  \n日本 no end",
    });
  });

  it("shows lines by offset and limit and says what more there is", async () => {
    await using context = await makeTestContext();
    await put(context, "a", "1\n2\n3\n4\n5\n");
    expect((await call(readTool, { path: "a", offset: 2, limit: 2 }, context)).shown).toBe(
      "[lines 2-3 of 5; go on with offset 4]\n2\n3\n",
    );
    expect((await call(readTool, { path: "a", offset: 4 }, context)).shown).toBe("[lines 4-5 of 5]\n4\n5\n");
    expect(await call(readTool, { path: "a", offset: 6 }, context)).toMatchObject({
      isError: true,
      shown: expect.stringContaining("only 5 lines"),
    });
  });

  it("cuts at a line and says where to go on, so that no line is lost (I10)", async () => {
    await using context = await makeTestContext({ outputChars: 1000 });
    const lines = Array.from({ length: 300 }, (_, i) => `line ${i + 1}\n`);
    await put(context, "a", lines.join(""));
    let offset = 1;
    let all = "";
    for (let calls = 0; calls < 20; calls++) {
      const { shown } = await call(readTool, { path: "a", offset }, context);
      expect(shown.length).toBeLessThanOrEqual(1000);
      all += shown.replace(/^\[.*\]\n/, "");
      const next = /go on with offset (\d+)/.exec(shown)?.[1];
      if (next === undefined) break;
      offset = Number(next);
    }
    expect(all).toBe(lines.join(""));
  });

  it("cuts a line that is too long alone, between characters", async () => {
    await using context = await makeTestContext({ outputChars: 1000 });
    await put(context, "a", `${"😀".repeat(5000)}\nnext\n`);
    const { shown } = await call(readTool, { path: "a" }, context);
    expect(shown).toMatch(/^\[line 1 is cut after 700 characters; .*offset 2\]\n(😀)+$/u);
  });

  it("says that a file is empty, missing or a directory, and what may be meant", async () => {
    await using context = await makeTestContext();
    await put(context, "empty", "");
    await put(context, "Read-Me.md", "x");
    await mkdir(join(context.cwd, "dir"));
    expect((await call(readTool, { path: "empty" }, context)).shown).toBe("[the file is empty]");
    expect((await call(readTool, { path: "readme.txt" }, context)).shown).toBe(
      `readme.txt does not exist. In ${context.cwd} there is: Read-Me.md.`,
    );
    expect((await call(readTool, { path: "no/where" }, context)).shown).toContain(`in ${context.cwd} there is no no`);
    expect((await call(readTool, { path: "dir" }, context)).shown).toContain("is a directory. List it with Glob");
    expect((await call(readTool, { path: "empty/x" }, context)).isError).toBe(true);
  });

  it("names binary files without showing them", async () => {
    await using context = await makeTestContext();
    await put(context, "p", Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1"));
    await put(context, "n", Buffer.from([1, 0, 2, 0]));
    expect((await call(readTool, { path: "p" }, context)).shown).toBe("[binary file (a PNG image), 16 bytes: not shown]");
    expect((await call(readTool, { path: "n" }, context)).shown).toBe("[binary file (unknown kind), 4 bytes: not shown]");
    await put(context, "t", "PK is a text, BZh too\n");
    expect((await call(readTool, { path: "t" }, context)).shown).toBe("PK is a text, BZh too\n");
  });

  it("decodes UTF-16 by its mark and replaces what is not UTF-8 (B113)", async () => {
    await using context = await makeTestContext();
    await put(context, "le", Buffer.from("\ufeffhé\r\nllo😀", "utf16le"));
    await put(context, "be", Buffer.from("\ufeffhé\nllo", "utf16le").swap16());
    await put(context, "latin", Buffer.from("caf\xe9\n", "latin1"));
    expect((await call(readTool, { path: "le" }, context)).shown).toBe(
      "[line ends are CRLF; Edit and Write keep them; UTF-16; Edit and Write keep it]\nhé\nllo😀",
    );
    expect((await call(readTool, { path: "be" }, context)).shown).toBe("[UTF-16; Edit and Write keep it]\nhé\nllo");
    expect((await call(readTool, { path: "latin" }, context)).shown).toBe(
      "[bytes that are not valid text are shown as \ufffd]\ncaf\ufffd\n",
    );
  });

  it("takes part of a huge file in flat memory and bounded time (B109)", async () => {
    await using context = await makeTestContext();
    await put(context, "big", "first\nsecond\n");
    await truncate(join(context.cwd, "big"), 20 * 1024 ** 3);
    const before = process.memoryUsage.rss();
    expect((await call(readTool, { path: "big", limit: 1 }, context)).shown).toContain("binary file");
    await put(context, "lines", `${"x".repeat(99)}\n`.repeat(600_000));
    const { shown } = await call(readTool, { path: "lines", offset: 590_000, limit: 3 }, context);
    expect(shown).toBe(`[lines 590000-590002 of more; go on with offset 590003]\n${`${"x".repeat(99)}\n`.repeat(3)}`);
    expect(process.memoryUsage.rss() - before).toBeLessThan(160 * 1024 * 1024);
  });
});

describe("Write", () => {
  it("makes files and the directories above them, and keeps the permissions of what it replaces", async () => {
    await using context = await makeTestContext();
    expect(await call(writeTool, { path: "a/b/c.txt", content: "hi é" }, context)).toMatchObject({
      summary: "Write a/b/c.txt: made, 5 bytes",
      isError: false,
    });
    await put(context, "script", "old");
    await chmod(join(context.cwd, "script"), 0o750);
    await call(writeTool, { path: "script", content: "new" }, context);
    expect((await stat(join(context.cwd, "script"))).mode & 0o777).toBe(0o750);
    expect((await stat(join(context.cwd, "a/b/c.txt"))).mode & 0o777).toBe(0o666 & ~process.umask());
    expect(await readdir(context.cwd)).toEqual(["a", "script"]);
  });

  it("makes only directories that are in scope themselves", async () => {
    await using context = await makeTestContext();
    context.rules = { allow: [{ path: join(context.cwd, "d/file"), access: "write", recursive: false }], deny: [] };
    expect(await call(writeTool, { path: "d/file", content: "" }, context)).toMatchObject({ isError: true });
    await mkdir(join(context.cwd, "d"));
    expect(await call(writeTool, { path: "d/file", content: "" }, context)).toMatchObject({ isError: false });
  });

  it("keeps byte order mark and CRLF of what it replaces, once (B129)", async () => {
    await using context = await makeTestContext();
    await put(context, "a", "\ufeffone\r\ntwo\r\n");
    const { content } = await call(readTool, { path: "a" }, context);
    expect(content).toBe("[line ends are CRLF; Edit and Write keep them]\none\ntwo\n");
    await call(writeTool, { path: "a", content: "1\n2\n3" }, context);
    expect(await bytesOf(context, "a")).toEqual(Buffer.from("\ufeff1\r\n2\r\n3"));
    await call(writeTool, { path: "a", content: "\ufeff1\r\n2\n" }, context);
    expect(await bytesOf(context, "a")).toEqual(Buffer.from("\ufeff1\r\n2\n"));
    await put(context, "u", Buffer.from("\ufeffone\n", "utf16le").swap16());
    await call(writeTool, { path: "u", content: "zwei ü\n" }, context);
    expect(await bytesOf(context, "u")).toEqual(Buffer.from("\ufeffzwei ü\n", "utf16le").swap16());
  });

  it("refuses when the file changed since it was read, and takes it after another Read (B120)", async () => {
    await using context = await makeTestContext();
    await put(context, "f", "1");
    await call(readTool, { path: "f" }, context);
    await put(context, "f", "by hand");
    expect((await call(writeTool, { path: "f", content: "2" }, context)).shown).toContain("has changed since it was read");
    expect((await bytesOf(context, "f")).toString()).toBe("by hand");
    await call(readTool, { path: "f" }, context);
    expect(await call(writeTool, { path: "f", content: "2" }, context)).toMatchObject({ isError: false });
    expect(await call(writeTool, { path: "f", content: "3" }, context)).toMatchObject({ isError: false });
  });

  it("notices a change of a file too big to be hashed, by size and time", async () => {
    await using context = await makeTestContext();
    const big = "x\n".repeat(5_000_000);
    await put(context, "f", big);
    await call(readTool, { path: "f", limit: 1 }, context);
    await utimes(join(context.cwd, "f"), 1, 1);
    expect((await call(writeTool, { path: "f", content: "" }, context)).shown).toContain("has changed since it was read");
  });

  it("fails as a value where the operating system says no, and leaves nothing behind", async () => {
    await using context = await makeTestContext();
    expect(await call(writeTool, { path: "n".repeat(300), content: "" }, context)).toMatchObject({ isError: true });
    expect(await readdir(context.cwd)).toEqual([]);
  });
});

describe("Edit", () => {
  it("changes the text literally and nothing else, also around invalid bytes (B128)", async () => {
    await using context = await makeTestContext();
    await put(context, "a", Buffer.from("\xff\r\nold $x\n\xe9 end", "latin1"));
    expect(await call(editTool, { path: "a", old_text: "old $x", new_text: "$& é\nmore" }, context)).toMatchObject({
      summary: "Edit a: 1 replacement in line 2",
      isError: false,
    });
    const expected = Buffer.concat([
      Buffer.from("\xff\r\n", "latin1"),
      Buffer.from("$& é\nmore\n"),
      Buffer.from("\xe9 end", "latin1"),
    ]);
    expect(await bytesOf(context, "a")).toEqual(expected);
  });

  it("keeps mark, CRLF and UTF-16 (B129)", async () => {
    await using context = await makeTestContext();
    await put(context, "bom", "\ufefffirst\r\nsecond\r\n");
    await call(editTool, { path: "bom", old_text: "first\nsecond", new_text: "1\n2\n3" }, context);
    expect(await bytesOf(context, "bom")).toEqual(Buffer.from("\ufeff1\r\n2\r\n3\r\n"));
    await call(editTool, { path: "bom", old_text: "\ufeff1", new_text: "\ufeffone" }, context);
    expect(await bytesOf(context, "bom")).toEqual(Buffer.from("\ufeffone\r\n2\r\n3\r\n"));
    await put(context, "u16", Buffer.from("\ufeffé 1\r\n", "utf16le"));
    await call(editTool, { path: "u16", old_text: "é 1", new_text: "日本\n2" }, context);
    expect(await bytesOf(context, "u16")).toEqual(Buffer.from("\ufeff日本\r\n2\r\n", "utf16le"));
    await put(context, "odd", Buffer.from([0xff, 0xfe, 0x41]));
    expect(await call(editTool, { path: "odd", old_text: "A", new_text: "B" }, context)).toMatchObject({ isError: true });
    expect(await bytesOf(context, "odd")).toEqual(Buffer.from([0xff, 0xfe, 0x41]));
  });

  it.each<[string, string, string, string, RegExp]>([
    ["absent", "abc\n", "xyz", "q", /is not in the file\. Read the file again/],
    ["present twice", "a\nb\na\n", "a", "q", /occurs 2 times \(lines 1, 3\)/],
    ["empty", "abc", "", "q", /old_text is empty.*use Write/],
    ["equal to the new text", "abc", "b", "b", /equal/],
    ["different in line ends only", "a\r\nb", "a\r\nb", "a\nb", /equal/],
    [
      "different in blanks",
      "if (x) {\n\treturn  1;\n}\n",
      "if (x) {\n  return 1;",
      "q",
      /line 1 differs from it only in blanks or tabs. The file has:\nif \(x\) \{\n\treturn {2}1;/,
    ],
    ["different in quotes", "a\nsay “hi”\n", 'say "hi"', "q", /line 2 differs from it only in quotes or dashes/],
    ["different in Unicode form", "cafe\u0301", "caf\u00e9", "q", /only in Unicode form/],
    ["different in case", "Hello", "hello", "q", /only in upper and lower case/],
    ["right at its start only", "a\n  b\nc\n", "b\nd", "q", /first line stands in line 2/],
    ["looked for in an empty file", "", "x", "q", /The file is empty/],
  ])(
    "old text that is %s is an error with the reason, and no byte changes (B131)",
    async (_title, file, oldText, newText, message) => {
      await using context = await makeTestContext();
      await put(context, "f", file);
      const before = await stat(join(context.cwd, "f"), { bigint: true });
      const output = await call(editTool, { path: "f", old_text: oldText, new_text: newText }, context);
      expect(output.isError).toBe(true);
      expect(output.shown).toMatch(message);
      expect((await bytesOf(context, "f")).toString()).toBe(file);
      expect((await stat(join(context.cwd, "f"), { bigint: true })).mtimeNs).toBe(before.mtimeNs);
    },
  );

  it("makes no file", async () => {
    await using context = await makeTestContext();
    expect((await call(editTool, { path: "new", old_text: "a", new_text: "b" }, context)).shown).toContain(
      "does not exist. To make it use Write",
    );
    expect(await readdir(context.cwd)).toEqual([]);
  });

  it("refuses when the file changed since it was read, and needs no Read before (B120)", async () => {
    await using context = await makeTestContext();
    await put(context, "f", "one two");
    expect(await call(editTool, { path: "f", old_text: "one", new_text: "1" }, context)).toMatchObject({ isError: false });
    await put(context, "f", "1 two by hand");
    expect((await call(editTool, { path: "f", old_text: "two", new_text: "2" }, context)).shown).toContain(
      "has changed since it was read",
    );
    expect((await bytesOf(context, "f")).toString()).toBe("1 two by hand");
  });

  it("runs the edits of one batch on one file one after another, in their order, under any spelling", async () => {
    await using context = await makeTestContext();
    await put(context, "f", "0");
    const outputs = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        call(
          editTool,
          { path: i % 2 === 0 ? "f" : join(context.cwd, "./f"), old_text: String(i), new_text: String(i + 1) },
          context,
        ),
      ),
    );
    expect(outputs.map((output) => output.isError)).toEqual(outputs.map(() => false));
    expect((await bytesOf(context, "f")).toString()).toBe("20");
  });

  it("does not touch the file when the turn is cancelled", async () => {
    await using context = await makeTestContext();
    await put(context, "f", "a");
    context.cancel();
    expect(await call(editTool, { path: "f", old_text: "a", new_text: "b" }, context)).toMatchObject({ isError: true });
    expect(await call(writeTool, { path: "f", content: "b" }, context)).toMatchObject({ isError: true });
    expect((await bytesOf(context, "f")).toString()).toBe("a");
    await rm(join(context.cwd, "f"));
  });
});
