import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { answer, calls, FakeModel, fails, fakeTool, SlowDisk, say, signal, TurnBench } from "./test-support.ts";

describe("a turn", () => {
  it("is one request when the model asks for nothing", async () => {
    const model = new FakeModel(say("hello"));
    using bench = new TurnBench({ model });
    expect(await bench.turn("hi")).toEqual({ kind: "completed" });
    expect(bench.types()).toEqual(["user_input", "turn_started", "llm_request", "assistant_items"]);
    expect(bench.shown(1)).toEqual(["hi"]);
    expect(bench.live).toEqual([{ type: "text_delta", text: "hello" }]);
  });

  it("goes on as long as the model calls tools", async () => {
    const model = new FakeModel(calls(["c1", "T", { x: "1" }]), calls(["c2", "T", { x: "2" }]), say("done"));
    using bench = new TurnBench({ model, tools: [fakeTool("T", ({ x }) => ({ summary: `got ${x}`, isError: false }))] });
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    expect(bench.shown(3)).toEqual(["go", "T(c1)", "c1=got 1", "T(c2)", "c2=got 2"]);
  });
});

describe("commit before context", () => {
  verifies(["I1", "I2"], "the request's entry is written and synced before the request may leave", async () => {
    const disk = new SlowDisk();
    const model = new FakeModel(say("hello"));
    using bench = new TurnBench({ model, disk });
    await bench.log.sync();
    const passed = signal();
    const called = signal();
    let isPassed = false;
    model.beforeGate = async () => {
      disk.holdsSync = true;
      called.reached();
    };
    const running = bench.turn("hi").then((end) => {
      passed.reached();
      return end;
    });
    model.plays = [
      (_request, n) => {
        isPassed = true;
        return say("hello")(_request, n);
      },
    ];
    await called.promise;
    await expect.poll(() => disk.waiting).toBe(1);
    // On disk as far as the process is concerned, but not synced: the model may not be asked yet.
    expect(readFileSync(bench.log.file, "utf8").trimEnd().split("\n").at(-1)).toContain('"type":"llm_request"');
    expect(isPassed).toBe(false);
    disk.release();
    expect(await running).toEqual({ kind: "completed" });
    expect(isPassed).toBe(true);
  });

  verifies(["I1"], "nothing is in a request that the log does not hold before it", async () => {
    const model = new FakeModel((request) => {
      const inLog = readFileSync(bench.log.file, "utf8");
      for (const item of request.prompt.items) {
        if (item.kind === "system") expect(inLog).toContain(item.item.id);
        if (item.kind === "user") expect(inLog).toContain(item.id);
        if (item.kind === "tool_result") expect(inLog).toContain(`"call_id":"${item.callId}"`);
      }
      return request.position.answered === 0 ? calls(["c1", "T", {}])(request, 1) : say("done")(request, 2);
    });
    using bench: TurnBench = new TurnBench({
      model,
      tools: [
        fakeTool("T", () => {
          bench.notify("while the tool runs");
          return { summary: "ok", isError: false };
        }),
      ],
    });
    bench.notify("before");
    expect(await bench.turn("hi")).toEqual({ kind: "completed" });
    expect(model.prompts).toHaveLength(2);
  });

  it("a disk that takes no request entry means that nothing is sent", async () => {
    const disk = new SlowDisk();
    const model = new FakeModel(say("never"));
    using bench = new TurnBench({ model, disk });
    bench.input("hi");
    bench.commit({ type: "turn_started", turn: 1, trigger: "user", chain: { id: "c", hops: 0 } });
    disk.write = () => {
      throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    };
    await expect(bench.go()).rejects.toMatchObject({ code: "storage_failed" });
    expect(bench.types()).toEqual(["user_input", "turn_started"]);
    expect(bench.state.pending.size).toBe(1);
  });
});

describe("what arrives while a turn runs", () => {
  verifies(["N3", "N4"], "enters the next request behind the results, in order, each as an item of its own", async () => {
    const model = new FakeModel(calls(["c1", "T", { x: "1" }], ["c2", "T", { x: "2" }]), say("done"));
    using bench: TurnBench = new TurnBench({
      model,
      tools: [
        fakeTool("T", ({ x }) => {
          bench.notify(`during ${x}`);
          return { summary: `r${x}`, isError: false };
        }),
      ],
    });
    await bench.turn("go");
    expect(bench.shown(2)).toEqual(["go", "T(c1)", "T(c2)", "c1=r1", "c2=r2", "!during 1", "!during 2"]);
  });

  verifies(["I11"], "between building and recording a request waits for the next one and is not lost", async () => {
    const model = new FakeModel(calls(["c1", "T", {}]), say("done"));
    using bench = new TurnBench({ model, tools: [fakeTool("T", () => ({ summary: "r", isError: false }))] });
    let late = "";
    // The adapters await between being called and calling our gate: this is that very gap.
    model.beforeGate = async (n) => {
      await Promise.resolve();
      if (n === 1) late = bench.notify("in the gap");
    };
    expect(await bench.turn("go")).toEqual({ kind: "completed" });
    const requests = bench.entries().filter((entry) => entry.type === "llm_request");
    expect(requests.map((request) => request.takes)).toEqual([["input_2"], [late]]);
    expect(bench.shown(1)).toEqual(["go"]);
    expect(bench.shown(2)).toEqual(["go", "T(c1)", "c1=r", "!in the gap"]);
    expect(bench.state.owed.size).toBe(0);
  });

  verifies(["N10"], "as a steering input enters the next request, as a queued one the next turn", async () => {
    const model = new FakeModel(calls(["c1", "T", {}]), say("done"), say("second"));
    using bench: TurnBench = new TurnBench({
      model,
      tools: [
        fakeTool("T", () => {
          bench.input("queued", "turn");
          bench.input("steering", "request");
          return { summary: "r", isError: false };
        }),
      ],
    });
    await bench.turn("go");
    expect(bench.shown(2).at(-1)).toBe("steering");
    expect([...bench.state.pending.values()].map((pending) => pending.kind)).toEqual(["input"]);
    bench.commit({ type: "turn_ended", turn: 1, outcome: "completed" });
    await bench.turn("later");
    expect(bench.shown(3).slice(-2)).toEqual(["queued", "later"]);
  });

  it("is taken up to a quarter of the context window; the rest comes with the next requests, nothing twice", async () => {
    const model = new FakeModel(calls(["c1", "T", {}]), calls(["c2", "T", {}]), calls(["c3", "T", {}]), say("done"));
    using bench = new TurnBench({ model, tools: [fakeTool("T", () => ({ summary: "r", isError: false }))] });
    // The window is 4000 tokens: a quarter is 1000 tokens, about 4000 characters.
    const ids = Array.from({ length: 5 }, (_, n) => bench.notify(`${n}`.repeat(1500)));
    const huge = bench.notify("h".repeat(9000));
    await bench.turn("go");
    const requests = bench.entries().filter((entry) => entry.type === "llm_request");
    expect(requests[0]?.takes).toEqual(ids.slice(0, 2));
    expect(requests.flatMap((request) => request.takes)).toEqual([...ids, huge, expect.stringMatching(/^input_/)]);
    // One that is larger than the cap is taken alone. The turn's own input stood last: the turn is not over before it was seen.
    expect(requests.find((request) => request.takes.includes(huge))?.takes).toEqual([huge]);
  });
});

describe("the requests of a session", () => {
  verifies(["I11"], "each extend the one before, whatever happens between them", async () => {
    const scenario = fc.array(fc.constantFrom("say", "call", "fail", "notify", "gap", "steer", "queue", "new turn"), {
      minLength: 1,
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(scenario, async (steps) => {
        const plays = steps.filter((step) => step === "say" || step === "call" || step === "fail");
        const model = new FakeModel(
          ...plays.map((play, n) =>
            play === "say"
              ? say(`text ${n}`)
              : play === "call"
                ? calls([`c${n}`, "T", {}], [`d${n}`, "T", {}])
                : fails({ code: "overloaded", retryable: true }, "half"),
          ),
          say("end"),
        );
        using bench = new TurnBench({ model, tools: [fakeTool("T", () => ({ summary: "r", isError: false }))] });
        model.beforeGate = async (n) => {
          if (steps[n] === "gap") bench.notify(`gap ${n}`);
          if (steps[n] === "notify") bench.notify(`note ${n}`);
          if (steps[n] === "steer") bench.input(`steer ${n}`, "request");
          if (steps[n] === "queue") bench.input(`queue ${n}`, "turn");
        };
        const turns = 1 + steps.filter((step) => step === "new turn").length;
        for (let turn = 1; turn <= turns; turn++) {
          const end = await bench.turn(`turn ${turn}`);
          bench.commit({ type: "turn_ended", turn, outcome: end.kind === "completed" ? "completed" : "failed" });
        }
        for (let n = 1; n < model.prompts.length; n++) {
          const [before, after] = [model.prompts[n - 1]?.items ?? [], model.prompts[n]?.items ?? []];
          expect(after.slice(0, before.length)).toEqual(before);
        }
        const taken = bench.entries().flatMap((entry) => (entry.type === "llm_request" ? entry.takes : []));
        expect(new Set(taken).size).toBe(taken.length);
      }),
      { numRuns: 60 },
    );
  });
});

describe("an answer", () => {
  it("that holds a blank text leaves none in the history", async () => {
    const model = new FakeModel(
      () =>
        answer([
          { kind: "message", text: " \n" },
          { kind: "tool_call", callId: "c1", name: "T", arguments: "{}" },
        ]),
      say("end"),
    );
    using bench = new TurnBench({ model, tools: [fakeTool("T", () => ({ summary: "r", isError: false }))] });
    await bench.turn("go");
    expect(bench.shown(2)).toEqual(["go", "T(c1)", "c1=r"]);
  });

  it("with empty or repeated call ids gets fresh ones, so that each call has one result (B52)", async () => {
    const model = new FakeModel(
      calls(["", "T", { x: "1" }], ["a", "T", { x: "2" }], ["a", "T", { x: "3" }]),
      calls(["a", "T", { x: "4" }]),
      say("end"),
    );
    using bench = new TurnBench({ model, tools: [fakeTool("T", ({ x }) => ({ summary: x, isError: false }))] });
    await bench.turn("go");
    const results = bench.entries().flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
    expect(new Set(results.map((result) => result.call_id)).size).toBe(4);
    expect(results.every((result) => result.call_id !== "")).toBe(true);
    expect(results.map((result) => result.summary).sort()).toEqual(["1", "2", "3", "4"]);
  });

  it("that has lone surrogates or NUL is safe in the log and in the next request", async () => {
    const model = new FakeModel(
      () =>
        answer([
          { kind: "message", text: "a\ud800b\0c" },
          { kind: "tool_call", callId: "c\udfff", name: "T", arguments: '{"x":"\ud83d"}' },
        ]),
      say("end"),
    );
    using bench = new TurnBench({ model, tools: [fakeTool("T", ({ x }) => ({ summary: `${x}\0`, isError: false }))] });
    await bench.turn("go");
    const shown = JSON.stringify(model.prompts[1]);
    expect(shown.isWellFormed()).toBe(true);
    expect(shown).not.toContain("\\ud800");
    expect(shown).not.toContain("\\u0000");
  });
});
