import * as z from "zod";
import { Alert } from "./alert.ts";
import { Chain } from "./chain.ts";
import { Cursor } from "./cursor.ts";
import { CommittedEvent, LiveEvent } from "./event.ts";
import { HISTORY_MAX_EVENTS } from "./limits.ts";
import { Segment } from "./segment.ts";
import { ReasoningEffort } from "./session-config.ts";
import { PodState, Status } from "./status.ts";
import { NotificationSource } from "./system-item.ts";

/** Version of the protocol: raised when an old client could no longer work with a new Pod. */
export const PROTOCOL_VERSION = 1;

const Empty = z.object({});
/** Client-chosen name of one `run` or `notify`: the same id again gets the first result and does nothing. */
const RetryId = z.string().min(1).max(128);

/** What a client gets when it attaches: the newest part of the session, in the same tick as the subscription (no gap, no overlap). */
export const Snapshot = z.object({
  pod: z.object({ name: z.string(), session: z.string() }),
  status: Status,
  /** The newest committed place; the first event after the snapshot is behind it. */
  cursor: Cursor,
  /** True when older events exist that `history` can page to. */
  more: z.boolean(),
  /** Committed events newer than `since`, else the newest part; pending items older than that come first. */
  events: z.array(CommittedEvent),
  live: z.array(LiveEvent),
  alerts: z.array(Alert),
});
export type Snapshot = z.infer<typeof Snapshot>;

const NotifyState = z.enum(["woke", "next_request", "pending"]);
export type NotifyState = z.infer<typeof NotifyState>;

/** Every method of a Pod: its params and result. The table in docs/protocol.md says what each does in which state. */
export const METHODS = {
  hello: {
    params: z.object({ client: z.string().min(1).max(128), version: z.string().max(64) }),
    result: z.object({ pod: z.string(), version: z.string(), protocol: z.int() }),
  },
  attach: { params: z.object({ since: Cursor.optional() }), result: Snapshot },
  detach: { params: Empty, result: Empty },
  history: {
    params: z.object({ before: Cursor, limit: z.int().min(1).max(HISTORY_MAX_EVENTS).default(100) }),
    result: z.object({ events: z.array(CommittedEvent), more: z.boolean() }),
  },
  run: {
    params: z.object({
      input: z.array(Segment).min(1).max(1000),
      if_running: z.enum(["reject", "queue", "steer"]).default("reject"),
      submission: RetryId.optional(),
      chain: Chain.optional(),
    }),
    result: z.union([z.object({ turn: z.int(), seq: z.int() }), z.object({ queued: z.literal(true), seq: z.int() })]),
  },
  notify: {
    params: z.object({
      source: NotificationSource,
      /** At most 64 KiB of UTF-8 (`too_large`). */
      message: z.string().min(1),
      wake: z.boolean().default(true),
      id: RetryId.optional(),
      chain: Chain.optional(),
    }),
    result: z.object({ item: z.string(), seq: z.int(), state: NotifyState }),
  },
  pause: { params: Empty, result: Empty },
  resume: { params: Empty, result: z.object({ turn: z.int() }) },
  cancel: { params: Empty, result: Empty },
  set_config: {
    params: z.object({ model: z.string().min(1).max(512).optional(), reasoning: ReasoningEffort.optional() }),
    result: Empty,
  },
  read_output: {
    params: z.object({ since: Cursor.optional(), max_chars: z.int().min(1).max(1_000_000).default(65_536) }),
    result: z.object({ text: z.string(), status: PodState, cursor: Cursor, turns: z.int() }),
  },
  status: { params: Empty, result: Status },
  shutdown: { params: z.object({ reason: z.string().max(200).optional() }), result: Empty },
} as const;

export type MethodName = keyof typeof METHODS;
/** Params as the Pod sees them (defaults filled in). */
export type MethodParams<M extends MethodName> = z.output<(typeof METHODS)[M]["params"]>;
/** Params as a client writes them. */
export type MethodInput<M extends MethodName> = z.input<(typeof METHODS)[M]["params"]>;
export type MethodResult<M extends MethodName> = z.output<(typeof METHODS)[M]["result"]>;

/** A validated call: `name` decides the type of `params`. */
export type MethodCall = { [M in MethodName]: { readonly name: M; readonly params: MethodParams<M> } }[MethodName];

/** True when `name` is a method of this protocol (own names only: `__proto__` is none). */
export function isMethodName(name: string): name is MethodName {
  return Object.hasOwn(METHODS, name);
}
