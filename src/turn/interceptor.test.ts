import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { type Interceptor, requestBudget } from "./interceptor.ts";
import { makeReminder } from "./system-item-body.ts";
import { calls, FakeModel, fails, fakeTool, say, TurnBench } from "./test-support.ts";

const PROMPTS = { notification: "{source}{message}" };
const reminder = (text: string) => makeReminder("test", text, PROMPTS);
const tool = fakeTool("T", ({ x }) => ({ summary: x, isError: false }));

describe("an interceptor", () => {
  verifies(["S9", "S5"], "adds items before a request: they are committed first and enter that very request", async () => {
    const model = new FakeModel(calls(["c1", "T", {}]), say("done"));
    let n = 0;
    const adds: Interceptor = { name: "adds", preLlmRequest: () => ({ kind: "continue_with", items: [reminder(`r${++n}`)] }) };
    using bench = new TurnBench({ model, tools: [tool], interceptors: [adds] });
    await bench.turn("go");
    expect(bench.shown(1)).toEqual(["go", "!r1"]);
    expect(bench.shown(2).at(-1)).toBe("!r2");
    expect(bench.types().slice(2, 4)).toEqual(["system_items", "llm_request"]);
  });

  verifies(["S9"], "is asked once for a request, not for each attempt", async () => {
    const model = new FakeModel(fails({ code: "overloaded", retryable: true }), say("done"));
    let asked = 0;
    const counts: Interceptor = {
      name: "counts",
      preLlmRequest: () => {
        asked += 1;
        return { kind: "continue" };
      },
    };
    using bench = new TurnBench({ model, interceptors: [counts] });
    await bench.turn("go");
    expect(model.prompts).toHaveLength(2);
    expect(asked).toBe(1);
  });

  verifies(["S9"], "ends the turn as failed before a request", async () => {
    const model = new FakeModel(say("never"));
    const error = { code: "no_more", message: "enough" };
    const stops: Interceptor = { name: "stops", preLlmRequest: () => ({ kind: "cancel", error }) };
    using bench = new TurnBench({ model, interceptors: [stops] });
    expect(await bench.turn("go")).toEqual({ kind: "failed", error });
    expect(model.prompts).toEqual([]);
  });

  verifies(["S9"], "refuses a call, which then never starts", async () => {
    const model = new FakeModel(calls(["c1", "T", { x: "no" }], ["c2", "T", { x: "yes" }]), say("done"));
    const refuses: Interceptor = {
      name: "refuses",
      preToolCall: (call) => (call.callId === "c1" ? { kind: "refuse", reason: "not this one" } : { kind: "continue" }),
    };
    using bench = new TurnBench({ model, tools: [tool], interceptors: [refuses] });
    await bench.turn("go");
    expect(bench.shown(2).slice(-2)).toEqual(["c1=not this one", "c2=yes"]);
    expect(bench.entries().flatMap((entry) => (entry.type === "tool_started" ? [entry.call_id] : []))).toEqual(["c2"]);
  });

  verifies(["S9"], "changes a result before it is committed, one behind the other", async () => {
    const model = new FakeModel(calls(["c1", "T", { x: "r" }]), say("done"));
    const adds = (text: string): Interceptor => ({
      name: text,
      postToolCall: (_, result) => ({ ...result, summary: `${result.summary}${text}` }),
    });
    using bench = new TurnBench({ model, tools: [tool], interceptors: [adds("+1"), adds("+2")] });
    await bench.turn("go");
    expect(bench.shown(2).at(-1)).toBe("c1=r+1+2");
  });

  verifies(["S9"], "goes on when the model is done, with what the model has to see", async () => {
    const model = new FakeModel(say("first"), say("second"));
    let asked = 0;
    const more: Interceptor = {
      name: "more",
      onTurnEnd: () => (++asked === 1 ? { kind: "continue_with", items: [reminder("check it")] } : { kind: "finish" }),
    };
    using bench = new TurnBench({ model, interceptors: [more] });
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    expect(bench.shown(2)).toEqual(["go", "first", "!check it"]);
    expect(asked).toBe(2);
  });
});

describe("the limit on requests of a turn", () => {
  it("ends a model that never stops asking, and the next turn has its own (B21)", async () => {
    const model = new FakeModel(calls(["c", "T", {}]));
    using bench = new TurnBench({ model, tools: [tool], limits: { requests_per_turn: 3 }, interceptors: [requestBudget] });
    expect(await bench.turn("go")).toMatchObject({
      kind: "failed",
      error: { code: "request_limit", message: expect.stringContaining("limits.requests_per_turn") },
    });
    expect(model.prompts).toHaveLength(3);
    bench.commit({ type: "turn_ended", turn: 1, outcome: "failed" });
    model.plays = [say("now it stops")];
    expect(await bench.turn("again")).toEqual({ kind: "completed" });
  });
});
