import * as z from "zod";
import { VERSION } from "../base/version.ts";
import { Chain } from "../protocol/chain.ts";
import { TurnOutcome, TurnTrigger, Usage } from "../protocol/status.ts";
import { SystemItem } from "../protocol/system-item.ts";
import type { EntryOf } from "./entry.ts";
import type { ChainHead } from "./line.ts";
import { LoggedItem, LoggedToolResult } from "./logged-item.ts";
import { pendingOfInput, pendingOfItem } from "./pending.ts";
import type { OpenBatch, SessionState } from "./session-state.ts";
import { UserInput } from "./user-input.ts";

/**
 * What the first entry of a later file carries besides what a session begins with, so that restoring reads that file alone
 * (docs/session-log.md, "Files"). Every field of the state is either here, or follows from the rest of the entry:
 *
 * - history, prompt digest, configuration, system prompt and tools: from the entry's own fields;
 * - the call ids that are used up: those of the calls in the history, because a call joins it with its answer, open or not.
 */

const Place = { seq: z.int().min(1), ts: z.number() };
const Count = z.int().min(0);

const CarriedPending = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("input"), ...Place, input: UserInput }),
  z.object({ kind: z.literal("item"), ...Place, index: Count, item: SystemItem }),
]);

const CarriedAnswer = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("run"),
    id: z.string(),
    result: z.union([z.object({ turn: z.int(), seq: z.int() }), z.object({ queued: z.literal(true), seq: z.int() })]),
  }),
  z.object({
    kind: z.literal("notify"),
    id: z.string(),
    result: z.object({ item: z.string(), seq: z.int(), state: z.enum(["woke", "next_request", "pending"]) }),
  }),
]);

export const Carried = z.object({
  /** Inputs and items that no request took yet, whole, in order of `seq`. */
  pending: z.array(CarriedPending),
  last_turn_start_seq: Count,
  owed: z.array(z.object({ id: z.string(), where: z.enum(["pending", "taken"]) })),
  taken_in_turn: z.array(z.string()),
  turn: z
    .object({
      turn: z.int().min(1),
      trigger: TurnTrigger,
      chain: Chain,
      phase: z.enum(["running", "paused"]),
      requests: Count,
      finished: z.boolean(),
    })
    .optional(),
  batch: z
    .object({
      calls: z.array(
        z.object({
          call_id: z.string(),
          name: z.string(),
          arguments: z.string(),
          started: z.boolean(),
          result: LoggedToolResult.optional(),
        }),
      ),
      after: z.array(LoggedItem),
    })
    .optional(),
  request_open: z.boolean(),
  turns: Count,
  requests: Count,
  answers: Count,
  last_outcome: TurnOutcome.optional(),
  failures: Count,
  last_failure: z.object({ ts: z.number(), retry_after_ms: z.number().optional() }).optional(),
  bucket: z.object({ tokens: z.number(), ts: z.number() }),
  /** Oldest first. */
  answered: z.array(CarriedAnswer),
  usage: Usage,
  last_usage: Usage,
  closed: z.string().optional(),
});
export type Carried = z.infer<typeof Carried>;

/** The part of a state that {@link Carried} holds. */
type CarriedState = Omit<
  SessionState,
  ("session" | "pod" | "cwd" | "config" | "system" | "tools") | ("lastSeq" | "history" | "items" | "promptDigest" | "callIds")
>;

/** What of a state does not stand in the other fields of an entry. Shares the state's values: encode it before the state goes on. */
export function toCarried(state: Readonly<SessionState>): Carried {
  const { turn, batch, lastFailure } = state;
  return {
    pending: [...state.pending.values()].map((pending) => {
      const { seq, ts } = pending;
      if (pending.kind === "input") return { kind: "input", seq, ts, input: pending.input };
      return { kind: "item", seq, ts, index: pending.index, item: pending.item };
    }),
    last_turn_start_seq: state.lastTurnStartSeq,
    owed: [...state.owed].map(([id, where]) => ({ id, where })),
    taken_in_turn: [...state.takenInTurn],
    ...(turn === undefined ? {} : { turn: { ...turn } }),
    ...(batch === undefined ? {} : { batch: toCarriedBatch(batch) }),
    request_open: state.requestOpen,
    turns: state.turns,
    requests: state.requests,
    answers: state.answers,
    ...(state.lastOutcome === undefined ? {} : { last_outcome: state.lastOutcome }),
    failures: state.failures,
    ...(lastFailure === undefined
      ? {}
      : {
          last_failure: {
            ts: lastFailure.ts,
            ...(lastFailure.retryAfterMs === undefined ? {} : { retry_after_ms: lastFailure.retryAfterMs }),
          },
        }),
    bucket: { ...state.bucket },
    answered: [...state.answered].map(([id, answered]) => ({ id, ...answered })),
    usage: state.usage,
    last_usage: state.lastUsage,
    ...(state.closed === undefined ? {} : { closed: state.closed }),
  };
}

/** The way back: `fromCarried(toCarried(state))` equals that part of `state`. */
export function fromCarried(carried: Carried): CarriedState {
  const { turn, batch, last_failure: lastFailure } = carried;
  return {
    pending: new Map(
      carried.pending.map((pending) => [
        pending.kind === "input" ? pending.input.id : pending.item.id,
        pending.kind === "input" ? pendingOfInput(pending.input, pending) : pendingOfItem(pending.item, pending),
      ]),
    ),
    lastTurnStartSeq: carried.last_turn_start_seq,
    owed: new Map(carried.owed.map(({ id, where }) => [id, where])),
    takenInTurn: new Set(carried.taken_in_turn),
    turn: turn && { ...turn },
    batch: batch && fromCarriedBatch(batch),
    requestOpen: carried.request_open,
    turns: carried.turns,
    requests: carried.requests,
    answers: carried.answers,
    lastOutcome: carried.last_outcome,
    failures: carried.failures,
    lastFailure: lastFailure && { ts: lastFailure.ts, retryAfterMs: lastFailure.retry_after_ms },
    bucket: carried.bucket,
    answered: new Map(carried.answered.map(({ id, ...answered }) => [id, answered])),
    usage: carried.usage,
    lastUsage: carried.last_usage,
    closed: carried.closed,
  };
}

function toCarriedBatch(batch: OpenBatch): NonNullable<Carried["batch"]> {
  const calls = [...batch.calls.values()].map(({ callId, name, arguments: args, started, result }) => ({
    call_id: callId,
    name,
    arguments: args,
    started,
    ...(result === undefined ? {} : { result }),
  }));
  return { calls, after: [...batch.after] };
}

function fromCarriedBatch(batch: NonNullable<Carried["batch"]>): OpenBatch {
  const calls = batch.calls.map(({ call_id: callId, name, arguments: args, started, result }) => {
    return [callId, { callId, name, arguments: args, started, result }] as const;
  });
  return { calls: new Map(calls), after: [...batch.after] };
}

/** The entry that a new file begins with: everything needed to go on from `state`, whose newest entry is `head`. */
export function continuationOf(state: Readonly<SessionState>, head: ChainHead): EntryOf<"session_started"> {
  const { session, pod, cwd, config, system, tools, history } = state;
  return {
    type: "session_started",
    format: 1,
    session,
    pod,
    cwd,
    version: VERSION,
    config,
    system,
    tools,
    history,
    continues: { seq: head.seq, hash: head.hash },
    carried: toCarried(state),
  };
}
