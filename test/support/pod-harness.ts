import { existsSync, readFileSync, watch, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Answer, connect, type PodConnection } from "../../src/client/connection.ts";
import type { Cursor } from "../../src/protocol/cursor.ts";
import type { LaunchOrder, LaunchReport } from "../../src/protocol/launch.ts";
import type { MethodInput, MethodName, MethodResult } from "../../src/protocol/method.ts";
import type { Status } from "../../src/protocol/status.ts";
import { sessionDir } from "../../src/registry/places.ts";
import { type EntryType, type LogEntry, readEntry } from "../../src/session-log/entry.ts";
import { fileName, listFiles } from "../../src/session-log/file-names.ts";
import { DEADLINE_MS, RawClient, refusalOf, resultOf, TestClient } from "./pod-harness-client.ts";
import { type CommandResult, type PodProcess, TestHome, type TestHomeOptions } from "./pod-harness-home.ts";
import { checkLaws } from "./pod-harness-laws.ts";
import type { ProviderServer } from "./provider-server/provider-server.ts";
import type { ScriptInput } from "./scripts.ts";

export interface StartPodOptions extends TestHomeOptions {
  /** What the scripted model plays. */
  readonly script?: ScriptInput;
  /** The strict provider that is asked instead; `model` names the model, absent = one that takes system items in user messages. */
  readonly server?: ProviderServer;
  readonly model?: string;
  readonly name?: string;
  /** `PATH[:read|write]`, as on the command line. */
  readonly scope?: readonly string[];
  /** Lives in this home, which is not removed with it. */
  readonly home?: TestHome;
  readonly cwd?: string;
  readonly umask?: string;
}

/** A model of the strict provider whose conversation has no role system: the widest used form. */
export const SERVED_MODEL = "anthropic/claude-sonnet-4-5";

/**
 * Starts a real Pod process on a machine of its own:
 *
 *     await using pod = await startPod({ script: { steps: [{ say: "hi" }] } });
 *     await using client = await pod.client();
 *     await pod.run("hello");
 *     await client.event("turn_ended");
 *
 * Leaving the block ends its processes by pid and removes its folder.
 */
export async function startPod(options: StartPodOptions): Promise<TestPod> {
  const { server } = options;
  const serverEnv = server === undefined ? {} : { ANTHROPIC_API_KEY: "test-key", ANTHROPIC_BASE_URL: server.baseUrl };
  const home = options.home ?? new TestHome({ ...options, env: { ...serverEnv, ...options.env } });
  try {
    let model = options.model ?? SERVED_MODEL;
    if (options.script !== undefined) {
      const file = join(home.root, `${options.name ?? "pod"}.yaml`);
      writeFileSync(file, JSON.stringify(options.script));
      model = `script:${file}`;
    }
    const order: LaunchOrder = {
      cwd: options.cwd ?? home.cwd,
      open: { kind: "new", name: options.name ?? "pod" },
      model,
      ...(options.scope === undefined ? {} : { scope: [...options.scope] }),
    };
    const launched = await home.launch(order, options.umask === undefined ? {} : { umask: options.umask });
    return new TestPod(home, launched, options.home === undefined);
  } catch (thrown) {
    if (options.home === undefined) await home[Symbol.asyncDispose]();
    throw thrown;
  }
}

type Ready = Extract<LaunchReport, { ok: true }>;

/** A Pod under test; after `kill` and `restore` the same session in a new process. */
export class TestPod implements AsyncDisposable {
  readonly home: TestHome;
  readonly #ownsHome: boolean;
  #process: PodProcess;
  #ready: Ready;
  #connection: Promise<PodConnection> | undefined;

  constructor(home: TestHome, launched: PodProcess, ownsHome: boolean) {
    this.home = home;
    this.#ownsHome = ownsHome;
    this.#process = launched;
    this.#ready = readyOf(launched);
  }

  get name(): string {
    return this.#ready.name;
  }
  get session(): string {
    return this.#ready.session;
  }
  get address(): string {
    return this.#ready.address;
  }
  get pid(): number {
    return this.#ready.pid;
  }
  get report(): Ready {
    return this.#ready;
  }
  /** Its working directory. */
  get cwd(): string {
    return this.home.cwd;
  }
  get stderr(): string {
    return this.#process.stderr();
  }
  /** Resolves when the process is gone: its exit code or signal. */
  get exited(): PodProcess["exited"] {
    return this.#process.exited;
  }
  get logDirectory(): string {
    return sessionDir(this.home.places, this.session);
  }
  /** The file that is written to. */
  get logFile(): string {
    return listFiles(this.logDirectory).at(-1)?.path ?? join(this.logDirectory, fileName(1));
  }
  /** Resident memory, bytes. */
  get residentBytes(): number {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${this.pid}/status`, "utf8"))?.[1];
    return Number(kib) * 1024;
  }

  /** An attached client. */
  client(since?: Cursor): Promise<TestClient> {
    return TestClient.attach(this.address, since);
  }

  /** A bare connection. */
  raw(): Promise<RawClient> {
    return RawClient.open(this.address);
  }

  /** Calls a method over a connection that is not attached. */
  async ask<M extends MethodName>(method: M, params: MethodInput<M>): Promise<Answer<M>> {
    this.#connection ??= connect(this.address);
    return (await this.#connection).request(method, params, { deadlineMs: DEADLINE_MS });
  }

  /** Calls a method that must not be refused. */
  async request<M extends MethodName>(method: M, params: MethodInput<M>): Promise<MethodResult<M>> {
    return resultOf(await this.ask(method, params));
  }

  /** Calls a method that must be refused; gives the code. */
  async refusal<M extends MethodName>(method: M, params: MethodInput<M>): Promise<string> {
    return refusalOf(await this.ask(method, params));
  }

  run(text: string, more: Omit<MethodInput<"run">, "input"> = {}): Promise<MethodResult<"run">> {
    return this.request("run", { input: [{ kind: "text", text }], ...more });
  }

  notify(message: string, more: Partial<MethodInput<"notify">> = {}): Promise<MethodResult<"notify">> {
    return this.request("notify", { source: "ci", message, ...more });
  }

  status(): Promise<Status> {
    return this.request("status", {});
  }

  /** What is in the log's files now; an unfinished last line is left out. */
  log(): LogEntry[] {
    return listFiles(this.logDirectory).flatMap((file) => readLog(file.path));
  }

  entries<T extends EntryType>(type: T): Extract<LogEntry, { type: T }>[] {
    return this.log().filter((entry): entry is Extract<LogEntry, { type: T }> => entry.type === type);
  }

  /** Waits until the log fits; gives its entries. */
  waitForLog(fits: (entries: LogEntry[]) => boolean, options: { readonly deadlineMs?: number } = {}): Promise<LogEntry[]> {
    return waitForChange(
      this.logFile,
      () => {
        const entries = this.log();
        return fits(entries) ? entries : undefined;
      },
      { ...options, what: () => `${fits}; the log ends:\n${tail(this.log())}` },
    );
  }

  /** Waits until `count` entries of a type are in the log. */
  async waitForEntries<T extends EntryType>(
    type: T,
    count = 1,
    deadlineMs = DEADLINE_MS,
  ): Promise<Extract<LogEntry, { type: T }>[]> {
    await this.waitForLog((entries) => entries.filter((entry) => entry.type === type).length >= count, { deadlineMs });
    return this.entries(type);
  }

  /** Waits until the Pod is idle with no wake owed or held. */
  async settled(deadlineMs = DEADLINE_MS): Promise<Status> {
    await using client = await this.client();
    const isSettled = (status: Status) => status.state === "idle" && status.pending === 0;
    if (!isSettled(client.snapshot.status)) {
      await client.event("status", (event) => isSettled(event.status), { deadlineMs });
    }
    return this.status();
  }

  /** Waits for a file in or below the working directory. */
  async file(path: string, deadlineMs = DEADLINE_MS): Promise<string> {
    const full = join(this.cwd, path);
    return waitForChange(full, () => (existsSync(full) ? readFileSync(full, "utf8") : undefined), {
      deadlineMs,
      what: () => full,
    });
  }

  /** Makes a file in the working directory. */
  touch(path: string): void {
    writeFileSync(join(this.cwd, path), "");
  }

  /** Ends the process without a chance to clean up, and waits until it is gone. */
  async kill(): Promise<void> {
    this.#process.child.kill("SIGKILL");
    await this.exited;
    await this.#forget();
  }

  /** Asks the process to end and waits until it is gone; gives its exit code or signal. */
  async terminate(signal: NodeJS.Signals = "SIGTERM"): Promise<number | NodeJS.Signals | null> {
    this.#process.child.kill(signal);
    const end = await this.exited;
    await this.#forget();
    return end;
  }

  /** Sends a signal. */
  signal(signal: NodeJS.Signals): void {
    this.#process.child.kill(signal);
  }

  async #forget(): Promise<void> {
    const connection = await this.#connection?.catch(() => undefined);
    await connection?.close();
    this.#connection = undefined;
  }

  /** Starts a process for the same session. */
  async restore(options: { readonly env?: Readonly<Record<string, string>> } = {}): Promise<this> {
    await this.#forget();
    const order: LaunchOrder = {
      cwd: existsSync(this.home.cwd) ? this.home.cwd : "/",
      open: { kind: "restore", target: this.session },
    };
    this.#process = await this.home.launch(order, options);
    this.#ready = readyOf(this.#process);
    return this;
  }

  /** Runs a `wakeful` command on the same machine. */
  cli(...args: readonly string[]): Promise<CommandResult> {
    return this.home.cli(args);
  }

  /** Checks everything that must hold of the log at any moment; throws with what does not. */
  async verify(): Promise<void> {
    await checkLaws(this.logDirectory);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#forget();
    if (this.#ownsHome) await this.home[Symbol.asyncDispose]();
    else if (this.#process.child.exitCode === null && this.#process.child.signalCode === null) await this.terminate("SIGKILL");
  }
}

/** The entries of a log file; an unfinished last line is left out, anything else that cannot be read throws. */
export function readLog(file: string): LogEntry[] {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const read = readEntry(JSON.parse(line));
      if (!read.ok) throw new Error(`${read.problem}: ${line}`);
      return read.entry;
    });
}

function readyOf(launched: PodProcess): Ready {
  if (launched.report.ok) return launched.report;
  throw new Error(`the Pod did not start: ${launched.report.code}: ${launched.report.message}\n${launched.stderr()}`);
}

function tail(entries: readonly LogEntry[]): string {
  return entries
    .slice(-12)
    .map((entry) => JSON.stringify(entry).slice(0, 300))
    .join("\n");
}

/** Waits until `look` finds something; it looks whenever the folder of `path` changes, and now and then in between. */
export function waitForChange<T>(
  path: string,
  look: () => T | undefined,
  options: { readonly deadlineMs?: number; readonly what?: () => string } = {},
): Promise<T> {
  const { deadlineMs = DEADLINE_MS, what = () => path } = options;
  return new Promise((resolve, reject) => {
    const done = () => {
      clearInterval(interval);
      clearTimeout(timer);
      watcher?.close();
    };
    const check = () => {
      try {
        const found = look();
        if (found === undefined) return;
        done();
        resolve(found);
      } catch (thrown) {
        done();
        reject(thrown);
      }
    };
    // Watching tells at once; the interval covers file systems and moments that it misses.
    const interval = setInterval(check, 50);
    const timer = setTimeout(() => {
      done();
      reject(new Error(`nothing within ${deadlineMs} ms: ${what()}`));
    }, deadlineMs);
    const watcher = existsSync(dirname(path)) ? watch(dirname(path), check) : undefined;
    watcher?.on("error", () => undefined);
    check();
  });
}
