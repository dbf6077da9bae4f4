import { assertNever } from "../base/assert-never.ts";
import type { Alert } from "./alert.ts";
import type { Block, ToolCallBlock } from "./block.ts";
import { BlockList } from "./block-list.ts";
import { type Cursor, compareCursors } from "./cursor.ts";
import { type CommittedEvent, cursorOf, type Event, type ReadEvent, type UnknownEvent } from "./event.ts";
import { type LiveView, NO_LIVE, reduceLive, withoutPart, withoutProgress } from "./live-view.ts";
import type { Snapshot } from "./method.ts";
import type { Status, TurnOutcome, TurnTrigger } from "./status.ts";

/**
 * The fold that every client shares (I4): `view = reduce(view, event)`. Pure: a view is never changed, a new one shares what stayed.
 * 1. Exactly once: a committed event that is not newer than `cursor` changes nothing (S7), so overlaps and repeats are harmless.
 * 2. What is drawn is decided by type and kind, never by the text (S3).
 * 3. A view may begin anywhere: a result, or a request that takes an item, whose origin is not in view is no error.
 * 4. The cost of an event does not depend on the length of the session.
 */
export interface View {
  readonly pod: { readonly name: string; readonly session: string } | undefined;
  readonly status: Status | undefined;
  /** Newest committed place in the view: attach again from here. */
  readonly cursor: Cursor;
  /** True when older events exist that `history` can page to. */
  readonly more: boolean;
  readonly blocks: BlockList<Block>;
  readonly live: LiveView;
  /** Index in `blocks` of each input and system item that no request took yet, by its id. */
  readonly pending: ReadonlyMap<string, number>;
  /** Index in `blocks` of each call without a result, by call id. */
  readonly openCalls: ReadonlyMap<string, number>;
  readonly alerts: readonly Alert[];
  /** The latest turn in view. */
  readonly turn: TurnView | undefined;
  /** Set once the Pod said that this connection ends: cut off as too slow, or shutting down. */
  readonly ending: { readonly kind: "lagged" } | { readonly kind: "shutdown"; readonly reason: string } | undefined;
}

export interface TurnView {
  readonly number: number;
  /** Undefined where the view begins behind the turn's start. */
  readonly trigger: TurnTrigger | undefined;
  readonly state: "running" | "paused" | "ended";
  readonly outcome: TurnOutcome | undefined;
}

/** A view that has seen nothing. */
export const emptyView: View = {
  pod: undefined,
  status: undefined,
  cursor: { seq: 0, index: 0 },
  more: false,
  blocks: BlockList.empty(),
  live: NO_LIVE,
  pending: new Map(),
  openCalls: new Map(),
  alerts: [],
  turn: undefined,
  ending: undefined,
};

/** The view of a client that just attached. */
export function viewOfSnapshot(snapshot: Snapshot): View {
  return withSnapshot({ ...emptyView, more: snapshot.more }, snapshot);
}

/**
 * The view of a client that attached again with `since: view.cursor`: nothing is drawn twice. It starts anew where the old part cannot
 * be continued: another session, more missed than one snapshot holds (`more`), or a Pod that lost its newest entries (a power cut).
 */
export function resumeView(view: View, snapshot: Snapshot): View {
  const continues =
    view.pod?.session === snapshot.pod.session && !snapshot.more && compareCursors(snapshot.cursor, view.cursor) >= 0;
  return continues ? withSnapshot(view, snapshot) : viewOfSnapshot(snapshot);
}

function withSnapshot(former: View, snapshot: Snapshot): View {
  let view: View = { ...former, pod: snapshot.pod, live: NO_LIVE, ending: undefined };
  for (const event of snapshot.events) view = reduce(view, event);
  const cursor = compareCursors(snapshot.cursor, view.cursor) > 0 ? snapshot.cursor : view.cursor;
  // Partials of before are stale: the snapshot holds all that is live now.
  view = { ...view, cursor, live: NO_LIVE, status: snapshot.status, alerts: snapshot.alerts.filter((alert) => alert.active) };
  for (const event of snapshot.live) view = reduce(view, event);
  return view;
}

/** The view after an event as it was read from the wire: a newer Pod's committed event becomes a notice, anything unreadable nothing. */
export function reduceRead(view: View, read: ReadEvent): View {
  switch (read.kind) {
    case "known":
      return reduce(view, read.event);
    case "unknown":
      return reduceUnknown(view, read.event);
    case "malformed":
      return view;
    default:
      return assertNever(read, "read event");
  }
}

/** The view after an event. */
export function reduce(view: View, event: Event): View {
  switch (event.type) {
    case "text_delta":
    case "thinking_delta":
    case "tool_call_delta":
    case "tool_progress":
    case "retry":
    case "live_reset": {
      const live = reduceLive(view.live, event);
      return live === view.live ? view : { ...view, live };
    }
    case "status":
      return { ...view, status: event.status };
    case "alert":
      return { ...view, alerts: withAlert(view.alerts, event.alert) };
    case "lagged":
      return { ...view, ending: { kind: "lagged" } };
    case "shutdown":
      return { ...view, ending: { kind: "shutdown", reason: event.reason } };
    default: {
      const place = cursorOf(event);
      if (compareCursors(place, view.cursor) <= 0) return view; // S7: exactly once.
      return reduceCommitted({ ...view, cursor: place }, event, { place, ts: event.ts });
    }
  }
}

function reduceCommitted(view: View, event: CommittedEvent, at: { readonly place: Cursor; readonly ts: number }): View {
  switch (event.type) {
    case "session_started": {
      const { session, pod, model, cwd } = event;
      return { ...withBlock(view, { kind: "session_start", ...at, session, pod, model, cwd }), pod: { name: pod, session } };
    }
    case "turn_started": {
      const { turn, trigger, chain } = event;
      const started = withBlock(view, { kind: "turn_start", ...at, turn, trigger, chain });
      return { ...started, turn: { number: turn, trigger, state: "running", outcome: undefined } };
    }
    case "turn_paused": {
      const paused = withBlock({ ...view, live: NO_LIVE }, { kind: "turn_pause", ...at, turn: event.turn });
      return withTurn(paused, event.turn, "paused", undefined);
    }
    case "turn_resumed":
      return withTurn(withBlock(view, { kind: "turn_resume", ...at, turn: event.turn }), event.turn, "running", undefined);
    case "turn_ended": {
      const { turn, outcome, error } = event;
      const ended = withBlock({ ...view, live: NO_LIVE }, { kind: "turn_end", ...at, turn, outcome, error });
      return withTurn(ended, turn, "ended", outcome);
    }
    case "user_message": {
      const { id, segments, waits_for: waitsFor, origin, submission } = event;
      return withPending(view, id, { kind: "user_message", ...at, id, segments, waitsFor, origin, submission, pending: true });
    }
    case "system_item":
      return withPending(view, event.item.id, { kind: "system_item", ...at, item: event.item, pending: true });
    case "request_started":
      return settle({ ...view, live: { ...NO_LIVE, progress: view.live.progress } }, event.takes);
    case "assistant_item": {
      const { item } = event;
      const settled = { ...view, live: withoutPart(view.live, item) };
      if (item.kind === "text") return withBlock(settled, { kind: "assistant_text", ...at, text: item.text });
      if (item.kind === "reasoning") return withBlock(settled, { kind: "reasoning", ...at, text: item.text });
      const call = { name: item.name, arguments: item.arguments };
      return withOpenCall(settled, { kind: "tool_call", ...at, callId: item.call_id, call, started: false, result: undefined });
    }
    case "request_ended":
      return { ...view, live: { ...NO_LIVE, progress: view.live.progress } };
    case "tool_started":
      return withCall(view, event.call_id, { started: true }, at);
    case "tool_result": {
      const { call_id: callId, summary, content, is_error: isError } = event;
      const answered = withCall(view, callId, { result: { summary, content, isError } }, at);
      const openCalls = new Map(answered.openCalls);
      openCalls.delete(callId);
      return { ...answered, openCalls, live: withoutProgress(view.live, callId) };
    }
    case "config_changed":
      return withBlock(view, { kind: "config_change", ...at, changes: event.changes });
    case "closed":
      return withBlock(view, { kind: "closed", ...at, reason: event.reason });
    default:
      return assertNever(event, "committed event");
  }
}

function reduceUnknown(view: View, event: UnknownEvent): View {
  const { seq, index, ts } = event;
  // Without a place it is live or state: nothing that stays.
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(index)) return view;
  const place = { seq: Number(seq), index: Number(index) };
  if (compareCursors(place, view.cursor) <= 0) return view; // S7
  return withBlock({ ...view, cursor: place }, { kind: "notice", place, ts: typeof ts === "number" ? ts : 0, type: event.type });
}

function withBlock(view: View, block: Block): View {
  return { ...view, blocks: view.blocks.append(block) };
}

function withTurn(view: View, number: number, state: TurnView["state"], outcome: TurnOutcome | undefined): View {
  const trigger = view.turn?.number === number ? view.turn.trigger : undefined;
  return { ...view, turn: { number, trigger, state, outcome } };
}

// Pending items and open calls are bounded (N9, one batch), so copying their maps costs the same at any length of the session.
function withPending(view: View, id: string, block: Block): View {
  return { ...withBlock(view, block), pending: new Map(view.pending).set(id, view.blocks.length) };
}

function withOpenCall(view: View, block: ToolCallBlock): View {
  return { ...withBlock(view, block), openCalls: new Map(view.openCalls).set(block.callId, view.blocks.length) };
}

function settle(view: View, taken: readonly string[]): View {
  const pending = new Map(view.pending);
  let blocks = view.blocks;
  for (const id of taken) {
    const index = pending.get(id);
    const block = index === undefined ? undefined : blocks.at(index);
    if (index === undefined || (block?.kind !== "user_message" && block?.kind !== "system_item")) continue; // Began before the view.
    pending.delete(id);
    blocks = blocks.set(index, { ...block, pending: false });
  }
  return { ...view, pending, blocks };
}

function withCall(
  view: View,
  callId: string,
  change: Partial<Pick<ToolCallBlock, "started" | "result">>,
  at: { readonly place: Cursor; readonly ts: number },
): View {
  const index = view.openCalls.get(callId);
  const block = index === undefined ? undefined : view.blocks.at(index);
  if (index !== undefined && block?.kind === "tool_call") {
    return { ...view, blocks: view.blocks.set(index, { ...block, ...change }) };
  }
  return withOpenCall(view, { kind: "tool_call", ...at, callId, call: undefined, started: true, result: undefined, ...change });
}

function withAlert(alerts: readonly Alert[], alert: Alert): readonly Alert[] {
  const others = alerts.filter((other) => other.id !== alert.id);
  return alert.active ? [...others, alert] : others;
}
