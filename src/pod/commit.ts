import type { Clock } from "../base/clock.ts";
import { AppError, toAppError } from "../base/errors.ts";
import type { CommittedEvent } from "../protocol/event.ts";
import { continuationOf } from "../session-log/carried.ts";
import type { LogEntry, NewEntry } from "../session-log/entry.ts";
import { applyEntry, checkEntries } from "../session-log/fold.ts";
import type { LogFile } from "../session-log/log-file.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { toEvents } from "../session-log/to-events.ts";

/**
 * The one door for state (I3): append to the log, apply to the state, publish, in this order, synchronously. So calls run one after
 * another by construction, whoever makes them; if the append fails nothing was applied or sent (I2). Whoever asked is told by what is
 * thrown; the Pod itself is told by `storage`, whoever asked.
 */
export class CommitDoor {
  readonly #log: LogFile;
  readonly #state: SessionState;
  readonly #clock: Clock;
  readonly #publish: (events: readonly CommittedEvent[]) => void;
  readonly #storage: StorageWatch;
  #refused = false;

  constructor(options: {
    readonly log: LogFile;
    readonly state: SessionState;
    readonly clock: Clock;
    readonly publish: (events: readonly CommittedEvent[]) => void;
    readonly storage: StorageWatch;
  }) {
    this.#log = options.log;
    this.#state = options.state;
    this.#clock = options.clock;
    this.#publish = options.publish;
    this.#storage = options.storage;
  }

  /** Commits entries, all or none. Throws `storage_failed` when the disk refuses, `internal` when an entry is illegal here. */
  commit(entries: readonly NewEntry[]): readonly LogEntry[] {
    if (entries.length === 0) return [];
    const ts = this.#clock.nowMs();
    const { seq } = this.#log.head;
    const objection = checkEntries(
      this.#state,
      entries.map((entry, index) => ({ ...entry, seq: seq + 1 + index, ts })),
    );
    if (objection !== undefined) throw new AppError("internal", objection);
    const placed = this.#append(entries, ts);
    for (const entry of placed) applyEntry(this.#state, entry);
    this.#publish(placed.flatMap(toEvents));
    if (this.#log.wantsRotation) this.#rotate(ts);
    return placed;
  }

  /** Begins a new file of the log. That changes nothing about the session, so whoever committed is not told where it fails. */
  #rotate(ts: number): void {
    try {
      applyEntry(this.#state, this.#log.rotate(continuationOf(this.#state, this.#log.head), ts));
      this.#storage.rotated();
    } catch (thrown) {
      const error = toAppError(thrown);
      if (this.#log.failure) this.#storage.lost(this.#log.failure);
      else this.#storage.notRotated(error);
    }
  }

  #append(entries: readonly NewEntry[], ts: number): readonly LogEntry[] {
    try {
      const placed = this.#log.append(entries, ts);
      if (this.#refused) this.#storage.mended();
      this.#refused = false;
      return placed;
    } catch (thrown) {
      this.#noteRefusal(thrown);
      throw thrown;
    }
  }

  /** Resolves once everything committed so far is on disk. */
  async synced(): Promise<void> {
    try {
      await this.#log.sync();
    } catch (thrown) {
      this.#noteRefusal(thrown);
      throw thrown;
    }
  }

  #noteRefusal(thrown: unknown): void {
    const error = toAppError(thrown);
    if (error.code !== "storage_failed") return;
    this.#refused = true;
    if (this.#log.failure) this.#storage.lost(this.#log.failure);
    else this.#storage.refused(error);
  }
}

/** Learns how the disk is. Nothing here may throw. */
export interface StorageWatch {
  /** The disk took nothing this time; it may again. */
  refused(error: AppError): void;
  /** A write went through after one or more that did not. */
  mended(): void;
  /** The log should go on in a new file and the disk took none; it goes on in the old one, and tries again some time later. */
  notRotated(error: AppError): void;
  /** The log goes on in a new file. */
  rotated(): void;
  /** Nothing can be written any more (W3): the process has to end. May be told several times. */
  lost(error: AppError): void;
}
