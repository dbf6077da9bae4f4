import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import type { CommittedEvent } from "../protocol/event.ts";
import type { LogEntry, NewEntry } from "../session-log/entry.ts";
import { applyEntry, checkEntries } from "../session-log/fold.ts";
import type { LogFile } from "../session-log/log-file.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { toEvents } from "../session-log/to-events.ts";

/**
 * The one door for state (I3): append to the log, apply to the state, publish, in this order, synchronously. So calls run one after
 * another by construction, whoever makes them; if the append fails nothing was applied or sent (I2).
 */
export class CommitDoor {
  readonly #log: LogFile;
  readonly #state: SessionState;
  readonly #clock: Clock;
  readonly #publish: (events: readonly CommittedEvent[]) => void;

  constructor(options: {
    readonly log: LogFile;
    readonly state: SessionState;
    readonly clock: Clock;
    readonly publish: (events: readonly CommittedEvent[]) => void;
  }) {
    this.#log = options.log;
    this.#state = options.state;
    this.#clock = options.clock;
    this.#publish = options.publish;
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
    const placed = this.#log.append(entries, ts);
    for (const entry of placed) applyEntry(this.#state, entry);
    this.#publish(placed.flatMap(toEvents));
    return placed;
  }

  /** Resolves once everything committed so far is on disk. */
  synced(): Promise<void> {
    return this.#log.sync();
  }
}
