import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { isBuildFresh } from "../../scripts/source-state.js";
import { parseJson } from "../../src/base/json.ts";
import { type LaunchOrder, LaunchReport } from "../../src/protocol/launch.ts";
import { type Places, resolvePlaces } from "../../src/registry/places.ts";
import { endCallsOfProcess } from "../../src/tools/process-tree.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
/** A Pod has this long from its start to its report; generous, because several test files share a small machine. */
const LAUNCH_DEADLINE_MS = 20_000;

let bundle: boolean | undefined;

/** The test runner's hooks, where a test runs: a test that times out never leaves its block, and what it started must not stay. */
const runner = process.env["VITEST"] === undefined ? undefined : await import("vitest");

/** The program to run: the bundle where it was made from the sources as they are, else the sources themselves. Never a stale bundle. */
function program(name: "cli" | "pod"): string {
  bundle ??= isBuildFresh(ROOT);
  return bundle ? join(ROOT, "dist", `${name}.js`) : join(ROOT, "src", name, "main.ts");
}

/** What a command came to. */
export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A started process, told to be a Pod. */
export interface PodProcess {
  readonly pid: number;
  readonly child: ChildProcess;
  readonly report: LaunchReport;
  /** Resolves when it is gone: its exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals | null>;
  /** Everything it wrote to standard error so far. */
  readonly stderr: () => string;
}

/** What differs from the usual for one home. */
export interface TestHomeOptions {
  /** `[table] key = value` of the user's configuration. Retries are quick unless it says otherwise. */
  readonly config?: Readonly<Record<string, Readonly<Record<string, string | number | boolean | readonly string[]>>>>;
  /** Added to the environment of every process; `undefined` takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * A user's machine in a temporary folder: home, data, runtime and working directory. Processes started here are ended with it, each by
 * its own pid, and the folder is removed.
 */
export class TestHome implements AsyncDisposable {
  readonly root: string;
  /** Where Pods work unless told otherwise. */
  readonly cwd: string;
  readonly home: string;
  readonly data: string;
  readonly env: Readonly<Record<string, string>>;
  readonly #processes = new Set<ChildProcess>();
  /** Every Pod process that ever ran here. */
  readonly #started: ChildProcess[] = [];

  constructor(options: TestHomeOptions = {}) {
    this.root = realpathSync(mkdtempSync(join(tmpdir(), "wk-")));
    runner?.onTestFinished(() => this[Symbol.asyncDispose]());
    this.home = join(this.root, "home");
    this.data = join(this.root, "data");
    this.cwd = join(this.root, "cwd");
    const runtime = join(this.root, "run");
    for (const folder of [this.home, this.cwd, runtime]) mkdirSync(folder, { mode: 0o700 });
    this.writeConfig(options.config ?? {});
    const env: Record<string, string | undefined> = {
      PATH: process.env["PATH"],
      LANG: "C.UTF-8",
      HOME: this.home,
      WAKEFUL_HOME: this.data,
      XDG_RUNTIME_DIR: runtime,
      ...options.env,
    };
    this.env = Object.fromEntries(Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])));
  }

  get places(): Places {
    return resolvePlaces(this.env);
  }

  /** Replaces the user's configuration. */
  writeConfig(tables: NonNullable<TestHomeOptions["config"]>): void {
    const all = { ...tables, limits: { retry_base_ms: 5, ...tables["limits"] } };
    const text = Object.entries(all).map(
      ([table, keys]) =>
        `[${table}]\n${Object.entries(keys)
          .map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`)
          .join("")}`,
    );
    mkdirSync(join(this.home, ".config", "wakeful"), { recursive: true });
    writeFileSync(join(this.home, ".config", "wakeful", "config.toml"), text.join("\n"));
  }

  /** Starts a Pod process and waits for its report, good or bad. */
  async launch(order: LaunchOrder, options: { readonly env?: Readonly<Record<string, string>>; readonly umask?: string } = {}) {
    const node = [process.execPath, program("pod")] as const;
    const command =
      options.umask === undefined ? node : (["/bin/sh", "-c", `umask ${options.umask}; exec "$@"`, "sh", ...node] as const);
    const [file, ...args] = command;
    const child = spawn(file, args, {
      cwd: this.root,
      detached: true,
      env: { ...this.env, ...options.env },
      stdio: ["pipe", "ignore", "pipe", "pipe"],
    });
    this.#processes.add(child);
    this.#started.push(child);
    let stderr = "";
    child.stderr?.on("data", (chunk: Buffer) => {
      stderr += chunk.toString("utf8");
    });
    const exited = once(child, "exit").then(([code, signal]): number | NodeJS.Signals | null => {
      this.#processes.delete(child);
      return signal ?? code;
    });
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(JSON.stringify(order));
    const pipe = child.stdio[3];
    if (pipe === null || pipe === undefined || !("read" in pipe) || child.pid === undefined) throw new Error("no Pod process");
    const timer = setTimeout(() => child.kill("SIGKILL"), LAUNCH_DEADLINE_MS);
    const line = await text(pipe);
    clearTimeout(timer);
    const json = parseJson(line);
    const report = LaunchReport.safeParse(json.ok ? json.value : undefined);
    if (!report.success) throw new Error(`the Pod gave no report but ${JSON.stringify(line)}; it wrote:\n${stderr}`);
    const started: PodProcess = { pid: child.pid, child, report: report.data, exited, stderr: () => stderr };
    return started;
  }

  /** Runs a `wakeful` command to its end. */
  async cli(
    args: readonly string[],
    options: { readonly input?: string; readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
  ): Promise<CommandResult> {
    const child = spawn(process.execPath, [program("cli"), ...args], {
      cwd: options.cwd ?? this.cwd,
      env: { ...this.env, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#processes.add(child);
    const exited = once(child, "close");
    child.stdin.on("error", () => undefined);
    child.stdin.end(options.input ?? "");
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
    this.#processes.delete(child);
    return { code: typeof code === "number" ? code : null, stdout, stderr };
  }

  /** Runs a shell command line with this home's environment. */
  async shell(command: string, env: Readonly<Record<string, string>> = {}): Promise<CommandResult> {
    const child = spawn("/bin/bash", ["-c", command], {
      cwd: this.cwd,
      env: { ...this.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#processes.add(child);
    const exited = once(child, "close");
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
    this.#processes.delete(child);
    return { code: typeof code === "number" ? code : null, stdout, stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const left = [...this.#processes];
    await Promise.all(
      left.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exited = once(child, "exit");
        // An orderly end takes the tools' processes along; whoever does not take the hint is killed.
        child.kill("SIGTERM");
        const timer = setTimeout(() => child.kill("SIGKILL"), 6000);
        await exited;
        clearTimeout(timer);
      }),
    );
    // What a killed Pod's tools left behind would run on: a later start of the same Pod would end it, but there is none.
    for (const child of this.#started) {
      if (child.signalCode === "SIGKILL" && child.pid !== undefined) await endCallsOfProcess(child.pid, { graceMs: 0 });
    }
    rmSync(this.root, { recursive: true, force: true, maxRetries: 3, retryDelay: 50 });
  }
}
