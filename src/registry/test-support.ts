import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Places } from "./places.ts";

/** For tests: a folder of their own that goes with the test, and places in it. */
export interface TestFolder extends Disposable {
  readonly path: string;
  readonly places: Places;
}

export function testFolder(): TestFolder {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "wakeful-test-")));
  const data = join(path, "data");
  return {
    path,
    places: { data, runtime: join(data, "run"), config: join(path, "config"), home: path, temporary: [path], notes: [] },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

/** A real process that runs `script` (a module; `$URL` stands for this folder's URL) with JSON arguments in `args`. */
export interface TestProcess extends AsyncDisposable {
  readonly pid: number;
  /** The next line it prints, parsed; fails when it ends first. */
  next(): Promise<unknown>;
  /** Ends it without a chance to clean up, and waits for its end. */
  kill(): Promise<void>;
  /** Resolves to its exit code. */
  readonly exited: Promise<number | null>;
}

export function startProcess(script: string, args: unknown = null, options: { readonly umask?: string } = {}): TestProcess {
  const folder = new URL(".", import.meta.url).href;
  const prelude = options.umask === undefined ? "" : `process.umask(0o${options.umask});`;
  const text = `${prelude} const args = JSON.parse(process.argv[1]); const say = (value) => console.log(JSON.stringify(value ?? null));
    ${script.replaceAll("$URL", folder)}`;
  const child: ChildProcess = spawn(process.execPath, ["--input-type=module", "-e", text, JSON.stringify(args)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit").then(([code]) => (typeof code === "number" ? code : null));
  child.stdin?.on("error", () => {}); // It may be gone already.
  if (child.stdout === null || child.pid === undefined) throw new Error("the test process did not start");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    pid: child.pid,
    exited,
    async next() {
      const line = await lines.next();
      if (line.done) throw new Error("the test process ended without another line");
      return JSON.parse(line.value);
    },
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
    async [Symbol.asyncDispose]() {
      await this.kill();
    },
  };
}

/** Script text that does not end by itself, but with the test process: a failed test leaves nobody behind. */
export const STAY = 'process.stdin.resume().on("close", () => process.exit());';
