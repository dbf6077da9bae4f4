import { assertNever } from "../base/assert-never.ts";
import { type AppError, toAppError } from "../base/errors.ts";
import type { TurnError } from "../protocol/event.ts";
import type { NewEntry } from "../session-log/entry.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { closeTurnEntries } from "../turn/close-turn.ts";
import type { TurnEnd, TurnLoop } from "../turn/turn-loop.ts";

/** What the runner needs of its Pod. */
export interface TurnHost {
  readonly state: Readonly<SessionState>;
  commit(entries: readonly NewEntry[]): void;
  /** True once the Pod is on its way out. */
  isClosing(): boolean;
  /** A turn failed; `error` for people. */
  onFailed(error: TurnError): void;
  /** A turn died of something that is not the model's: mostly a disk that takes nothing. */
  onBroken(error: AppError): void;
  /** A turn began, ended or paused. */
  onChange(): void;
}

interface RunningTurn {
  readonly cancel: AbortController;
  readonly pause: AbortController;
  /** How it left the loop, once that is in the log or the disk refused it. */
  readonly over: Promise<TurnEnd["kind"]>;
}

/** Runs the open turn in the background and commits how it left the loop: at most one at a time. */
export class TurnRunner {
  readonly #loop: TurnLoop;
  readonly #host: TurnHost;
  #running: RunningTurn | undefined;
  /** Why the open turn ended, while the disk does not take it. */
  #unwritten: TurnError | undefined;

  constructor(loop: TurnLoop, host: TurnHost) {
    this.#loop = loop;
    this.#host = host;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** True while a turn's end waits for the disk: nothing may be accepted before it is written. */
  get isStuck(): boolean {
    return this.#unwritten !== undefined;
  }

  /** Runs the turn that the log says is open. */
  start(): void {
    const cancel = new AbortController();
    const pause = new AbortController();
    const over = Promise.resolve()
      .then(() => this.#loop.run({ cancel: cancel.signal, pause: pause.signal }))
      .then((end) => {
        this.#left(end);
        return end.kind;
      })
      .catch((thrown: unknown) => {
        this.#broke(toAppError(thrown));
        return "failed" as const;
      })
      .finally(() => {
        this.#running = undefined;
        this.#host.onChange();
      });
    this.#running = { cancel, pause, over };
    this.#host.onChange();
  }

  /** Stops the running turn at once; resolves when it has ended. Then `writeUnwritten` tells whether the log knows. */
  async cancel(reason: AppError): Promise<void> {
    this.#running?.cancel.abort(reason);
    await this.#running?.over;
  }

  /** Stops the running turn at its next safe point; resolves with how it left: it may have ended before it came to one. */
  async pause(reason: AppError): Promise<TurnEnd["kind"] | undefined> {
    this.#running?.pause.abort(reason);
    return this.#running?.over;
  }

  #left(end: TurnEnd): void {
    const { state } = this.#host;
    switch (end.kind) {
      case "completed":
        this.#host.commit(closeTurnEntries(state, "completed"));
        return;
      case "failed":
        this.#host.commit(closeTurnEntries(state, "failed", end.error));
        this.#host.onFailed(end.error);
        return;
      case "cancelled":
        // A Pod that is stopped keeps what it owes: only a cancel that somebody asked for settles it (N6, N8).
        this.#host.commit(closeTurnEntries(state, this.#host.isClosing() ? "interrupted" : "cancelled"));
        return;
      case "paused":
        this.#host.commit([{ type: "turn_paused", turn: state.turn?.turn ?? 0 }]);
        return;
      default:
        assertNever(end, "turn end");
    }
  }

  #broke(error: AppError): void {
    this.#unwritten = { code: error.code, message: error.message };
    this.#host.onBroken(error);
    try {
      this.writeUnwritten();
    } catch {
      // The Pod tries again after a while, and with the next method, whose sender is told if the disk still refuses.
    }
  }

  /** Ends in the log what could not be ended before. Throws `storage_failed` while the disk still refuses. */
  writeUnwritten(): void {
    if (!this.#unwritten) return;
    this.#host.commit(closeTurnEntries(this.#host.state, "failed", this.#unwritten));
    this.#unwritten = undefined;
  }
}
