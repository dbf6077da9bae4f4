import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import type { CommittedEvent, LiveEvent } from "../protocol/event.ts";
import { readEvent } from "../protocol/event.ts";
import { emptyView, reduceRead, type View } from "../protocol/view.ts";
import { Broadcaster, type EventSink } from "./broadcaster.ts";

const START = { seq: 1, index: 0 };

/** A client whose connection is full whenever the test says so. */
class FakeSink implements EventSink {
  readonly events: unknown[] = [];
  full = false;

  send(line: string): boolean {
    this.events.push(JSON.parse(line).params);
    return !this.full;
  }
  types(): string[] {
    return this.events.map((event) => (readEvent(event).kind === "known" ? String((event as { type: string }).type) : "?"));
  }
}

function committed(seq: number, text = "x"): CommittedEvent {
  return { type: "assistant_item", seq, index: 0, ts: 1, item: { kind: "text", text } };
}
const delta = (text: string): LiveEvent => ({ type: "text_delta", text });

describe("a client that keeps up", () => {
  it("gets every event as it comes", () => {
    const broadcaster = new Broadcaster();
    const sink = new FakeSink();
    broadcaster.attach(sink, START);
    broadcaster.live(delta("a"));
    broadcaster.live(delta("b"));
    broadcaster.committed(committed(2));
    expect(sink.events).toEqual([delta("a"), delta("b"), committed(2)]);
  });

  it("gets nothing before it attached and nothing after it left", () => {
    const broadcaster = new Broadcaster();
    const sink = new FakeSink();
    broadcaster.committed(committed(2));
    broadcaster.attach(sink, START);
    broadcaster.committed(committed(3));
    broadcaster.detach(sink);
    broadcaster.committed(committed(4));
    broadcaster.drained(sink);
    expect(sink.events).toEqual([committed(3)]);
    expect(broadcaster.size).toBe(0);
  });
});

describe("a client that falls behind", () => {
  verifies(["I6"], "gets what it missed when it reads again: deltas merged, committed events each, in order", () => {
    const broadcaster = new Broadcaster();
    const slow = new FakeSink();
    const quick = new FakeSink();
    broadcaster.attach(slow, START);
    broadcaster.attach(quick, START);
    slow.full = true;
    broadcaster.live(delta("0")); // The one that fills it.
    for (const text of ["a", "b", "c"]) broadcaster.live(delta(text));
    broadcaster.committed(committed(2));
    broadcaster.live(delta("d"));
    broadcaster.live({ type: "thinking_delta", text: "e" });
    broadcaster.live({ type: "thinking_delta", text: "f" });
    expect(slow.events).toEqual([delta("0")]);
    expect(quick.events).toHaveLength(8);
    slow.full = false;
    broadcaster.drained(slow);
    expect(slow.events).toEqual([delta("0"), delta("abc"), committed(2), delta("d"), { type: "thinking_delta", text: "ef" }]);
  });

  it("and is full again at once keeps its order", () => {
    const broadcaster = new Broadcaster();
    const sink = new FakeSink();
    broadcaster.attach(sink, START);
    sink.full = true;
    for (let seq = 2; seq <= 6; seq++) broadcaster.committed(committed(seq));
    for (let n = 0; n < 10; n++) broadcaster.drained(sink); // One line a drain.
    expect(sink.events).toEqual([2, 3, 4, 5, 6].map((seq) => committed(seq)));
  });

  verifies(["I6"], "too far is cut off with the place to attach again from, and the others do not notice (B106)", () => {
    const broadcaster = new Broadcaster();
    const slow = new FakeSink();
    const quick = new FakeSink();
    broadcaster.attach(slow, START);
    broadcaster.attach(quick, START);
    broadcaster.committed(committed(2));
    slow.full = true;
    broadcaster.committed(committed(3)); // It got this one and is full now.
    for (let seq = 4; seq < 70; seq++) broadcaster.committed(committed(seq, "y".repeat(100_000)));
    expect(slow.events.at(-1)).toEqual({ type: "lagged", cursor: { seq: 3, index: 0 } });
    expect(slow.events).toHaveLength(3);
    expect(broadcaster.size).toBe(1);
    slow.full = false;
    broadcaster.drained(slow);
    broadcaster.committed(committed(70));
    expect(slow.events).toHaveLength(3);
    expect(quick.events.at(-1)).toEqual(committed(70));
    expect(quick.events).toHaveLength(69);
  });

  it("with deltas only is cut off as well: its memory is bounded", () => {
    const broadcaster = new Broadcaster();
    const sink = new FakeSink();
    broadcaster.attach(sink, START);
    sink.full = true;
    broadcaster.live(delta("0"));
    for (let n = 0; n < 100 && broadcaster.size > 0; n++) broadcaster.live(delta("z".repeat(100_000)));
    expect(broadcaster.size).toBe(0);
    expect(sink.types()).toEqual(["text_delta", "lagged"]);
  });

  it("ends with the same view as one that keeps up, however its connection fills and drains", () => {
    const event = fc.oneof(
      fc.string({ maxLength: 3 }).map((text) => delta(text)),
      fc.string({ maxLength: 3 }).map((text): LiveEvent => ({ type: "thinking_delta", text })),
      fc.constant<LiveEvent>({ type: "live_reset" }),
      fc
        .record({ call: fc.constantFrom("a", "b"), text: fc.string({ maxLength: 3 }) })
        .map(({ call, text }): LiveEvent => ({ type: "tool_call_delta", call_id: call, name: "T", arguments: text })),
      fc.constant("commit" as const),
    );
    const flow = fc.constantFrom("full", "drain", "none");
    fc.assert(
      fc.property(fc.array(fc.tuple(event, flow), { maxLength: 60 }), (steps) => {
        const broadcaster = new Broadcaster();
        const slow = new FakeSink();
        const quick = new FakeSink();
        broadcaster.attach(slow, START);
        broadcaster.attach(quick, START);
        let seq = 1;
        for (const [what, change] of steps) {
          if (change === "full") slow.full = true;
          if (change === "drain") {
            slow.full = false;
            broadcaster.drained(slow);
          }
          if (what === "commit") broadcaster.committed(committed(++seq));
          else broadcaster.live(what);
        }
        slow.full = false;
        broadcaster.drained(slow);
        const view = (sink: FakeSink): View =>
          sink.events.reduce((before: View, next) => reduceRead(before, readEvent(next)), emptyView);
        expect(view(slow)).toEqual(view(quick));
      }),
    );
  });
});
