import { assertNever } from "../base/assert-never.ts";
import { utf8Bytes } from "../base/text.ts";
import type { Refusal } from "../protocol/error-code.ts";
import {
  MAX_HOPS,
  MAX_NOTIFY_BYTES,
  MAX_PENDING_INPUT_BYTES,
  MAX_PENDING_INPUTS,
  MAX_PENDING_ITEM_BYTES,
  MAX_PENDING_ITEMS,
} from "../protocol/limits.ts";
import type { MethodParams, NotifyState } from "../protocol/method.ts";
import { inputWaits, pendingTotals, segmentsBytes } from "../session-log/pending.ts";
import type { Answered, SessionState } from "../session-log/session-state.ts";
import { decideWake } from "../session-log/wake-rule.ts";

/**
 * What a Pod does with a method in its present state: pure, so that the table of docs/protocol.md is a table of tests. Nothing here
 * changes anything; `pod.ts` carries the decisions out.
 */

/** The Pod's phase as methods see it. */
export type Phase = "idle" | "running" | "paused" | "closing";

/** Everything a decision depends on. `state` is the fold of the log. */
export interface Situation {
  readonly state: Readonly<SessionState>;
  readonly phase: Phase;
  readonly nowMs: number;
}

/** The methods that change a session. The others only read. */
export type ChangingMethod = "run" | "notify" | "pause" | "resume" | "cancel" | "set_config" | "shutdown";
export type ChangingCall = { [M in ChangingMethod]: { readonly name: M; readonly params: MethodParams<M> } }[ChangingMethod];

export type Decision =
  | { readonly kind: "refuse"; readonly refusal: Refusal }
  /** The same id again: the first answer again, nothing else. */
  | { readonly kind: "answer_again"; readonly answered: Answered }
  | { readonly kind: "nothing" }
  /** Accept the input and start a turn with it; `abandon` closes a paused turn first. */
  | { readonly kind: "start_with_input"; readonly abandon: boolean }
  | { readonly kind: "queue_input"; readonly waitsFor: "request" | "turn" }
  /** Accept the notification; `state` is what its sender is told. */
  | { readonly kind: "accept_item"; readonly wake: boolean; readonly state: NotifyState }
  | { readonly kind: "pause_turn" }
  | { readonly kind: "resume_turn" }
  | { readonly kind: "start_resumed" }
  | { readonly kind: "cancel_turn" }
  | { readonly kind: "drop_paused_turn" }
  | { readonly kind: "change_config" }
  | { readonly kind: "close" };

/** Decides one method. */
export function decide(situation: Situation, call: ChangingCall): Decision {
  if (situation.phase === "closing") {
    if (call.name === "shutdown") return { kind: "close" };
    return refuse("shutting_down", "the Pod is shutting down; nothing was accepted", "restore it and send again");
  }
  switch (call.name) {
    case "run":
      return decideRun(situation, call.params);
    case "notify":
      return decideNotify(situation, call.params);
    case "pause":
      if (situation.phase === "idle") return refuse("not_running", "no turn is running");
      return situation.phase === "paused" ? { kind: "nothing" } : { kind: "pause_turn" };
    case "resume":
      return decideResume(situation);
    case "cancel":
      if (situation.phase === "idle") return refuse("not_running", "no turn is running");
      return situation.phase === "paused" ? { kind: "drop_paused_turn" } : { kind: "cancel_turn" };
    case "set_config":
      return { kind: "change_config" };
    case "shutdown":
      return { kind: "close" };
    default:
      return assertNever(call, "method");
  }
}

function decideRun({ state, phase }: Situation, params: MethodParams<"run">): Decision {
  const again = answeredBefore(state, params.submission, "run");
  if (again) return again;
  if (params.input.every((segment) => segment.text.trim() === "")) {
    return refuse("invalid_input", "the input is blank", "send some text");
  }
  if (phase === "running" && params.if_running === "reject") {
    // N10
    return refuse(
      "already_running",
      "a turn is running; the input was not accepted",
      'use if_running "queue" or "steer", or cancel the turn',
    );
  }
  const { inputs } = pendingTotals(state);
  const bytes = segmentsBytes(params.input);
  if (bytes > MAX_PENDING_INPUT_BYTES)
    return refuse("too_large", `an input is at most ${MAX_PENDING_INPUT_BYTES} bytes, this one has ${bytes}`);
  if (inputs.count + 1 > MAX_PENDING_INPUTS || inputs.bytes + bytes > MAX_PENDING_INPUT_BYTES) {
    return refuse(
      "queue_full",
      `${inputs.count} inputs (${inputs.bytes} bytes) wait already`,
      "wait until a turn took them in, then send again",
    ); // N9
  }
  if (phase === "running") return { kind: "queue_input", waitsFor: params.if_running === "steer" ? "request" : "turn" };
  return { kind: "start_with_input", abandon: phase === "paused" };
}

function decideNotify(situation: Situation, params: MethodParams<"notify">): Decision {
  const { state, phase } = situation;
  const again = answeredBefore(state, params.id, "notify");
  if (again) return again;
  if (params.message.trim() === "") return refuse("invalid_input", "the message is blank", "say something");
  const bytes = utf8Bytes(params.message);
  if (bytes > MAX_NOTIFY_BYTES)
    return refuse(
      "too_large",
      `a notification is at most ${MAX_NOTIFY_BYTES} bytes, this one has ${bytes}`,
      "put the rest into a file and name it",
    ); // N9
  const { items } = pendingTotals(state);
  if (items.count + 1 > MAX_PENDING_ITEMS || items.bytes + bytes > MAX_PENDING_ITEM_BYTES) {
    return refuse(
      "queue_full",
      `${items.count} notifications (${items.bytes} bytes) wait already`,
      "wait until the Pod took them in, then send again",
    ); // N9
  }
  // Beyond the hop limit an item wakes no one but enters the next request (N11).
  const wake = params.wake && (params.chain?.hops ?? 0) <= MAX_HOPS;
  return { kind: "accept_item", wake, state: notifyState(situation, wake, phase) };
}

function notifyState(situation: Situation, wake: boolean, phase: Phase): NotifyState {
  if (phase === "running") return "next_request"; // N3
  if (phase !== "idle" || !wake) return "pending"; // N12
  const owed = new Map(situation.state.owed).set("this one", "pending");
  return decideWake({ ...situation.state, owed }, situation.nowMs).kind === "start" ? "woke" : "pending"; // N2, N11
}

function decideResume({ state, phase }: Situation): Decision {
  if (phase === "running") return refuse("already_running", "a turn is running");
  if (phase === "paused") return { kind: "resume_turn" };
  const unfinished = state.lastOutcome === "interrupted" || state.lastOutcome === "failed";
  if (state.owed.size > 0 || inputWaits(state) || unfinished) return { kind: "start_resumed" };
  return refuse(
    "not_paused",
    "there is nothing to resume: no turn is paused, interrupted or failed, and nothing waits",
    "send a message instead",
  );
}

function answeredBefore(state: Readonly<SessionState>, id: string | undefined, kind: Answered["kind"]): Decision | undefined {
  const answered = id === undefined ? undefined : state.answered.get(id);
  if (!answered) return undefined;
  if (answered.kind === kind) return { kind: "answer_again", answered };
  return refuse("invalid_input", `the id ${JSON.stringify(id)} was used for a ${answered.kind} before`, "use a fresh id");
}

function refuse(code: Refusal["code"], message: string, hint?: string): Decision {
  return { kind: "refuse", refusal: hint === undefined ? { code, message } : { code, message, hint } };
}
