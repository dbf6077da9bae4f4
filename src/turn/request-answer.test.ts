import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import type { ModelFailure } from "../llm/model.ts";
import type { StopReason } from "../protocol/event.ts";
import { answer, calls, FakeModel, fails, fakeTool, hangs, type Play, say, signal, TurnBench } from "./test-support.ts";

const OVERLOADED = { code: "overloaded", retryable: true } as const;

describe("a passing trouble", () => {
  it("is tried again, each attempt an entry of its own, and leaves nothing of the failed ones", async () => {
    const model = new FakeModel(fails(OVERLOADED, "half an ans"), fails(OVERLOADED), say("whole"), say("next"));
    using bench = new TurnBench({ model });
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    expect(bench.types()).toEqual(["user_input", "turn_started", "llm_request", "llm_request", "llm_request", "assistant_items"]);
    const requests = bench.entries().filter((entry) => entry.type === "llm_request");
    expect(requests.map(({ n, attempt }) => [n, attempt])).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
    expect(model.attempts).toEqual([1, 2, 3]);
    // What a failed attempt showed is withdrawn, once, before people are told of the wait.
    expect(bench.live.map((event) => event.type)).toEqual(["text_delta", "live_reset", "retry", "retry", "text_delta"]);
    bench.commit({ type: "turn_ended", turn: 1, outcome: "completed" });
    await bench.turn("again");
    expect(bench.shown(4)).toEqual(["go", "whole", "again"]);
  });

  it("tells people which attempt failed, why, and how long the wait is", async () => {
    const model = new FakeModel(fails({ ...OVERLOADED, message: "busy, sorry" }), say("ok"));
    using bench = new TurnBench({ model, random: () => 0 });
    await bench.turn("go");
    expect(bench.live[0]).toEqual({
      type: "retry",
      attempt: 1,
      wait_ms: 500,
      error: { code: "overloaded", message: "busy, sorry" },
    });
  });

  it("takes in at the next attempt what arrived meanwhile", async () => {
    const model = new FakeModel(fails(OVERLOADED), say("ok"));
    using bench = new TurnBench({ model });
    bench.clock.onSleep = () => void bench.notify("news");
    await bench.turn("go");
    expect(bench.shown(1)).toEqual(["go"]);
    expect(bench.shown(2)).toEqual(["go", "!news"]);
    expect(bench.state.owed.size).toBe(0);
  });

  it("does not run a tool of an earlier answer again (B66)", async () => {
    let runs = 0;
    const tool = fakeTool("T", () => ({ summary: `run ${++runs}`, isError: false }), "write");
    const model = new FakeModel(calls(["c1", "T", {}]), fails(OVERLOADED), fails(OVERLOADED), fails(OVERLOADED), say("ok"));
    using bench = new TurnBench({ model, tools: [tool] });
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    expect(runs).toBe(1);
  });

  it("that stays ends the turn after the stated number of attempts (B68)", async () => {
    const model = new FakeModel(fails(OVERLOADED));
    using bench = new TurnBench({ model, limits: { attempts_per_request: 3 } });
    expect(await bench.turn("go")).toEqual({
      kind: "failed",
      error: { code: "overloaded", message: "it was overloaded" },
    });
    expect(model.attempts).toEqual([1, 2, 3]);
    expect(bench.clock.sleeps).toHaveLength(2);
  });

  it("counts attempts for each request anew", async () => {
    const model = new FakeModel(fails(OVERLOADED), calls(["c1", "T", {}]), fails(OVERLOADED), say("ok"));
    using bench = new TurnBench({
      model,
      limits: { attempts_per_request: 2 },
      tools: [fakeTool("T", () => ({ summary: "r", isError: false }))],
    });
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    expect(model.attempts).toEqual([1, 2, 1, 2]);
  });
});

describe("the wait between attempts", () => {
  it("doubles up to half a minute, with jitter between half and all of it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.double({ min: 0, max: 0.999, noNaN: true }), async (random) => {
        const model = new FakeModel(fails(OVERLOADED));
        using bench = new TurnBench({ model, limits: { attempts_per_request: 9 }, random: () => random });
        await bench.turn("go");
        const full = [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000];
        expect(bench.clock.sleeps).toHaveLength(full.length);
        for (const [index, slept] of bench.clock.sleeps.entries()) {
          expect(slept).toBeGreaterThanOrEqual((full[index] ?? 0) / 2);
          expect(slept).toBeLessThan(full[index] ?? 0);
        }
      }),
      { numRuns: 20 },
    );
  });

  it("is the provider's own where it names one", async () => {
    const model = new FakeModel(fails({ ...OVERLOADED, retryAfterMs: 7000 }), say("ok"));
    using bench = new TurnBench({ model });
    await bench.turn("go");
    expect(bench.clock.sleeps).toEqual([7000]);
  });

  it("is not slept through where the provider asks for hours: the turn fails at once and says when (B68)", async () => {
    const twelveHours = 12 * 60 * 60 * 1000;
    const model = new FakeModel(fails({ code: "rate_limited", retryable: true, retryAfterMs: twelveHours }));
    using bench = new TurnBench({ model });
    expect(await bench.turn("go")).toEqual({
      kind: "failed",
      error: { code: "rate_limited", message: "it was rate_limited", retry_after_ms: twelveHours },
    });
    expect(bench.clock.sleeps).toEqual([]);
    expect(model.attempts).toEqual([1]);
  });

  it("is left at once by a cancel and by a pause", async () => {
    for (const how of ["cancel", "pause"] as const) {
      const model = new FakeModel(fails(OVERLOADED), say("never"));
      using bench = new TurnBench({ model });
      bench.clock.holds = true;
      const asleep = signal();
      bench.clock.onSleep = asleep.reached;
      const running = bench.turn("go");
      await asleep.promise;
      bench[how].abort();
      expect(await running).toEqual({ kind: how === "cancel" ? "cancelled" : "paused" });
      expect(model.attempts).toEqual([1]);
    }
  });
});

describe("a trouble that a retry would meet again", () => {
  const codes = ["authentication", "not_found", "invalid_request", "too_large", "context_too_long", "quota", "refused"] as const;
  it.each(codes)("ends the turn at once: %s", async (code) => {
    const failure: ModelFailure = { code, message: "no", retryable: false };
    const model = new FakeModel(fails(failure));
    using bench = new TurnBench({ model });
    expect(await bench.turn("go")).toEqual({ kind: "failed", error: { code, message: "no" } });
    expect(model.attempts).toEqual([1]);
  });
});

describe("an answer without text or call (B80)", () => {
  const silent =
    (stop: StopReason): Play =>
    () =>
      answer(
        [
          { kind: "message", text: " \n" },
          { kind: "reasoning", text: "hm" },
        ],
        stop,
      );

  it("is tried again, and leaves nothing", async () => {
    const model = new FakeModel(silent("end"), say("now"));
    using bench = new TurnBench({ model });
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    expect(bench.entries().filter((entry) => entry.type === "assistant_items")).toHaveLength(1);
    expect(bench.live.map((event) => event.type)).toEqual(["text_delta", "live_reset", "retry", "text_delta"]);
  });

  it.each([
    ["end", "empty_answer", 3],
    ["other", "empty_answer", 3],
    ["refusal", "refused", 1],
    ["content_filter", "refused", 1],
    ["max_tokens", "empty_answer", 1],
  ] as const)("for ever ends the turn with a reason: %s", async (stop, code, attempts) => {
    using bench = new TurnBench({ model: new FakeModel(silent(stop)) });
    expect(await bench.turn("go")).toMatchObject({ kind: "failed", error: { code } });
    expect(bench.model.attempts).toHaveLength(attempts);
    expect(bench.types()).not.toContain("assistant_items");
  });
});

describe("a model that breaks the contract of its port", () => {
  it("and ends without a final event is a fault of ours, not a finished turn (B64)", async () => {
    const model = new FakeModel(function* () {
      yield { type: "text_delta", text: "half" };
    });
    using bench = new TurnBench({ model });
    await expect(bench.turn("go")).rejects.toMatchObject({ code: "internal" });
    expect(bench.types()).not.toContain("assistant_items");
  });
});

describe("a cancelled answer", () => {
  verifies(["M-cancel-running"], "keeps the text that was there, marked as cancelled, and drops half calls (B55)", async () => {
    const streaming = signal();
    const model = new FakeModel(async function* (request, n) {
      yield { type: "item", item: { kind: "reasoning", text: "unsigned" } };
      yield { type: "text_delta", text: "I begin" };
      yield { type: "tool_call_delta", callId: "c1", name: "Write", arguments: '{"pa' };
      yield* hangs(" to write", streaming.reached)(request, n);
    });
    using bench = new TurnBench({ model });
    const running = bench.turn("go");
    await streaming.promise;
    bench.cancel.abort();
    expect(await running).toEqual({ kind: "cancelled" });
    expect(bench.entries().at(-1)).toMatchObject({
      type: "assistant_items",
      stop: "cancelled",
      items: [{ kind: "message", content: [{ kind: "text", text: "I begin to write" }] }],
    });
    expect(bench.state.batch).toBeUndefined();
  });

  it("without any text leaves no empty message", async () => {
    const streaming = signal();
    const model = new FakeModel(hangs("", streaming.reached));
    using bench = new TurnBench({ model });
    const running = bench.turn("go");
    await streaming.promise;
    bench.cancel.abort();
    expect(await running).toEqual({ kind: "cancelled" });
    expect(bench.types()).toEqual(["user_input", "turn_started", "llm_request"]);
  });

  it("before it was sent sends nothing and takes nothing", async () => {
    const model = new FakeModel(say("never"));
    using bench = new TurnBench({ model });
    model.beforeGate = async () => bench.cancel.abort();
    expect(await bench.turn("go")).toEqual({ kind: "cancelled" });
    expect(bench.types()).toEqual(["user_input", "turn_started"]);
    expect(bench.state.pending.size).toBe(1);
  });
});
