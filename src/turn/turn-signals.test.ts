import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { closeTurnEntries } from "./close-turn.ts";
import { restoreEntries } from "./restore.ts";
import { answer, calls, FakeModel, fakeTool, say, signal, TurnBench } from "./test-support.ts";

const aborted = () => AbortSignal.abort();
const never = () => new AbortController().signal;

describe("a pause", () => {
  verifies(["M-pause-running"], "lets a streaming answer end and be committed, then stops", async () => {
    const model = new FakeModel(function* (_, n) {
      bench.pause.abort();
      yield* n === 1 ? answer([{ kind: "message", text: "the whole answer" }]) : answer([]);
    });
    using bench: TurnBench = new TurnBench({ model });
    expect(await bench.turn("go")).toEqual({ kind: "paused" });
    expect(bench.types()).toEqual(["user_input", "turn_started", "llm_request", "assistant_items"]);
  });

  verifies(
    ["M-pause-running", "M-resume-paused"],
    "lets running calls end, starts no further one, and they run at resume",
    async () => {
      const ran: string[] = [];
      const model = new FakeModel(calls(["c1", "T", { x: "1" }], ["c2", "T", { x: "2" }], ["c3", "T", { x: "3" }]), say("done"));
      using bench: TurnBench = new TurnBench({
        model,
        limits: { parallel_tool_calls: 1 },
        tools: [
          fakeTool("T", ({ x }) => {
            ran.push(x);
            if (x === "1") bench.pause.abort();
            return { summary: x, isError: false };
          }),
        ],
      });
      expect(await bench.turn("go")).toEqual({ kind: "paused" });
      expect(ran).toEqual(["1"]);
      expect(bench.state.batch?.calls.get("c2")).toMatchObject({ started: false, result: undefined });
      bench.commit({ type: "turn_paused", turn: 1 });
      // A restore of a paused turn writes nothing for calls that never started.
      expect(restoreEntries(bench.state)).toEqual([]);
      bench.commit({ type: "turn_resumed", turn: 1 });
      expect(await bench.go({ cancel: never(), pause: never() })).toEqual({ kind: "completed" });
      expect(ran).toEqual(["1", "2", "3"]);
      expect(bench.shown(2).slice(-3)).toEqual(["c1=1", "c2=2", "c3=3"]);
    },
  );

  it("before the first request stops there; nothing is sent", async () => {
    const model = new FakeModel(say("never"));
    using bench = new TurnBench({ model });
    bench.pause.abort();
    expect(await bench.turn("go")).toEqual({ kind: "paused" });
    expect(model.prompts).toEqual([]);
  });

  it("of a turn that had just finished is completed by resume without another request", async () => {
    const model = new FakeModel(function* () {
      bench.pause.abort();
      yield* answer([{ kind: "message", text: "the end" }]);
    });
    using bench: TurnBench = new TurnBench({ model });
    expect(await bench.turn("go")).toEqual({ kind: "paused" });
    bench.commit({ type: "turn_paused", turn: 1 }, { type: "turn_resumed", turn: 1 });
    expect(await bench.go({ cancel: never(), pause: never() })).toEqual({ kind: "completed" });
    expect(model.prompts).toHaveLength(1);
  });
});

describe("a cancel", () => {
  verifies(
    ["I5", "M-cancel-running"],
    "during calls gives each call a result: the running, the waiting and the ended",
    async () => {
      const running = signal();
      const model = new FakeModel(calls(["c1", "Quick", {}], ["c2", "Waits", {}], ["c3", "Quick", {}]), say("never"));
      using bench: TurnBench = new TurnBench({
        model,
        limits: { parallel_tool_calls: 1 },
        tools: [
          fakeTool("Quick", () => ({ summary: "quick", isError: false })),
          fakeTool("Waits", (_, context) => {
            running.reached();
            return new Promise((resolve) => {
              context.signal.addEventListener("abort", () => resolve({ summary: "stopped", isError: true }), { once: true });
            });
          }),
        ],
      });
      const turn = bench.turn("go");
      await running.promise;
      bench.cancel.abort();
      expect(await turn).toEqual({ kind: "cancelled" });
      const results = bench.entries().flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
      expect(results.map(({ call_id, summary, is_error }) => [call_id, summary, is_error])).toEqual([
        ["c1", "quick", false],
        ["c2", "stopped", true],
        ["c3", "cancelled", true],
      ]);
      expect(bench.state.batch).toBeUndefined();
      expect(model.prompts).toHaveLength(1);
    },
  );

  it("does not wait for a tool that ignores it: its call gets a result after a grace (B110)", async () => {
    const running = signal();
    const model = new FakeModel(calls(["c1", "Deaf", {}]), say("never"));
    using bench = new TurnBench({
      model,
      tools: [
        fakeTool("Deaf", () => {
          running.reached();
          return new Promise(() => {});
        }),
      ],
    });
    const turn = bench.turn("go");
    await running.promise;
    bench.cancel.abort();
    expect(await turn).toEqual({ kind: "cancelled" });
    expect(bench.clock.sleeps).toEqual([5000]);
    const [result] = bench.entries().flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
    expect(result).toMatchObject({
      call_id: "c1",
      is_error: true,
      content: expect.stringContaining("may still have taken effect"),
    });
  });

  it("before the first request sends nothing", async () => {
    const model = new FakeModel(say("never"));
    using bench = new TurnBench({ model });
    bench.input("go");
    bench.commit({ type: "turn_started", turn: 1, trigger: "user", chain: { id: "c", hops: 0 } });
    expect(await bench.go({ cancel: aborted(), pause: never() })).toEqual({ kind: "cancelled" });
    expect(model.prompts).toEqual([]);
  });

  verifies(["N6"], "settles what its turn took; what it did not take is still owed", async () => {
    const streaming = signal();
    const model = new FakeModel(async function* (request) {
      streaming.reached();
      await new Promise((resolve) => request.signal.addEventListener("abort", resolve, { once: true }));
      yield { type: "failure", failure: { code: "cancelled", message: "cancelled", retryable: false } };
    });
    using bench = new TurnBench({ model });
    const taken = bench.notify("taken");
    const turn = bench.turn("go");
    await streaming.promise;
    const late = bench.notify("late");
    expect([...bench.state.owed]).toEqual([
      [taken, "taken"],
      [late, "pending"],
    ]);
    bench.cancel.abort();
    await turn;
    bench.commit(...closeTurnEntries(bench.state, "cancelled"));
    expect([...bench.state.owed]).toEqual([[late, "pending"]]);
  });

  it("tells the interceptors, and nothing else does", async () => {
    let aborts = 0;
    const onAbort = () => {
      aborts += 1;
    };
    const interceptors = [{ name: "watch", onAbort }];
    using bench = new TurnBench({ model: new FakeModel(say("hi")), interceptors });
    await bench.turn("go");
    expect(aborts).toBe(0);
    bench.commit({ type: "turn_ended", turn: 1, outcome: "completed" });
    bench.cancel.abort();
    await bench.turn("again");
    expect(aborts).toBe(1);
  });
});

describe("the end of a turn", () => {
  verifies(["I5", "S6"], "closes every open call and tells the model what it should know", async () => {
    for (const outcome of ["failed", "interrupted", "abandoned", "cancelled"] as const) {
      const model = new FakeModel(calls(["c1", "T", {}], ["c2", "T", {}]));
      using bench: TurnBench = new TurnBench({
        model,
        limits: { parallel_tool_calls: 1 },
        tools: [
          fakeTool("T", () => {
            bench.pause.abort();
            return { summary: "r", isError: false };
          }),
        ],
      });
      await bench.turn("go");
      bench.commit(...closeTurnEntries(bench.state, outcome, outcome === "failed" ? { code: "x", message: "why" } : undefined));
      expect(bench.state.batch).toBeUndefined();
      expect(bench.state.history.at(-1)).toMatchObject({ kind: "tool_result", call_id: "c2", is_error: true, summary: outcome });
      const reminders = [...bench.state.pending.values()].flatMap((pending) => (pending.kind === "item" ? [pending.item] : []));
      const isTold = outcome === "failed" || outcome === "interrupted";
      expect(reminders.map(({ kind, trust, wake }) => ({ kind, trust, wake }))).toEqual(
        isTold ? [{ kind: "reminder", trust: "operator", wake: false }] : [],
      );
      // The reminder is the operator's word: a provider's own text has no place in it (N14).
      if (outcome === "failed") expect(reminders[0]?.body).toMatch(/\(x\)/);
      if (outcome === "failed") expect(reminders[0]?.body).not.toContain("why");
    }
  });
});

describe("a restore", () => {
  verifies(
    ["I5"],
    "of a turn in the middle of its calls gives each a result that says whether it may have run (B40)",
    async () => {
      const started = signal();
      const model = new FakeModel(calls(["c1", "T", {}], ["c2", "Waits", {}], ["c3", "T", {}]));
      using bench: TurnBench = new TurnBench({
        model,
        limits: { parallel_tool_calls: 2 },
        tools: [
          fakeTool("T", () => ({ summary: "r", isError: false })),
          fakeTool("Waits", () => {
            started.reached();
            return new Promise(() => {});
          }),
        ],
      });
      void bench.turn("go");
      await started.promise;
      await expect.poll(() => bench.state.batch?.calls.get("c3")?.result).toBeDefined();
      const entries = restoreEntries(bench.state);
      expect(entries.map((entry) => entry.type)).toEqual(["tool_results", "turn_ended", "system_items"]);
      expect(entries[0]).toMatchObject({
        items: [{ call_id: "c2", is_error: true, content: expect.stringContaining("may or may not") }],
      });
      expect(entries[1]).toMatchObject({ outcome: "interrupted" });
      bench.commit(...entries);
      expect(restoreEntries(bench.state)).toEqual([]);
    },
  );
});
