import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { FakeUser } from "../support/fake-user.ts";
import { ALWAYS } from "../support/scripts.ts";

const BUNDLE = resolve(import.meta.dirname, "..", "..", "dist", "cli.js");

/** Writes what a process loads to `TRACE`, one a line, and `SPAWN` where it starts another one. */
const TRACER = `import { registerHooks } from "node:module";
import { appendFileSync } from "node:fs";
import { ChildProcess } from "node:child_process";
const file = process.env.TRACE;
delete process.env.TRACE;
registerHooks({ load(url, context, next) { appendFileSync(file, url + "\\n"); return next(url, context); } });
const { spawn } = ChildProcess.prototype;
ChildProcess.prototype.spawn = function (...args) { appendFileSync(file, "SPAWN\\n"); return spawn.apply(this, args); };
`;

/** What the bundle loads for a command, in order. */
async function loadedBy(user: FakeUser, ...args: readonly string[]): Promise<string[]> {
  const tracer = join(user.home.root, "tracer.mjs");
  const trace = join(user.home.root, "trace.txt");
  writeFileSync(tracer, TRACER);
  writeFileSync(trace, "");
  const child = spawn(process.execPath, ["--import", tracer, BUNDLE, ...args], {
    cwd: user.home.cwd,
    env: { ...user.home.env, TRACE: trace },
    stdio: "ignore",
  });
  await once(child, "exit");
  const lines = readFileSync(trace, "utf8").split("\n");
  expect(lines.length).toBeGreaterThan(4); // The tracer traced.
  return lines;
}

/** The chunks that hold zod, the protocol, the registry and the transport, and what these need of Node. */
const HEAVY = /\/(wire|pods)-[\w-]{8}\.js$|^node:(sqlite|net)$/;

describe("a command loads what it needs when it needs it:", () => {
  it("run starts its Pod before anything heavy", async () => {
    await using user = new FakeUser();
    const loaded = await loadedBy(user, "run", "-m", user.script(ALWAYS), "x");
    const spawned = loaded.indexOf("SPAWN");
    expect(spawned).toBeGreaterThan(0);
    expect(loaded.slice(0, spawned).filter((url) => HEAVY.test(url))).toEqual([]);
    expect(loaded.slice(spawned).filter((url) => HEAVY.test(url)).length).toBeGreaterThan(2); // Else the names have changed.
  });

  it.each([["--help"], ["--version"], ["run --help"], ["run"], ["rnu"]])("wakeful %s loads nothing heavy", async (line) => {
    await using user = new FakeUser();
    expect((await loadedBy(user, ...line.split(" "))).filter((url) => HEAVY.test(url))).toEqual([]);
  });

  it.each([["ps"], ["notify nope x"], ["send nope x"], ["output nope"]])(
    "wakeful %s loads no provider and no Pod",
    async (line) => {
      await using user = new FakeUser();
      const loaded = await loadedBy(user, ...line.split(" "));
      expect(
        loaded.filter((url) => /(anthropic|openai|google|scripted-model|pod|demo-command|story)-[\w-]{8}\.js$/.test(url)),
      ).toEqual([]);
    },
  );
});
