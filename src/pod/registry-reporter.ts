import { runDetached } from "../base/detach.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { Status } from "../protocol/status.ts";
import type { Registry } from "../registry/registry.ts";
import type { LogFile } from "../session-log/log-file.ts";
import type { ProcessLedger } from "../tools/tool.ts";

/** Status and tool processes are told after this long, so that a short tool call costs no transaction. */
const SOON_MS = 20;
/** The head mark is at most this old while the log grows (docs/session-log.md). */
const HEAD_MS = 1000;
/** A registry that could not be written is tried again after this long. */
const RETRY_MS = 5000;

/**
 * Keeps the Pod's row in the registry near the truth, in the background and merged: the truth is the log, and nobody waits for this.
 * Also the ledger of the process groups that tools started: what a killed Pod leaves behind is ended by the next start.
 */
export class RegistryReporter implements ProcessLedger {
  readonly #registry: Registry;
  readonly #session: string;
  readonly #log: LogFile;
  readonly #logger: Logger;
  readonly #groups = new Set<number>();
  #toldGroups = "";
  #status: Status | undefined;
  #toldSeq = 0;
  #timer: NodeJS.Timeout | undefined;
  #dueAtMs = Number.POSITIVE_INFINITY;
  #writing = false;
  #closed = false;

  constructor(options: {
    readonly registry: Registry;
    readonly session: string;
    readonly log: LogFile;
    readonly logger: Logger;
  }) {
    this.#registry = options.registry;
    this.#session = options.session;
    this.#log = options.log;
    this.#logger = options.logger;
  }

  /** The status changed. */
  noteStatus(status: Status): void {
    this.#status = status;
    this.#schedule(SOON_MS);
  }

  /** The log grew. */
  noteGrowth(): void {
    this.#schedule(HEAD_MS);
  }

  started(processGroup: number): void {
    this.#groups.add(processGroup);
    this.#schedule(SOON_MS);
  }

  ended(processGroup: number): void {
    this.#groups.delete(processGroup);
    this.#schedule(SOON_MS);
  }

  #schedule(delayMs: number): void {
    const dueAtMs = performance.now() + delayMs;
    if (this.#closed || dueAtMs >= this.#dueAtMs) return;
    clearTimeout(this.#timer);
    this.#dueAtMs = dueAtMs;
    this.#timer = setTimeout(() => this.#fire(), delayMs);
    this.#timer.unref();
  }

  #fire(): void {
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    if (this.#writing) {
      this.#schedule(SOON_MS);
      return;
    }
    this.#writing = true;
    runDetached(
      this.#write().finally(() => {
        this.#writing = false;
      }),
      (thrown) => {
        this.#logger.warn(`the registry was not told: ${messageOf(thrown)}`);
        this.#schedule(RETRY_MS);
      },
    );
  }

  async #write(): Promise<void> {
    // Each thing counts as told only after it was: what fails is told with the next write.
    const status = this.#status;
    if (status) {
      const { scope_enforcement: _, ...patch } = status;
      await this.#registry.update(this.#session, patch);
      if (this.#status === status) this.#status = undefined;
    }
    const groups = [...this.#groups];
    if (groups.join() !== this.#toldGroups) {
      await this.#registry.setProcessGroups(this.#session, groups);
      this.#toldGroups = groups.join();
    }
    const { synced } = this.#log;
    if (synced.seq > this.#toldSeq) {
      await this.#registry.setHead(this.#session, synced);
      this.#toldSeq = synced.seq;
    }
    if (this.#log.head.seq > this.#toldSeq) this.#schedule(HEAD_MS);
  }

  /** Tells the last state and gives the row up. Failures are logged: the row is mended from the log at the next start. */
  async release(reason: string): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    try {
      await this.#write();
      await this.#registry.release(this.#session, reason);
    } catch (thrown) {
      this.#logger.warn(`the registry was not told of the end: ${messageOf(thrown)}`);
    }
  }
}
