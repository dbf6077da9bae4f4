import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import type { CommittedEvent, LiveEvent } from "../protocol/event.ts";
import { emptyView, reduce, type View } from "../protocol/view.ts";
import { LiveBuffer } from "./live-buffer.ts";

const place = (seq: number) => ({ seq, index: 0, ts: 0 });

describe("the live buffer", () => {
  it("merges what belongs together and keeps the order of the parts", () => {
    const buffer = new LiveBuffer();
    buffer.note({ type: "thinking_delta", text: "a" });
    buffer.note({ type: "thinking_delta", text: "b" });
    buffer.note({ type: "text_delta", text: "c" });
    buffer.note({ type: "text_delta", text: "d" });
    buffer.note({ type: "tool_call_delta", call_id: "1", name: "T", arguments: "{" });
    buffer.note({ type: "tool_call_delta", call_id: "1", name: "T", arguments: "}" });
    expect(buffer.snapshot()).toEqual([
      { type: "thinking_delta", text: "ab" },
      { type: "text_delta", text: "cd" },
      { type: "tool_call_delta", call_id: "1", name: "T", arguments: "{}" },
    ]);
  });

  it("forgets an attempt that failed and tells of the wait", () => {
    const buffer = new LiveBuffer();
    buffer.note({ type: "text_delta", text: "half" });
    buffer.note({ type: "live_reset" });
    const retry: LiveEvent = { type: "retry", attempt: 1, wait_ms: 5, error: { code: "overloaded", message: "m" } };
    buffer.note(retry);
    expect(buffer.snapshot()).toEqual([retry]);
  });

  it("keeps the end of a running tool's output, bounded", () => {
    const buffer = new LiveBuffer();
    for (let n = 0; n < 2000; n++) buffer.note({ type: "tool_progress", call_id: "1", text: `line ${n}\n` });
    const [progress] = buffer.snapshot();
    if (progress?.type !== "tool_progress") throw new Error("no progress");
    expect(progress.text.length).toBeLessThanOrEqual(8192);
    expect(progress.text.endsWith("line 1999\n")).toBe(true);
    buffer.settle({ type: "tool_result", ...place(5), call_id: "1", summary: "s", is_error: false });
    expect(buffer.snapshot()).toEqual([]);
  });

  verifies(["I4"], "brings a client that attaches at any moment to the same view as one that was there", () => {
    const event = fc.oneof<fc.Arbitrary<LiveEvent | "request" | "ended" | "turn_ended" | "result">[]>(
      fc.string({ minLength: 1, maxLength: 3 }).map((text) => ({ type: "text_delta", text })),
      fc.string({ minLength: 1, maxLength: 3 }).map((text) => ({ type: "thinking_delta", text })),
      fc.record({ call_id: fc.constantFrom("a", "b"), text: fc.string({ maxLength: 3 }) }).map(({ call_id, text }) => ({
        type: "tool_call_delta",
        call_id,
        name: "T",
        arguments: text,
      })),
      fc.record({ call_id: fc.constantFrom("a", "b"), text: fc.string({ minLength: 1, maxLength: 3 }) }).map((more) => ({
        type: "tool_progress",
        ...more,
      })),
      fc.constant({ type: "live_reset" }),
      fc.constant({ type: "retry", attempt: 1, wait_ms: 5, error: { code: "overloaded", message: "m" } }),
      fc.constantFrom("request", "ended", "turn_ended", "result"),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (steps) => {
        const buffer = new LiveBuffer();
        let view: View = emptyView;
        let seq = 0;
        for (const step of steps) {
          if (typeof step === "string") {
            const committed = toCommitted(step, ++seq);
            buffer.settle(committed);
            view = reduce(view, committed);
          } else {
            buffer.note(step);
            view = reduce(view, step);
          }
          const late = buffer.snapshot().reduce((before: View, live) => reduce(before, live), emptyView);
          expect(late.live).toEqual(view.live);
        }
      }),
    );
  });
});

function toCommitted(kind: "request" | "ended" | "turn_ended" | "result", seq: number): CommittedEvent {
  const usage = { input: 0, output: 0, cache_read: 0, cache_write: 0 };
  switch (kind) {
    case "request":
      return { type: "request_started", ...place(seq), n: seq, model: "m", takes: [] };
    case "ended":
      return { type: "request_ended", ...place(seq), stop: "end", usage };
    case "turn_ended":
      return { type: "turn_ended", ...place(seq), turn: 1, outcome: "completed" };
    case "result":
      return { type: "tool_result", ...place(seq), call_id: "a", summary: "s", is_error: false };
  }
}
