import { fdatasync, mkdtempSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../base/clock.ts";
import type { AppError } from "../base/errors.ts";
import type { Model } from "../llm/model.ts";
import type { Event, LiveEvent } from "../protocol/event.ts";
import type { MethodParams } from "../protocol/method.ts";
import type { Status } from "../protocol/status.ts";
import { applyEntry, checkEntry } from "../session-log/fold.ts";
import { LogDisk } from "../session-log/log-disk.ts";
import { LogFile } from "../session-log/log-file.ts";
import { emptyState, type SessionState } from "../session-log/session-state.ts";
import { STARTED } from "../session-log/test-support.ts";
import { createScopeGuard } from "../tools/scope-guard.ts";
import { Pod } from "./pod.ts";
import type { ChangingMethod } from "./pod-state.ts";

/** For tests: a Pod without process and socket, over a real log in a temporary folder, with a model and a disk that the test plays. */

/** A real disk that refuses when the test says so. */
export class BenchDisk extends LogDisk {
  /** Refuses a write whose bytes it says this of. */
  refuses: (text: string) => boolean = () => false;
  syncFails = false;
  syncs = 0;

  override write(descriptor: number, bytes: Buffer, offset: number, position: number): number {
    if (this.refuses(bytes.toString("utf8"))) throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
    return writeSync(descriptor, bytes, offset, bytes.length - offset, position);
  }
  override sync(descriptor: number, done: (error: Error | null) => void): void {
    this.syncs += 1;
    if (this.syncFails) setImmediate(() => done(new Error("I/O error")));
    else fdatasync(descriptor, done);
  }
}

export interface PodBenchOptions {
  readonly openModel: (ref: string) => Promise<Model>;
  /** Wait before a second attempt, milliseconds. */
  readonly retryBaseMs?: number;
  /** Opens the log of that bench again, as a new process would. */
  readonly restores?: PodBench;
}

export class PodBench implements Disposable {
  readonly disk = new BenchDisk();
  readonly state: SessionState = emptyState();
  readonly log: LogFile;
  readonly pod: Pod;
  /** What the one attached client was sent. */
  readonly events: Event[] = [];
  /** What the registry was told. */
  readonly statuses: Status[] = [];
  /** Why the process was told to end. */
  storageLost: AppError | undefined;
  readonly #root: string;
  readonly #ownsRoot: boolean;

  constructor(options: PodBenchOptions) {
    const { restores } = options;
    this.#ownsRoot = restores === undefined;
    this.#root = restores === undefined ? mkdtempSync(join(tmpdir(), "wakeful-pod-")) : restores.#root;
    const directory = join(this.#root, "session");
    if (restores === undefined) {
      this.log = LogFile.create(directory, this.disk);
      const limits = { ...STARTED.config.limits, retry_base_ms: options.retryBaseMs ?? 1 };
      const started = { ...STARTED, config: { ...STARTED.config, limits } };
      for (const entry of this.log.append([started], Date.now())) applyEntry(this.state, entry);
    } else {
      const apply = (entry: Parameters<typeof applyEntry>[1]) => {
        const objection = checkEntry(this.state, entry);
        if (objection === undefined) applyEntry(this.state, entry);
        return objection;
      };
      this.log = LogFile.open(directory, apply, this.disk);
    }
    this.pod = new Pod({
      log: this.log,
      state: this.state,
      clock: systemClock,
      logger: { info: () => {}, warn: () => {} },
      tools: [],
      interceptors: [],
      scopeEnforcement: "tools_only",
      openModel: options.openModel,
      checkModel: () => {},
      toolContext: (call) => ({ ...call, ...NO_SURROUNDINGS }),
      onStatus: (status) => void this.statuses.push(status),
      onGrowth: () => {},
      onStorageLost: (error) => {
        this.storageLost = error;
      },
    });
    this.pod.attach({ send: (line) => this.events.push(JSON.parse(line).params) > 0 }, {});
  }

  run(text: string, more: Partial<MethodParams<"run">> = {}) {
    const params = { input: [{ kind: "text" as const, text }], if_running: "reject" as const, ...more };
    return this.pod.change({ name: "run", params });
  }

  notify(message: string, more: Partial<MethodParams<"notify">> = {}) {
    return this.pod.change({ name: "notify", params: { source: "ci", message, wake: true, ...more } });
  }

  ask(name: Exclude<ChangingMethod, "run" | "notify">) {
    return this.pod.change({ name, params: {} });
  }

  /** The live events a client gets that attaches now. */
  live(): readonly LiveEvent[] {
    return this.pod.attach({ send: () => true }, {}).live;
  }

  [Symbol.dispose](): void {
    this.log[Symbol.dispose]();
    if (this.#ownsRoot) rmSync(this.#root, { recursive: true, force: true });
  }
}

const NO_SURROUNDINGS = {
  cwd: "/",
  scope: createScopeGuard({ scope: () => ({ allow: [], deny: [] }), closed: [] }),
  readFiles: { get: () => undefined, set: () => {} },
  processes: { started: () => {}, ended: () => {} },
  env: {},
  limits: { bashTimeoutS: 1, outputChars: 1000 },
};
