import type { Clock } from "../base/clock.ts";
import type { Model } from "../llm/model.ts";
import type { LiveEvent } from "../protocol/event.ts";
import type { LogEntry, NewEntry } from "../session-log/entry.ts";
import type { SessionState } from "../session-log/session-state.ts";
import type { Tool, ToolContext } from "../tools/tool.ts";
import type { Interceptor } from "./interceptor.ts";

/** What a turn needs of its Pod. The Pod implements it; tests implement it with a log in a temporary folder. */
export interface TurnPort {
  /** The fold of the log; changes only through `commit`. */
  readonly state: Readonly<SessionState>;
  /** The one door (I3): appends, applies, publishes, all at once and in order; throws `storage_failed` and then nothing happened. */
  commit(entries: readonly NewEntry[]): readonly LogEntry[];
  /** Resolves once everything committed so far is on disk (I2). */
  synced(): Promise<void>;
  /** The live lane: for whoever watches, never stored. */
  publishLive(event: LiveEvent): void;
  /** The session's present model, opened on first use. */
  model(): Promise<Model>;
  readonly tools: readonly Tool[];
  toolContext(call: {
    readonly callId: string;
    readonly signal: AbortSignal;
    readonly onProgress: (text: string) => void;
  }): ToolContext;
  readonly interceptors: readonly Interceptor[];
  readonly clock: Clock;
  /** A number in [0, 1): jitter. */
  random(): number;
}

/** How a turn is stopped from outside: at once, or at the next safe point. */
export interface TurnSignals {
  readonly cancel: AbortSignal;
  readonly pause: AbortSignal;
}
