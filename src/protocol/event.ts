import * as z from "zod";
import { Alert } from "./alert.ts";
import { Chain, Origin } from "./chain.ts";
import { Cursor } from "./cursor.ts";
import { Segment } from "./segment.ts";
import { Status, TurnOutcome, TurnTrigger, Usage } from "./status.ts";
import { SystemItem, UnknownSystemItem } from "./system-item.ts";

/** Every committed event names its place in the log; `ts` is the entry's time and orders nothing. */
const place = { seq: z.int().min(1), index: z.int().min(0), ts: z.number() };

/** One thing the model said, as clients see it. What only providers need (signatures, encrypted reasoning) stays in the log. */
export const AssistantItem = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("text"), text: z.string() }),
  z.object({ kind: z.literal("reasoning"), text: z.string() }),
  z.object({ kind: z.literal("tool_call"), call_id: z.string(), name: z.string(), arguments: z.string() }),
]);
export type AssistantItem = z.infer<typeof AssistantItem>;

/** Why an answer ended: the model was done, wants tools, ran into the output limit, was filtered, refused, or was cancelled. */
export const StopReason = z.enum(["end", "tool_calls", "max_tokens", "content_filter", "refusal", "other", "cancelled"]);
export type StopReason = z.infer<typeof StopReason>;

export const TurnError = z.object({ code: z.string(), message: z.string(), retry_after_ms: z.number().min(0).optional() });
export type TurnError = z.infer<typeof TurnError>;

/** Committed lane: what the log holds, entry by entry, each sent after it is written (I2). */
const committed = [
  z.object({
    type: z.literal("session_started"),
    ...place,
    session: z.string(),
    pod: z.string(),
    model: z.string(),
    cwd: z.string(),
  }),
  z.object({ type: z.literal("turn_started"), ...place, turn: z.int(), trigger: TurnTrigger, chain: Chain }),
  z.object({ type: z.literal("turn_paused"), ...place, turn: z.int() }),
  z.object({ type: z.literal("turn_resumed"), ...place, turn: z.int() }),
  z.object({ type: z.literal("turn_ended"), ...place, turn: z.int(), outcome: TurnOutcome, error: TurnError.optional() }),
  /** A human's input, pending until a `request_started` names its id. */
  z.object({
    type: z.literal("user_message"),
    ...place,
    id: z.string(),
    segments: z.array(Segment),
    waits_for: z.enum(["request", "turn"]),
    origin: Origin,
    submission: z.string().optional(),
  }),
  /** An injection (S1), pending until a `request_started` names its id (N13). */
  z.object({ type: z.literal("system_item"), ...place, item: z.union([SystemItem, UnknownSystemItem]) }),
  /** An LLM request is about to be sent; `takes` are the ids that entered the context with it. */
  z.object({
    type: z.literal("request_started"),
    ...place,
    n: z.int(),
    turn: z.int().optional(),
    model: z.string(),
    takes: z.array(z.string()),
  }),
  z.object({ type: z.literal("assistant_item"), ...place, item: AssistantItem }),
  /** The answer is complete; it stands after its items, also when there are none. */
  z.object({ type: z.literal("request_ended"), ...place, stop: StopReason, usage: Usage }),
  z.object({ type: z.literal("tool_started"), ...place, call_id: z.string() }),
  z.object({
    type: z.literal("tool_result"),
    ...place,
    call_id: z.string(),
    summary: z.string(),
    content: z.string().optional(),
    is_error: z.boolean(),
  }),
  z.object({ type: z.literal("config_changed"), ...place, changes: z.record(z.string(), z.unknown()) }),
  z.object({ type: z.literal("closed"), ...place, reason: z.string() }),
] as const;

/** Live lane: never on disk, no place, replaced by the committed event that follows. */
const live = [
  z.object({ type: z.literal("text_delta"), text: z.string() }),
  z.object({ type: z.literal("thinking_delta"), text: z.string() }),
  z.object({ type: z.literal("tool_call_delta"), call_id: z.string(), name: z.string(), arguments: z.string() }),
  z.object({ type: z.literal("tool_progress"), call_id: z.string(), text: z.string() }),
  /** Attempt `attempt` failed; the next one follows after `wait_ms`. */
  z.object({ type: z.literal("retry"), attempt: z.int(), wait_ms: z.number(), error: TurnError }),
  /** Throw away everything partial: the attempt it belonged to failed. */
  z.object({ type: z.literal("live_reset") }),
] as const;

/** State lane: what holds now. */
const state = [
  z.object({ type: z.literal("status"), status: Status }),
  z.object({ type: z.literal("alert"), alert: Alert }),
  /** This client read too slowly and was cut off; attach again with `since: cursor`. */
  z.object({ type: z.literal("lagged"), cursor: Cursor }),
  z.object({ type: z.literal("shutdown"), reason: z.string() }),
] as const;

export const CommittedEvent = z.discriminatedUnion("type", committed);
export type CommittedEvent = z.infer<typeof CommittedEvent>;
export const LiveEvent = z.discriminatedUnion("type", live);
export type LiveEvent = z.infer<typeof LiveEvent>;
export const StateEvent = z.discriminatedUnion("type", state);
export type StateEvent = z.infer<typeof StateEvent>;
export const Event = z.discriminatedUnion("type", [...committed, ...live, ...state]);
export type Event = z.infer<typeof Event>;

/** An event type of a newer Pod: kept, shown generically or ignored, never fatal. */
export const UnknownEvent = z.looseObject({ type: z.string() });
export type UnknownEvent = z.infer<typeof UnknownEvent>;

const KNOWN_TYPES: ReadonlySet<string> = new Set([...committed, ...live, ...state].map((schema) => schema.shape.type.value));

/** Outcome of reading an event: known, of a newer Pod, or malformed (a known type with wrong fields). */
export type ReadEvent =
  | { readonly kind: "known"; readonly event: Event }
  | { readonly kind: "unknown"; readonly event: UnknownEvent }
  | { readonly kind: "malformed"; readonly reason: string };

/** Validates an event from a Pod. */
export function readEvent(value: unknown): ReadEvent {
  const known = Event.safeParse(value);
  if (known.success) return { kind: "known", event: known.data };
  const unknown = UnknownEvent.safeParse(value);
  if (unknown.success && !KNOWN_TYPES.has(unknown.data.type)) return { kind: "unknown", event: unknown.data };
  return { kind: "malformed", reason: z.prettifyError(known.error) };
}

/** The place of a committed event. */
export function cursorOf(event: { readonly seq: number; readonly index: number }): Cursor {
  return { seq: event.seq, index: event.index };
}
