import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { onTestFinished } from "vitest";
import { openRegistry } from "../../src/registry/registry.ts";
import { endCallsOfProcess } from "../../src/tools/process-tree.ts";
import { DEADLINE_MS } from "./pod-harness-client.ts";
import { type CommandResult, TestHome, type TestHomeOptions } from "./pod-harness-home.ts";
import type { ScriptInput } from "./scripts.ts";

/** The program as a person calls it. */
export const PROGRAM = resolve(import.meta.dirname, "..", "..", "bin", "wakeful.js");

/** A command that runs. */
export interface RunningCommand {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Waits until what it wrote to standard output fits. */
  said(fits: (stdout: string) => boolean): Promise<void>;
  /** Resolves with its exit code, or null when a signal ended it. */
  readonly exited: Promise<number | null>;
}

/** Somebody at a shell of a machine of his own. Leaving ends the Pods he started and removes everything. */
export class FakeUser implements AsyncDisposable {
  readonly home: TestHome;
  #scripts = 0;
  #isGone = false;

  constructor(options: TestHomeOptions = {}) {
    this.home = new TestHome(options);
    // A test that times out never leaves its block. Hooks run last first: the Pods go before the home does.
    onTestFinished(() => this[Symbol.asyncDispose]());
  }

  /** Runs a command to its end. `input` is its standard input, which is empty otherwise. */
  async wakeful(
    args: readonly string[],
    options: {
      readonly input?: string | Uint8Array;
      readonly env?: Readonly<Record<string, string | undefined>>;
      readonly cwd?: string;
    } = {},
  ): Promise<CommandResult> {
    const command = this.start(args, options);
    command.child.stdin?.end(options.input ?? "");
    const code = await command.exited;
    return { code, stdout: command.stdout(), stderr: command.stderr() };
  }

  /** Starts a command; its standard input stays open. */
  start(
    args: readonly string[],
    options: { readonly env?: Readonly<Record<string, string | undefined>>; readonly cwd?: string } = {},
  ): RunningCommand {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      cwd: options.cwd ?? this.home.cwd,
      env: { ...this.home.env, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    let stdout = "";
    let stderr = "";
    const looks = new Set<() => void>();
    child.stdin.on("error", () => undefined);
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      for (const look of looks) look();
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), 2 * DEADLINE_MS);
    const exited = once(child, "close").then(([code]): number | null => {
      clearTimeout(timer);
      return typeof code === "number" ? code : null;
    });
    const said = (fits: (text: string) => boolean) =>
      new Promise<void>((done, fail) => {
        const look = () => {
          if (!fits(stdout)) return;
          looks.delete(look);
          done();
        };
        looks.add(look);
        look();
        exited.then(() => fail(new Error(`it ended without having said that; it wrote:\n${stdout}\n${stderr}`)), fail);
      });
    return { child, stdout: () => stdout, stderr: () => stderr, said, exited };
  }

  /** A script as the value of `-m`. */
  script(script: ScriptInput): string {
    const file = join(this.home.root, `script-${++this.#scripts}.yaml`);
    writeFileSync(file, JSON.stringify(script));
    return `script:${file}`;
  }

  /** What the tools of killed Pods left behind would run on: no later start comes that would end it. */
  async #endLeftovers(): Promise<void> {
    await using registry = openRegistry(this.home.places);
    // A test may have broken the registry on purpose; then it killed no Pod.
    const rows = await registry.list({ all: true }).catch(() => []);
    for (const { process } of rows) await endCallsOfProcess(process.pid, { graceMs: 0 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isGone) return;
    this.#isGone = true;
    try {
      await this.wakeful(["stop", "--all"]);
      await this.#endLeftovers();
    } finally {
      await this.home[Symbol.asyncDispose]();
    }
  }
}

/** The JSON objects of a stream of lines; throws where a line is none. */
export function jsonLines(text: string): Record<string, unknown>[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Record<string, unknown> => JSON.parse(line));
}
