import { WAKE_BUCKET_SIZE, WAKE_REFILL_MS } from "../protocol/limits.ts";
import type { WakeHeld } from "../protocol/status.ts";
import { inputWaits } from "./pending.ts";
import type { SessionState } from "./session-state.ts";

/** When a Pod starts a turn by itself (N6, N11, N12): derived from the log alone, so that a restore decides like the live Pod. */

/** Wait after the first failed turn; doubles with each further one. */
export const FAILURE_WAIT_MS = 60 * 1000;
/** Longest wait after failed turns. */
export const MAX_FAILURE_WAIT_MS = 60 * 60 * 1000;
/** Longest wait that a provider is granted: quotas come back within a week, and a nonsense number must not silence a Pod for ever. */
export const MAX_PROVIDER_WAIT_MS = 7 * 24 * 60 * 60 * 1000;

/** Automatic turns that the bucket holds at `nowMs` (a fraction counts towards the next one). A clock set back refills nothing. */
export function bucketAt(state: SessionState, nowMs: number): number {
  const grown = Math.max(0, nowMs - state.bucket.ts) / WAKE_REFILL_MS;
  return Math.min(WAKE_BUCKET_SIZE, state.bucket.tokens + grown);
}

/** What the wake rule says now. */
export type WakeDecision =
  /** Nothing is owed. */
  | { readonly kind: "none" }
  /** A turn is due: because of a human's waiting input, or because a waking item is owed. */
  | { readonly kind: "start"; readonly trigger: "user" | "notification" }
  /** A wake is owed but held; `until` says when to look again. */
  | { readonly kind: "held"; readonly held: WakeHeld };

/**
 * Whether a turn is due for an idle Pod, at a turn's end and after a restore alike (N6). Human inputs up to `inputsAfter` start
 * nothing: they waited when the session was restored, and enter whatever request comes next.
 */
export function decideWake(state: SessionState, nowMs: number, inputsAfter = 0): WakeDecision {
  if (state.turn?.phase === "running") return { kind: "none" };
  if (state.turn?.phase === "paused")
    return state.owed.size > 0 ? { kind: "held", held: { reason: "paused" } } : { kind: "none" }; // N12
  if (inputWaits(state, Math.max(inputsAfter, hadTheirTurn(state)))) return { kind: "start", trigger: "user" };
  if (state.owed.size === 0) return { kind: "none" };
  const failedUntil = failureWaitUntil(state, nowMs);
  if (failedUntil > nowMs) return { kind: "held", held: { reason: "after_failure", until: failedUntil } };
  const tokens = bucketAt(state, nowMs);
  if (tokens < 1) {
    const until = nowMs + Math.ceil((1 - tokens) * WAKE_REFILL_MS);
    return { kind: "held", held: { reason: "bucket_empty", until } };
  }
  return { kind: "start", trigger: "notification" };
}

/**
 * Inputs up to here had a turn started for them that ended before a request took them in: they enter the next request, but do not
 * start turn after turn by themselves. What was sent during that turn still starts the next one. After a completed turn only what did
 * not fit into its requests is left, and that goes on at once.
 */
function hadTheirTurn(state: SessionState): number {
  return state.lastOutcome === undefined || state.lastOutcome === "completed" ? 0 : state.lastTurnStartSeq;
}

/**
 * Until when a failed turn keeps an automatic one waiting: 1 minute doubling to 1 hour, or what the provider asked for. A wait that the
 * provider named and that did not help is taken at its word no more: from the second failure on it only makes our own longer.
 */
function failureWaitUntil(state: SessionState, nowMs: number): number {
  if (!state.lastFailure || state.failures === 0) return nowMs;
  const { ts, retryAfterMs } = state.lastFailure;
  const ours = Math.min(FAILURE_WAIT_MS * 2 ** (state.failures - 1), MAX_FAILURE_WAIT_MS);
  const asked = retryAfterMs === undefined ? undefined : Math.min(retryAfterMs, MAX_PROVIDER_WAIT_MS);
  const wait = asked === undefined || (state.failures > 1 && asked < ours) ? ours : asked;
  // A clock that was set back must not stretch the wait.
  return Math.min(ts, nowMs) + wait;
}
