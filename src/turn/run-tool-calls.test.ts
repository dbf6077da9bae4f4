import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import type { ToolOutput } from "../tools/tool.ts";
import { answer, calls, FakeModel, fakeTool, SlowDisk, say, signal, TurnBench } from "./test-support.ts";

const ok = (text: string): ToolOutput => ({ summary: text, isError: false });

describe("calls of one answer", () => {
  it("run at the same time, are committed as they end, and stand in the history in the order asked (B39)", async () => {
    const slow = signal();
    const model = new FakeModel(calls(["c1", "Slow", {}], ["c2", "Quick", {}], ["c3", "Quick", {}]), say("done"));
    using bench: TurnBench = new TurnBench({
      model,
      tools: [
        fakeTool("Slow", async () => {
          await slow.promise;
          return ok("slow");
        }),
        fakeTool("Quick", () => ok("quick")),
      ],
    });
    bench.onCommit = (entry) => {
      if (entry.type !== "tool_results" || entry.items[0]?.call_id !== "c3") return;
      bench.notify("while the slow one runs");
      slow.reached();
    };
    await bench.turn("go");
    const results = bench.entries().flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
    expect(results.map((result) => result.call_id)).toEqual(["c2", "c3", "c1"]);
    expect(bench.shown(2).slice(-4)).toEqual(["c1=slow", "c2=quick", "c3=quick", "!while the slow one runs"]);
  });

  it("run at most as many at a time as the limit says", async () => {
    let running = 0;
    let most = 0;
    const tool = fakeTool("T", async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return ok("r");
    });
    const wanted = Array.from({ length: 10 }, (_, n) => [`c${n}`, "T", {}] as const);
    const model = new FakeModel(calls(...wanted), say("done"));
    using bench = new TurnBench({ model, tools: [tool], limits: { parallel_tool_calls: 3 } });
    await bench.turn("go");
    expect(most).toBe(3);
    expect(bench.entries().filter((entry) => entry.type === "tool_results")).toHaveLength(10);
  });

  it("do not touch each other: one throws, one is unknown, one has bad arguments, one works", async () => {
    const model = new FakeModel(
      calls(["c1", "Throws", {}], ["c2", "nope", {}], ["c3", "T", { y: 1 }], ["c4", "T", { x: "fine" }]),
      say("done"),
    );
    const tools = [
      fakeTool("Throws", () => {
        throw new Error("a bug");
      }),
      fakeTool("T", ({ x }) => ok(x)),
    ];
    using bench = new TurnBench({ model, tools });
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    const shown = bench.shown(2).slice(-4);
    expect(shown[0]).toBe("c1=The tool Throws failed: a bug");
    expect(shown[1]).toContain("There is no tool");
    expect(shown[1]).toContain("Throws, T");
    expect(shown[2]).toContain("nothing was run");
    expect(shown[3]).toBe("c4=fine");
  });

  it("run even if the answer's stop reason says end (B73)", async () => {
    let ran = false;
    const tool = fakeTool("T", () => {
      ran = true;
      return ok("r");
    });
    const model = new FakeModel(
      () => answer([{ kind: "tool_call", callId: "c1", name: "T", arguments: "{}" }], "end"),
      say("done"),
    );
    using bench = new TurnBench({ model, tools: [tool] });
    await bench.turn("go");
    expect(ran).toBe(true);
  });
});

describe("a tool that does not exist (B76)", () => {
  it.each(["read_file", "T ", "t", "__proto__", "constructor", "toString", ""])(
    "is answered with those there are: %j",
    async (name) => {
      const model = new FakeModel(calls(["c1", name, {}], ["c2", "T", { x: "fine" }]), say("done"));
      using bench = new TurnBench({ model, tools: [fakeTool("T", ({ x }) => ok(x))] });
      expect(await bench.turn("go")).toEqual({ kind: "completed" });
      const results = bench.entries().flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
      const wrong = results.find((result) => result.call_id === "c1");
      expect(wrong).toMatchObject({ is_error: true, content: expect.stringContaining("The tools are: T.") });
      expect(results.find((result) => result.call_id === "c2")).toMatchObject({ is_error: false, summary: "fine" });
      // It never started: nothing says that it could have had an effect.
      expect(
        bench
          .entries()
          .filter((entry) => entry.type === "tool_started")
          .map((entry) => entry.call_id),
      ).toEqual(["c2"]);
    },
  );

  it("for ever ends at the turn's limit of requests", async () => {
    const model = new FakeModel(calls(["c", "nope", {}]));
    const { requestBudget } = await import("./interceptor.ts");
    using bench = new TurnBench({ model, limits: { requests_per_turn: 7 }, interceptors: [requestBudget] });
    expect(await bench.turn("go")).toMatchObject({ kind: "failed", error: { code: "request_limit" } });
    expect(model.prompts).toHaveLength(7);
    expect(bench.state.batch).toBeUndefined();
  });
});

describe("arguments that are cut off or malformed (B55, B74)", () => {
  it.each(['{"x":"abc', '{"x":', "[1]", "null", '"x"', '{"x":"a"}}', '{"x":1}', '{"x":"a","z":2}'])(
    "are never carried out: %s",
    async (text) => {
      let runs = 0;
      const tool = fakeTool("T", () => {
        runs += 1;
        return ok("r");
      });
      const model = new FakeModel(calls(["c1", "T", text]), say("done"));
      using bench = new TurnBench({ model, tools: [tool] });
      await bench.turn("go");
      expect(runs).toBe(0);
      const [result] = bench.entries().flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
      expect(result).toMatchObject({ call_id: "c1", is_error: true });
    },
  );
});

describe("a call that may change something", () => {
  verifies(["I2"], "has its start on disk before it runs", async () => {
    const disk = new SlowDisk();
    let started = false;
    const tool = fakeTool(
      "T",
      () => {
        started = true;
        return ok("r");
      },
      "write",
    );
    const model = new FakeModel(calls(["c1", "T", {}]), say("done"));
    using bench: TurnBench = new TurnBench({ model, tools: [tool], disk });
    bench.onCommit = (entry) => {
      if (entry.type === "tool_started") disk.holdsSync = true;
    };
    const running = bench.turn("go");
    await expect.poll(() => disk.waiting).toBe(1);
    expect(bench.entries().at(-1)).toMatchObject({ type: "tool_started", call_id: "c1" });
    expect(started).toBe(false);
    disk.release();
    expect(await running).toEqual({ kind: "completed" });
    expect(started).toBe(true);
  });
});

describe("what a tool tells", () => {
  it("is shown to people as it comes, and only its end is kept", async () => {
    const tool = fakeTool("T", (_, context) => {
      context.onProgress("one\0");
      context.onProgress("two");
      return { summary: "a\nvery".padEnd(400, "y"), content: "all of it", isError: false };
    });
    const model = new FakeModel(calls(["c1", "T", {}]), say("done"));
    using bench = new TurnBench({ model, tools: [tool] });
    await bench.turn("go");
    expect(bench.live.filter((event) => event.type === "tool_progress")).toEqual([
      { type: "tool_progress", call_id: "c1", text: "one␀" },
      { type: "tool_progress", call_id: "c1", text: "two" },
    ]);
    const [result] = bench.entries().flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
    expect(result?.summary).toHaveLength(200);
    expect(result?.summary).not.toContain("\n");
    expect(bench.shown(2).at(-1)).toBe("c1=all of it");
  });
});
