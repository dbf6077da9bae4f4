import { execFileSync } from "node:child_process";
import { existsSync, renameSync, rmSync, symlinkSync, unlinkSync } from "node:fs";
import { link, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { editTool } from "./edit.ts";
import { foldsCase } from "./folding.ts";
import { readTool } from "./read.ts";
import { createScopeGuard } from "./scope-guard.ts";
import { call, makeTestContext, type TestContext } from "./test-context.ts";
import { writeTool } from "./write.ts";

/** Everything outside the scope, by name and content. */
async function outsideState(context: TestContext): Promise<string> {
  const names = (await readdir(context.outside, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const files = await Promise.all(
    names.map(
      async (entry) => [join(entry.parentPath, entry.name), await readFile(join(entry.parentPath, entry.name), "utf8")] as const,
    ),
  );
  const all = await readdir(context.outside, { recursive: true });
  return JSON.stringify([files.sort(), all.sort()]);
}

async function withOutsideFiles(context: TestContext): Promise<void> {
  await writeFile(join(context.outside, "file"), "old outside");
  await mkdir(join(context.outside, "dir"));
  await writeFile(join(context.outside, "dir", "x"), "old x");
}

describe("writing through links (B114)", () => {
  it.each<[string, (context: TestContext) => Promise<string>]>([
    [
      "a link to a file",
      async ({ cwd, outside }) => {
        await symlink(join(outside, "file"), join(cwd, "link"));
        return "link";
      },
    ],
    [
      "a link to a directory",
      async ({ cwd, outside }) => {
        await symlink(join(outside, "dir"), join(cwd, "link"));
        return "link/x";
      },
    ],
    [
      "a dangling link",
      async ({ cwd, outside }) => {
        await symlink(join(outside, "new"), join(cwd, "link"));
        return "link";
      },
    ],
    [
      "a dangling link to a directory",
      async ({ cwd, outside }) => {
        await symlink(join(outside, "new"), join(cwd, "link"));
        return "link/deep/x";
      },
    ],
    [
      "a relative chain of links",
      async ({ cwd }) => {
        await symlink("../outside/new", join(cwd, "c"));
        await symlink("c", join(cwd, "b"));
        await symlink("./b", join(cwd, "a"));
        return "a";
      },
    ],
    [
      "'..' behind a link",
      async ({ cwd, outside }) => {
        await symlink(join(outside, "dir"), join(cwd, "link"));
        return "link/../file";
      },
    ],
    [
      "a loop of links",
      async ({ cwd }) => {
        await symlink("b", join(cwd, "a"));
        await symlink("a", join(cwd, "b"));
        return "a";
      },
    ],
  ])("%s that leads outside is refused by Write and Edit, and nothing outside changes", async (_title, prepare) => {
    await using context = await makeTestContext();
    await withOutsideFiles(context);
    const path = await prepare(context);
    const before = await outsideState(context);
    expect(await call(writeTool, { path, content: "new" }, context)).toMatchObject({ isError: true });
    expect(await call(editTool, { path, old_text: "old", new_text: "new" }, context)).toMatchObject({ isError: true });
    expect(await outsideState(context)).toBe(before);
  });

  it("works for links that stay inside, dangling ones too, and keeps the link", async () => {
    await using context = await makeTestContext();
    await symlink("target", join(context.cwd, "link"));
    expect(await call(writeTool, { path: "link", content: "1" }, context)).toMatchObject({ isError: false });
    expect(await readFile(join(context.cwd, "target"), "utf8")).toBe("1");
    expect(await call(editTool, { path: "link", old_text: "1", new_text: "2" }, context)).toMatchObject({ isError: false });
    expect(await readFile(join(context.cwd, "target"), "utf8")).toBe("2");
  });

  it("never lets a hard link change bytes outside", async () => {
    await using context = await makeTestContext();
    await withOutsideFiles(context);
    await link(join(context.outside, "file"), join(context.cwd, "hard"));
    const before = await outsideState(context);
    expect(await call(editTool, { path: "hard", old_text: "old", new_text: "new" }, context)).toMatchObject({ isError: false });
    expect(await call(writeTool, { path: "hard", content: "all new" }, context)).toMatchObject({ isError: false });
    expect(await outsideState(context)).toBe(before);
    expect(await readFile(join(context.cwd, "hard"), "utf8")).toBe("all new");
  });
});

describe("a path that is swapped while a tool works (B114)", () => {
  /** A tool may have made the directory anew while there was none: that is its right, and out of the way again. */
  function insist(path: string, act: () => void): void {
    for (;;) {
      try {
        act();
        return;
      } catch {
        rmSync(path, { recursive: true, force: true });
      }
    }
  }

  /** Swaps between the good thing and a link to outside as fast as it can until the work is done. */
  async function whileSwapping(context: TestContext, name: string, target: string, work: () => Promise<void>): Promise<number> {
    const path = join(context.cwd, name);
    let swaps = 0;
    let stop = false;
    const swapper = (async () => {
      while (!stop) {
        renameSync(path, `${path}.good`);
        insist(path, () => symlinkSync(target, path));
        swaps++;
        await new Promise(setImmediate);
        unlinkSync(path);
        insist(path, () => renameSync(`${path}.good`, path));
        await new Promise(setImmediate);
      }
    })();
    await work().finally(() => {
      stop = true;
    });
    await swapper;
    return swaps;
  }

  it.each(["d/x", "d/e/x"])(
    "changes nothing outside while the directory above %s is swapped",
    async (path) => {
      await using context = await makeTestContext();
      await withOutsideFiles(context);
      for (const directory of [join(context.cwd, "d", "e"), join(context.outside, "dir", "e")]) {
        await mkdir(directory, { recursive: true });
        await writeFile(join(directory, "x"), "old x");
        await writeFile(join(directory, "..", "x"), "old x");
      }
      const before = await outsideState(context);
      const forgetful = { ...context, readFiles: { get: () => undefined, set() {} } };
      let done = 0;
      const swaps = await whileSwapping(context, "d", join(context.outside, "dir"), async () => {
        for (let i = 0; i < 80; i++) {
          const results = await Promise.all([
            call(writeTool, { path, content: `old ${i}` }, forgetful),
            call(writeTool, { path: `${path}${i}`, content: "x" }, forgetful),
            call(writeTool, { path: `${path}${i}.d/new`, content: "x" }, forgetful),
            call(editTool, { path, old_text: "old", new_text: `old${i}` }, forgetful),
          ]);
          done += results.filter((result) => !result.isError).length;
        }
      });
      expect(swaps).toBeGreaterThan(60);
      expect(done).toBeGreaterThan(0);
      expect(await outsideState(context)).toBe(before);
    },
    30_000,
  );

  it("is refused when the directory became a link between check and use", async () => {
    await using context = await makeTestContext();
    await withOutsideFiles(context);
    await mkdir(join(context.cwd, "d"));
    await writeFile(join(context.cwd, "d", "x"), "inside");
    const path = await context.scope.resolve("d/x", { cwd: context.cwd, access: "write" });
    if (!path.ok) throw new Error(path.reason);
    await rename(join(context.cwd, "d"), join(context.cwd, "moved"));
    await symlink(join(context.outside, "dir"), join(context.cwd, "d"));
    for (const opened of [await context.scope.openFile(path), await context.scope.openDirectory(join(context.cwd, "d"))]) {
      expect(opened).toMatchObject({ ok: false, reason: expect.stringContaining("moved or replaced") });
    }
  });
});

describe("names that look like the scope (B115)", () => {
  it.each<[string, (context: TestContext) => string]>([
    ["a sibling with the same prefix", ({ cwd }) => `${cwd}-evil/x`],
    ["a way out and into another directory", ({ cwd }) => `${cwd}/../outside/x`],
    ["another case", ({ root }) => `${root}/INSIDE/x`],
    ["a home that is not expanded", () => "~/x"],
    ["a trailing slash", () => "new/"],
    ["nothing", () => ""],
    ["NUL (B111)", () => "a\0b"],
    ["a way back from what does not exist", () => "nowhere/../x"],
  ])("%s is refused", async (_title, pathOf) => {
    await using context = await makeTestContext();
    await mkdir(`${context.cwd}-evil`);
    const before = await readdir(context.root, { recursive: true });
    const output = await call(writeTool, { path: pathOf(context), content: "x" }, context);
    expect(output.isError).toBe(true);
    expect(output.shown).not.toContain("\0");
    expect(await readdir(context.root, { recursive: true })).toEqual(before);
  });

  it.each<[string, (context: TestContext) => string]>([
    ["doubled slashes and dots", ({ cwd }) => `${cwd}//a/./x`],
    ["relative", () => "a/x"],
    ["out and back in", () => "../inside/a/x"],
    ["a folder named ~", () => "./~/../a/x"],
  ])("the real inside spelled %s is written", async (_title, pathOf) => {
    await using context = await makeTestContext();
    await mkdir(join(context.cwd, "~"));
    expect(await call(writeTool, { path: pathOf(context), content: "x" }, context)).toMatchObject({ isError: false });
    expect(await readFile(join(context.cwd, "a/x"), "utf8")).toBe("x");
  });

  it("says what may be written", async () => {
    await using context = await makeTestContext();
    expect((await call(writeTool, { path: "../outside/x", content: "" }, context)).shown).toBe(
      `${context.outside}/x is outside the write scope of this session, which is: ${context.cwd}.`,
    );
    context.rules = { allow: [], deny: [] };
    expect((await call(writeTool, { path: "x", content: "" }, context)).shown).toContain("This session may not write anything");
  });
});

describe("denied and closed places", () => {
  it("are asked anew at every call: scope changes while a session runs", async () => {
    await using context = await makeTestContext();
    expect(await call(writeTool, { path: "lent/x", content: "1" }, context)).toMatchObject({ isError: false });
    context.rules = { ...context.rules, deny: [{ path: join(context.cwd, "lent"), access: "write", recursive: true }] };
    expect(await call(writeTool, { path: "lent/x", content: "2" }, context)).toMatchObject({ isError: true });
    expect(await call(readTool, { path: "lent/x" }, context)).toMatchObject({ shown: "1" });
    context.rules = { ...context.rules, deny: [{ path: join(context.cwd, "lent"), access: "read", recursive: true }] };
    expect(await call(readTool, { path: "lent/x" }, context)).toMatchObject({ isError: true });
  });

  it("are recognised through links and hard links", async () => {
    await using context = await makeTestContext();
    await withOutsideFiles(context);
    await symlink(context.outside, join(context.root, "alias"));
    await link(join(context.outside, "file"), join(context.cwd, "hard"));
    context.rules = { ...context.rules, deny: [{ path: join(context.outside, "file"), access: "read", recursive: false }] };
    expect(await call(readTool, { path: join(context.root, "alias/file") }, context)).toMatchObject({ isError: true });
    expect(await call(readTool, { path: "hard" }, context)).toMatchObject({ isError: true });
    expect(await call(readTool, { path: "../outside/dir/x" }, context)).toMatchObject({ shown: "old x" });
  });

  it("closed directories stay closed whatever the scope says, also by another name", async () => {
    await using context = await makeTestContext({ closed: ["/nonexistent/closed"] });
    const data = join(context.cwd, "data");
    await mkdir(data);
    await writeFile(join(data, "log"), "secret");
    await symlink(data, join(context.root, "alias"));
    const guard = createScopeGuard({ scope: () => context.rules, closed: [join(context.root, "alias")] });
    const closed = { ...context, scope: guard };
    for (const path of ["data/log", "../alias/log"]) {
      expect((await call(readTool, { path }, closed)).shown).toContain("belongs to Wakeful itself");
      expect((await call(writeTool, { path, content: "" }, closed)).shown).toContain("belongs to Wakeful itself");
    }
    expect(await readFile(join(data, "log"), "utf8")).toBe("secret");
  });

  it.runIf(process.platform === "linux")("memory and environment of processes are closed", async () => {
    await using context = await makeTestContext();
    for (const path of ["/proc/self/mem", "/proc/self/environ", `/proc/${process.pid}/task/${process.pid}/environ`]) {
      expect(await call(readTool, { path }, context)).toMatchObject({ isError: true });
    }
    expect((await call(readTool, { path: "/proc/self/comm" }, context)).isError).toBe(false);
  });
});

describe("a disk that ignores case (B116)", () => {
  const denied = (context: TestContext) => ({
    ...context.rules,
    deny: [{ path: join(context.cwd, "private"), access: "read" as const, recursive: true }],
  });

  it("refuses what would be the denied place under another case, before it exists", async () => {
    await using context = await makeTestContext({ folds: async () => true });
    context.rules = denied(context);
    expect((await call(writeTool, { path: "PRIVATE/x", content: "" }, context)).shown).toContain("denies writing");
    expect(existsSync(join(context.cwd, "PRIVATE"))).toBe(false);
    expect(await call(writeTool, { path: "public/x", content: "" }, context)).toMatchObject({ isError: false });
  });

  it("keeps two names two on a disk that does not", async () => {
    await using context = await makeTestContext({ folds: async () => false });
    context.rules = denied(context);
    expect(await call(writeTool, { path: "PRIVATE2/x", content: "" }, context)).toMatchObject({ isError: false });
    expect(await call(writeTool, { path: "PRIVATE/x", content: "" }, context)).toMatchObject({ isError: false });
  });

  it("takes two Unicode forms of a denied name for one", async () => {
    await using context = await makeTestContext({ folds: async () => false });
    context.rules = { ...context.rules, deny: [{ path: join(context.cwd, "caf\u00e9"), access: "read", recursive: true }] };
    expect(await call(writeTool, { path: "cafe\u0301/x", content: "" }, context)).toMatchObject({ isError: true });
  });

  it("is told by asking the file system", async () => {
    await using context = await makeTestContext();
    await writeFile(join(context.cwd, "Probe"), "");
    const folds = existsSync(join(context.cwd, "pROBE"));
    expect(await foldsCase(context.cwd)).toBe(folds);
    await rm(join(context.cwd, "Probe"));
    expect(await foldsCase(context.cwd)).toBe(folds);
  });
});

describe("special files (B109)", () => {
  it("FIFOs, sockets, devices and directories are named and left alone, without blocking", async () => {
    await using context = await makeTestContext();
    execFileSync("mkfifo", [join(context.cwd, "fifo")]);
    await mkdir(join(context.cwd, "dir"));
    await using server = createServer();
    await new Promise<void>((resolve) => server.listen(join(context.cwd, "s"), resolve));
    context.rules = { allow: [...context.rules.allow, { path: "/dev", access: "write", recursive: true }], deny: [] };
    for (const [path, kind] of [
      ["fifo", "a FIFO"],
      ["s", "a socket"],
      ["/dev/zero", "a device"],
      ["dir", "a directory"],
    ] as const) {
      expect((await call(readTool, { path }, context)).shown).toContain(kind);
      expect((await call(writeTool, { path, content: "x" }, context)).shown).toContain(kind);
      expect((await call(editTool, { path, old_text: "x", new_text: "y" }, context)).shown).toContain(kind);
    }
  });
});
