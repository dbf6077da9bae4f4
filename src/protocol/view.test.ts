import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Block } from "./block.ts";
import { type Cursor, compareCursors } from "./cursor.ts";
import { type CommittedEvent, cursorOf, type Event, type LiveEvent, readEvent } from "./event.ts";
import type { LiveView } from "./live-view.ts";
import type { Snapshot } from "./method.ts";
import { NO_USAGE, type Status } from "./status.ts";
import type { SystemItem } from "./system-item.ts";
import { emptyView, reduce, reduceRead, resumeView, type View, viewOfSnapshot } from "./view.ts";

const status: Status = {
  state: "idle",
  turn: 0,
  trigger: null,
  last_outcome: null,
  pending: 0,
  wake_held: null,
  model: "script:x",
  usage: NO_USAGE,
  scope_enforcement: "tools_only",
};

function notification(id: string): SystemItem {
  return {
    kind: "notification",
    payload: { source: "ci", message: id },
    id,
    body: `[Notification from ci]\n${id}`,
    origin: { by: "client" },
    trust: "external",
    wake: true,
    chain: { id: "c", hops: 0 },
  };
}

const chain = { id: "c", hops: 0 };

/** One move of a Pod: the generator picks moves, this makes them a legal stream. */
type Move =
  | { readonly move: "input" | "config" | "pause" | "request_fails" }
  | { readonly move: "items"; readonly count: number }
  | { readonly move: "request"; readonly deltas: number; readonly calls: number; readonly take: boolean };

const moves: fc.Arbitrary<readonly Move[]> = fc.array(
  fc.oneof(
    fc.record({ move: fc.constantFrom("input" as const, "config" as const, "pause" as const, "request_fails" as const) }),
    fc.record({ move: fc.constant("items" as const), count: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ move: fc.constant("request" as const), deltas: fc.nat(3), calls: fc.nat(3), take: fc.boolean() }),
  ),
  { maxLength: 20 },
);

function streamOf(list: readonly Move[]): Event[] {
  const events: Event[] = [];
  let seq = 0;
  let waiting: string[] = [];
  let turn = 0;
  let n = 0;
  const entry = (...many: readonly ((place: { seq: number; index: number; ts: number }) => CommittedEvent)[]) => {
    seq += 1 + (seq % 2); // Not every entry is an event.
    many.forEach((make, index) => {
      events.push(make({ seq, index, ts: 1000 - seq }));
    });
  };
  entry((at) => ({ type: "session_started", ...at, session: "s", pod: "p", model: "m", cwd: "/w" }));
  for (const step of list) {
    switch (step.move) {
      case "input":
        waiting.push(`in_${seq}`);
        entry((at) => ({
          type: "user_message",
          ...at,
          id: waiting.at(-1) ?? "",
          segments: [{ kind: "text", text: "[Notification from x]" }],
          waits_for: "turn",
          origin: { by: "client" },
        }));
        break;
      case "items": {
        const ids = Array.from({ length: step.count }, (_, i) => `it_${seq}_${i}`);
        waiting.push(...ids);
        entry(
          ...ids.map((id) => (at: { seq: number; index: number; ts: number }) => ({
            type: "system_item" as const,
            ...at,
            item: notification(id),
          })),
        );
        break;
      }
      case "config":
        entry((at) => ({ type: "config_changed", ...at, changes: { model: "n" } }));
        break;
      case "pause":
        entry((at) => ({ type: "turn_paused", ...at, turn }));
        entry((at) => ({ type: "turn_resumed", ...at, turn }));
        break;
      case "request_fails":
        n++;
        entry((at) => ({ type: "request_started", ...at, n, model: "m", takes: [] }));
        events.push({ type: "text_delta", text: "lost" }, { type: "live_reset" });
        events.push({ type: "retry", attempt: 1, wait_ms: 5, error: { code: "server_error", message: "x" } });
        break;
      case "request": {
        n++;
        turn++;
        const takes = step.take ? waiting : waiting.slice(1);
        waiting = waiting.filter((id) => !takes.includes(id));
        entry((at) => ({ type: "turn_started", ...at, turn, trigger: "user", chain }));
        entry((at) => ({ type: "request_started", ...at, n, turn, model: "m", takes }));
        for (let i = 0; i < step.deltas; i++) {
          events.push({ type: "thinking_delta", text: `t${i}` }, { type: "text_delta", text: `d${i}` });
        }
        const calls = Array.from({ length: step.calls }, (_, i) => `call_${n}_${i}`);
        for (const id of calls) events.push({ type: "tool_call_delta", call_id: id, name: "Bash", arguments: "{" });
        entry(
          (at) => ({ type: "assistant_item", ...at, item: { kind: "reasoning", text: "r" } }),
          (at) => ({ type: "assistant_item", ...at, item: { kind: "text", text: `answer ${n}` } }),
          ...calls.map((id) => (at: { seq: number; index: number; ts: number }) => ({
            type: "assistant_item" as const,
            ...at,
            item: { kind: "tool_call" as const, call_id: id, name: "Bash", arguments: "{}" },
          })),
        );
        entry((at) => ({ type: "request_ended", ...at, stop: "end", usage: NO_USAGE }));
        for (const id of calls) {
          entry((at) => ({ type: "tool_started", ...at, call_id: id }));
          events.push({ type: "tool_progress", call_id: id, text: "p" });
        }
        for (const id of calls.toReversed()) {
          entry((at) => ({ type: "tool_result", ...at, call_id: id, summary: id, is_error: false }));
        }
        entry((at) => ({ type: "turn_ended", ...at, turn, outcome: "completed" }));
        break;
      }
    }
  }
  return events;
}

const isCommitted = (event: Event): event is CommittedEvent => "seq" in event;
const fold = (view: View, events: readonly Event[]) => events.reduce(reduce, view);

function liveEventsOf(live: LiveView): LiveEvent[] {
  const parts = live.parts.map((part): LiveEvent => {
    if (part.kind === "text") return { type: "text_delta", text: part.text };
    if (part.kind === "reasoning") return { type: "thinking_delta", text: part.text };
    return { type: "tool_call_delta", call_id: part.callId, name: part.name, arguments: part.arguments };
  });
  const progress = [...live.progress].map(([call_id, text]): LiveEvent => ({ type: "tool_progress", call_id, text }));
  const retry: LiveEvent[] = live.retry
    ? [{ type: "retry", attempt: live.retry.attempt, wait_ms: live.retry.waitMs, error: live.retry.error }]
    : [];
  return [...parts, ...progress, ...retry];
}

/** What a Pod answers to `attach` after `before`, with a window of the newest `size` events. */
function snapshotAt(before: readonly Event[], size: number): { snapshot: Snapshot; from: Cursor } {
  const all = fold(emptyView, before);
  const committed = before.filter(isCommitted);
  const window = committed.slice(Math.max(0, committed.length - size));
  const older = committed.slice(0, Math.max(0, committed.length - size)).filter((event) => {
    const id = event.type === "user_message" ? event.id : event.type === "system_item" ? event.item.id : undefined;
    return id !== undefined && all.pending.has(id);
  });
  const first = window[0];
  const snapshot = {
    pod: { name: "p", session: "s" },
    status,
    cursor: all.cursor,
    more: committed.length > window.length,
    events: [...older, ...window],
    live: liveEventsOf(all.live),
    alerts: [],
  };
  return { snapshot, from: first ? cursorOf(first) : { seq: all.cursor.seq, index: all.cursor.index + 1 } };
}

/** The blocks that a window must agree on: those from `from` on and those that were pending when it began. */
function within(view: View, from: Cursor, pending: ReadonlySet<string>): Block[] {
  return [...view.blocks].filter((block) => {
    if (block.kind === "tool_call" && block.call === undefined) return false;
    if (block.kind === "user_message" && pending.has(block.id)) return true;
    if (block.kind === "system_item" && pending.has(block.item.id)) return true;
    return compareCursors(block.place, from) >= 0;
  });
}

describe("reduce", () => {
  test("a client that attaches anywhere sees what one sees that was there from the start", () => {
    fc.assert(
      fc.property(moves, fc.nat(), fc.integer({ min: 1, max: 30 }), (list, where, size) => {
        const events = streamOf(list);
        const cut = where % (events.length + 1);
        const { snapshot, from } = snapshotAt(events.slice(0, cut), size);
        const pending = new Set(fold(emptyView, events.slice(0, cut)).pending.keys());
        const all = fold(emptyView, events);
        const late = fold(viewOfSnapshot(snapshot), events.slice(cut));
        expect(within(late, from, pending)).toEqual(within(all, from, pending));
        expect(late.live).toEqual(all.live);
        expect(late.cursor).toEqual(all.cursor);
        expect([...late.pending.keys()]).toEqual([...all.pending.keys()]);
        // A result whose call is out of view is shown, with what the full view has.
        for (const block of late.blocks) {
          if (block.kind !== "tool_call" || block.call !== undefined) continue;
          const whole = [...all.blocks].find((other) => other.kind === "tool_call" && other.callId === block.callId);
          expect(whole).toMatchObject({ started: block.started, result: block.result });
        }
      }),
    );
  });

  test("a repeated committed event changes nothing, wherever it comes again (S7)", () => {
    fc.assert(
      fc.property(moves, fc.nat(), fc.nat(), (list, where, back) => {
        const events = streamOf(list);
        const cut = where % (events.length + 1);
        const view = fold(emptyView, events.slice(0, cut));
        const repeats = events.slice(Math.max(0, cut - (back % (cut + 1))), cut).filter(isCommitted);
        expect(fold(view, repeats)).toBe(view);
        expect(fold(emptyView, [...events.slice(0, cut), ...repeats, ...events.slice(cut)])).toEqual(fold(emptyView, events));
      }),
    );
  });

  test("attaching again with an overlap draws nothing twice", () => {
    fc.assert(
      fc.property(moves, fc.nat(), fc.nat(), (list, where, gap) => {
        const events = streamOf(list);
        const lostAt = where % (events.length + 1);
        const backAt = lostAt + (gap % (events.length - lostAt + 1));
        const before = fold(emptyView, events.slice(0, lostAt));
        const { snapshot } = snapshotAt(events.slice(0, backAt), 10_000);
        const view = fold(resumeView({ ...before, pod: snapshot.pod }, snapshot), events.slice(backAt));
        const all = fold(emptyView, events);
        expect([...view.blocks]).toEqual([...all.blocks]);
        expect(view.live).toEqual(all.live);
      }),
    );
  });

  test("attaching again starts anew where the old part cannot be continued", () => {
    const events = streamOf([{ move: "items", count: 3 }, { move: "config" }]);
    const { snapshot } = snapshotAt(events, 2);
    const before = { ...fold(emptyView, events.slice(0, 1)), pod: snapshot.pod };
    const fresh = [...viewOfSnapshot(snapshot).blocks];
    expect(snapshot.more).toBe(true);
    expect([...resumeView(before, snapshot).blocks]).toEqual(fresh);
    const all = snapshotAt(events, 100).snapshot;
    expect([...resumeView({ ...before, cursor: { seq: 99, index: 0 } }, all).blocks]).toEqual([...viewOfSnapshot(all).blocks]);
    expect(resumeView({ ...before, pod: { name: "p", session: "other" } }, all).blocks.length).toBe(all.events.length);
  });

  test("folding does not change the view it started from", () => {
    const events = streamOf([
      { move: "items", count: 3 },
      { move: "request", deltas: 2, calls: 2, take: true },
    ]);
    let view = emptyView;
    const seen: { view: View; text: string }[] = [];
    const textOf = (one: View) => JSON.stringify([[...one.blocks], one.live.parts, [...one.pending], [...one.openCalls]]);
    for (const event of events) {
      seen.push({ view, text: textOf(view) });
      view = reduce(view, event);
    }
    for (const former of seen) expect(textOf(former.view)).toBe(former.text);
  });

  test("an item is pending until a request names it", () => {
    const view = fold(emptyView, streamOf([{ move: "items", count: 2 }]));
    expect([...view.blocks].slice(1)).toMatchObject([{ pending: true }, { pending: true }]);
    const first = view.blocks.at(1);
    const taken = first?.kind === "system_item" ? [first.item.id] : [];
    const after = reduce(view, {
      type: "request_started",
      seq: 9,
      index: 0,
      ts: 0,
      n: 1,
      model: "m",
      takes: [...taken, "it_unknown"],
    });
    expect([...after.blocks].slice(1)).toMatchObject([{ pending: false }, { pending: true }]);
  });

  test("partials go when the committed item, the end of the request or a reset arrives", () => {
    const place = { seq: 5, index: 0, ts: 0 };
    const partial = fold(emptyView, [
      { type: "thinking_delta", text: "t" },
      { type: "text_delta", text: "a" },
      { type: "text_delta", text: "b" },
    ]);
    expect(partial.live.parts).toEqual([
      { kind: "reasoning", text: "t" },
      { kind: "text", text: "ab" },
    ]);
    const committed = reduce(partial, { type: "assistant_item", ...place, item: { kind: "text", text: "ab" } });
    expect(committed.live.parts).toEqual([{ kind: "reasoning", text: "t" }]);
    expect(reduce(partial, { type: "request_ended", ...place, stop: "end", usage: NO_USAGE }).live.parts).toEqual([]);
    expect(reduce(partial, { type: "live_reset" }).live.parts).toEqual([]);
  });

  test("unknown event types and item kinds are kept generically and counted once", () => {
    const unknown = readEvent({ type: "compacted", seq: 7, index: 0, ts: 3, summary: "x" });
    const view = reduceRead(emptyView, unknown);
    expect([...view.blocks]).toEqual([{ kind: "notice", type: "compacted", place: { seq: 7, index: 0 }, ts: 3 }]);
    expect(reduceRead(view, unknown)).toBe(view);
    expect(reduceRead(view, readEvent({ type: "sparkle" }))).toBe(view);
    const item = readEvent({
      type: "system_item",
      seq: 8,
      index: 0,
      ts: 3,
      item: { id: "i", kind: "weather", body: "rain", extra: 1 },
    });
    expect(reduceRead(view, item).blocks.at(-1)).toMatchObject({
      kind: "system_item",
      pending: true,
      item: { kind: "weather", body: "rain" },
    });
  });

  test("an alert replaces its former self and goes when it no longer holds", () => {
    const alert = { id: "a", level: "error" as const, code: "storage_failed", message: "m", ts: 0, active: true };
    const view = fold(emptyView, [
      { type: "alert", alert },
      { type: "alert", alert: { ...alert, message: "n" } },
    ]);
    expect(view.alerts).toEqual([{ ...alert, message: "n" }]);
    expect(reduce(view, { type: "alert", alert: { ...alert, active: false } }).alerts).toEqual([]);
  });
});
