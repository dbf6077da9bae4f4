import { describe, expect, it } from "vitest";
import { startPod } from "../support/pod-harness.ts";
import { ALWAYS, bashUntil, sayWhen } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

const input = (text: string) => [{ kind: "text" as const, text }];

describe("run", () => {
  verifies(["M-run-idle", "L6"], "starts a turn, and its answer means that the input is on disk", async () => {
    await using pod = await startPod({ script: ALWAYS });
    const answer = await pod.request("run", {
      input: [
        { kind: "text", text: "look at this:" },
        { kind: "paste", text: "a pasted\ntext" },
      ],
    });
    expect(answer).toEqual({ turn: 1, seq: 2 });
    expect(pod.log()[1]).toMatchObject({
      seq: 2,
      type: "user_input",
      segments: [
        { kind: "text", text: "look at this:" },
        { kind: "paste", text: "a pasted\ntext" },
      ],
      origin: { by: "client" },
    });
    await pod.settled();
    expect(pod.entries("turn_started")).toMatchObject([{ turn: 1, trigger: "user" }]);
  });

  verifies(
    ["N10", "M-run-running"],
    "while a turn runs is refused to its sender alone, and nothing is kept of it (B30)",
    async () => {
      await using pod = await startPod({ script: { steps: [bashUntil("go"), { say: "ok" }] } });
      await using client = await pod.client();
      await pod.run("first");
      await pod.file("go.started");
      expect(await pod.refusal("run", { input: input("second") })).toBe("already_running");
      pod.touch("go");
      await client.event("turn_ended");
      expect(client.events.filter((event) => event.type === "user_message")).toHaveLength(1);
      expect(pod.entries("user_input")).toHaveLength(1);
    },
  );

  verifies(["N10"], "is refused with already_running during an automatic turn as well", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("go"), { say: "ok" }] } });
    await pod.notify("news");
    await pod.file("go.started");
    expect(await pod.refusal("run", { input: input("mine") })).toBe("already_running");
    pod.touch("go");
    await pod.settled();
  });

  verifies(["N10", "M-run-running"], "queued starts right behind the turn: all of them together, in order (B31)", async () => {
    await using pod = await startPod({
      script: {
        steps: [bashUntil("go"), { say: "first done" }, { expect: { order: ["one", "two"] }, say: "both" }],
      },
    });
    await using client = await pod.client();
    await pod.run("first");
    await pod.file("go.started");
    expect(await pod.run("one", { if_running: "queue" })).toEqual({ queued: true, seq: expect.any(Number) });
    await pod.run("two", { if_running: "queue" });
    pod.touch("go");
    await client.event("turn_started", (event) => event.turn === 2);
    await client.event("turn_ended", (event) => event.turn === 2);
    expect(pod.entries("turn_started").map((entry) => entry.trigger)).toEqual(["user", "user"]);
    const inputs = pod.entries("user_input").map((entry) => entry.id);
    expect(pod.entries("llm_request").map((entry) => entry.takes)).toEqual([[inputs[0]], [], inputs.slice(1)]);
    expect(pod.entries("turn_ended").map((entry) => entry.outcome)).toEqual(["completed", "completed"]);
  });

  verifies(["N10"], "queued goes ahead of notifications that arrive later", async () => {
    await using pod = await startPod({
      script: { steps: [sayWhen("go", "first done"), { expect: { order: ["queued words", "later news"] }, say: "both" }] },
    });
    await pod.run("first");
    await pod.waitForEntries("llm_request");
    const queued = await pod.run("queued words", { if_running: "queue" });
    const later = await pod.notify("later news");
    pod.touch("go");
    await pod.waitForEntries("turn_ended", 2);
    expect(pod.entries("turn_ended").at(-1)?.outcome).toBe("completed");
    expect(pod.entries("turn_started").at(-1)?.trigger).toBe("user");
    expect(pod.entries("llm_request")).toHaveLength(2);
    expect(pod.entries("llm_request")[1]?.takes.at(-1)).toBe(later.item);
    expect(queued.seq).toBeLessThan(later.seq);
  });

  verifies(["N10"], "steering enters the next request of the running turn, as the human's words", async () => {
    await using pod = await startPod({
      script: { steps: [bashUntil("go"), { expect: { results_before: "use the other file" }, say: "as you wish" }] },
    });
    await pod.run("first");
    await pod.file("go.started");
    await pod.run("use the other file", { if_running: "steer" });
    pod.touch("go");
    await pod.settled();
    expect(pod.entries("turn_ended")).toMatchObject([{ turn: 1, outcome: "completed" }]);
    await using client = await pod.client();
    expect([...client.view.blocks].filter((block) => block.kind === "user_message")).toHaveLength(2);
  });

  verifies(["N10"], "steering too late for the turn starts the next one: it does not lie there", async () => {
    await using pod = await startPod({ script: { steps: [sayWhen("go", "first"), { say: "second" }] } });
    await pod.run("first");
    await pod.waitForEntries("llm_request");
    await pod.run("too late", { if_running: "steer" });
    pod.touch("go");
    await pod.waitForEntries("turn_ended", 2);
    expect(pod.entries("turn_started").map((entry) => entry.trigger)).toEqual(["user", "user"]);
  });

  verifies(
    ["M-run-paused", "I5"],
    "while paused abandons the paused turn, whose open calls get results, and starts one (B57)",
    async () => {
      await using pod = await startPod({
        script: {
          steps: [
            {
              call: [
                { tool: "Bash", input: { command: "touch a.started; until [ -e a ]; do sleep 0.02; done" } },
                { tool: "Bash", input: { command: "touch b" } },
              ],
            },
            { expect: { last_contains: ["It has not run", "something else"] }, say: "ok" },
          ],
        },
        config: { limits: { parallel_tool_calls: 1 } },
      });
      await pod.run("first");
      await pod.file("a.started");
      const pausing = pod.request("pause", {});
      pod.touch("a");
      await pausing;
      expect(await pod.run("something else")).toMatchObject({ turn: 2 });
      await pod.waitForEntries("turn_ended", 2);
      expect(pod.entries("turn_ended").map((entry) => entry.outcome)).toEqual(["abandoned", "completed"]);
      await pod.verify();
    },
  );

  it("with the same submission again gets the first answer, also after the connection was lost and after a crash (B35)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    const params = { input: input("once"), if_running: "queue", submission: "sub_1" } as const;
    await using raw = await pod.raw();
    await raw.send("run", params, 1);
    raw.socket.destroy();
    await pod.waitForEntries("turn_ended");
    const again = await pod.request("run", params);
    expect(again).toEqual({ turn: 1, seq: 2 });
    await pod.kill();
    await pod.restore();
    expect(await pod.request("run", params)).toEqual(again);
    expect(pod.entries("user_input")).toHaveLength(1);
    expect(pod.entries("turn_started")).toHaveLength(1);
  });

  it("32 queued inputs fit, the next is refused (N9)", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("go")], otherwise: { say: "ok" } } });
    await pod.run("first");
    await pod.file("go.started");
    for (let n = 0; n < 32; n++) await pod.run(`queued ${n}`, { if_running: "queue" });
    expect(await pod.refusal("run", { input: input("one more"), if_running: "queue" })).toBe("queue_full");
    pod.touch("go");
    await pod.waitForEntries("turn_ended", 2);
    expect(pod.entries("llm_request").at(-1)?.takes).toHaveLength(32);
  });

  it("answers each message with a turn of its own in order of arrival, also where a client sends times and ids of its own (B32)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using raw = await pod.raw();
    for (let n = 1; n <= 4; n++) {
      const ts = Date.now() + (n % 2 === 0 ? 3_600_000 : -3_600_000);
      await raw.send("run", { input: input(`message ${n}`), id: `zzz${9 - n}`, ts, seq: 1 }, n);
      expect((await raw.answer(n)).result).toMatchObject({ turn: n });
      await pod.waitForEntries("turn_ended", n);
    }
    const seqs = pod.log().map((entry) => entry.seq);
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    expect(pod.entries("llm_request")).toHaveLength(4);
  });
});
