import { writeFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { startPod } from "../support/pod-harness.ts";
import { ALWAYS } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

describe("a notification to an idle Pod", () => {
  verifies(
    ["N2", "M-notify-idle", "I7"],
    "starts a turn by itself with nobody attached, and the model sees it (B03)",
    async () => {
      await using pod = await startPod({
        script: {
          steps: [{ expect: { last_contains: ["[Notification from ci]", "the build is red"] }, say: "I look at it." }],
        },
      });
      const answer = await pod.notify("the build is red");
      expect(answer).toEqual({ item: expect.stringMatching(/^item_/), seq: 2, state: "woke" });
      await pod.waitForEntries("turn_ended");
      expect(pod.log().map((entry) => entry.type)).toEqual([
        "session_started",
        "system_items",
        "turn_started",
        "llm_request",
        "assistant_items",
        "turn_ended",
      ]);
      expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
      expect(pod.entries("llm_request")[0]?.takes).toEqual([answer.item]);
      expect(pod.entries("turn_started")[0]?.trigger).toBe("notification");
      // Who comes later sees it.
      await using client = await pod.client();
      expect(client.snapshot.events.filter((event) => event.type === "system_item")).toHaveLength(1);
      expect(client.view.blocks.at(1)).toMatchObject({ kind: "system_item", pending: false });
      await pod.verify();
    },
  );

  verifies(["N2", "N8"], "from a program that writes one line and closes at once still wakes it (B03)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    for (const id of [undefined, 1]) {
      const before = pod.entries("turn_ended").length;
      await using raw = await pod.raw();
      await raw.send("notify", { source: "cron", message: `line ${id}` }, id);
      raw.socket.destroySoon();
      await pod.waitForEntries("turn_ended", before + 1);
    }
    const messages = pod.entries("system_items").flatMap((entry) => entry.items.map((item) => item.payload));
    expect(messages).toEqual([
      { source: "cron", message: "line undefined" },
      { source: "cron", message: "line 1" },
    ]);
    expect(pod.entries("turn_ended").map((entry) => entry.outcome)).toEqual(["completed", "completed"]);
  });

  verifies(["N5", "N4", "S2"], "with others in a burst is exactly one turn, one request, one block each", async () => {
    await using pod = await startPod({ script: ALWAYS });
    const messages = Array.from({ length: 20 }, (_, n) => `message ${n}`);
    // In one write, so that they arrive together however busy the machine is.
    await using raw = await pod.raw();
    const line = (message: string, id: number) =>
      `${JSON.stringify({ jsonrpc: "2.0", id, method: "notify", params: { source: "ci", message } })}\n`;
    await raw.write(messages.map(line).join(""));
    await raw.answer(messages.length - 1);
    const status = await pod.settled();
    expect(status.turn).toBe(1);
    const [request, ...more] = pod.entries("llm_request");
    expect(more).toEqual([]);
    const accepted = pod.entries("system_items").flatMap((entry) => entry.items);
    expect(request?.takes).toEqual(accepted.map((item) => item.id));
    // Over one connection, so they were accepted in the order they were sent.
    expect(accepted.map((item) => item.payload)).toEqual(messages.map((message) => ({ source: "ci", message })));
    await pod.verify();
  });

  verifies(["N6"], "that shall not wake lies there and enters the next request, whoever asks for it", async () => {
    await using pod = await startPod({
      script: { steps: [{ expect: { order: ["quiet news", "and you?"] }, say: "fine" }] },
    });
    expect((await pod.notify("quiet news", { wake: false })).state).toBe("pending");
    expect((await pod.status()).pending).toBe(1);
    // A method that is answered later proves that no turn was started meanwhile.
    await pod.request("set_config", { reasoning: "low" });
    expect(pod.entries("turn_started")).toEqual([]);
    await pod.run("and you?");
    await pod.waitForEntries("turn_ended");
    expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
    expect(pod.entries("turn_started")).toMatchObject([{ trigger: "user" }]);
  });

  verifies(["N11"], "beyond the hop limit wakes nobody, and people are told", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using client = await pod.client();
    const answer = await client.request("notify", { source: "a", message: "far", chain: { id: "loop", hops: 17 } });
    expect(answer.state).toBe("pending");
    expect((await client.event("alert")).alert).toMatchObject({ code: "hop_limit", active: true });
    expect((await pod.status()).state).toBe("idle");
    await pod.run("hello");
    await client.event("turn_ended");
    expect(pod.entries("llm_request")[0]?.takes).toContain(answer.item);
  });

  verifies(["N11"], "hands its chain on to the turn it starts and to what that turn runs", async () => {
    await using pod = await startPod({
      script: {
        steps: [{ call: [{ tool: "Bash", input: { command: 'echo "$WAKEFUL_POD $WAKEFUL_CHAIN" > chain' } }] }, { say: "ok" }],
      },
      name: "chained",
    });
    await pod.notify("go", { chain: { id: "story", hops: 3 } });
    await pod.waitForEntries("turn_ended");
    expect(pod.entries("turn_started")[0]?.chain).toEqual({ id: "story", hops: 3 });
    expect(await pod.file("chain")).toBe("chained story:3\n");
  });
});

describe("a storm of notifications", () => {
  verifies(
    ["N11"],
    "ends where the budget of automatic turns ends: what comes then is kept, and people are told (B21)",
    async () => {
      await using pod = await startPod({ script: ALWAYS });
      await using client = await pod.client();
      let seen = 0;
      // One turn each, so that the bucket of 50 runs dry.
      for (let n = 1; n <= 50; n++) {
        expect((await client.request("notify", { source: "loop", message: `${n}` })).state).toBe("woke");
        const ended = await client.event("turn_ended", (event) => event.turn === n, { from: seen });
        seen = client.events.indexOf(ended);
      }
      const last = await client.request("notify", { source: "loop", message: "one too many" });
      expect(last.state).toBe("pending");
      const { alert } = await client.event("alert", (event) => event.alert.code === "wake_held");
      expect(alert.message).toContain("resume");
      const status = await pod.status();
      expect(status).toMatchObject({ state: "idle", pending: 1, wake_held: { reason: "bucket_empty" } });
      // It survives a crash, is still held, and a human fills the bucket.
      await pod.kill();
      await pod.restore();
      expect(await pod.status()).toMatchObject({ state: "idle", pending: 1, wake_held: { reason: "bucket_empty" } });
      await pod.request("resume", {});
      await pod.waitForEntries("turn_ended", 51);
      expect(pod.entries("llm_request").at(-1)?.takes).toEqual([last.item]);
      expect((await pod.notify("awake again")).state).toMatch(/woke|next_request/);
      await pod.settled();
      await pod.verify();
    },
  );

  verifies(["N11", "M-cancel-running"], "that a Pod sends itself can be ended by a client at any moment (B21)", async () => {
    const notify = `printf '%s\\n' '{"jsonrpc":"2.0","method":"notify","params":{"source":"me","message":"again"}}'`;
    const send = `node -e 'require("net").connect(process.argv[1]).end(require("fs").readFileSync(0))'`;
    await using pod = await startPod({
      script: {
        otherwise: { say: "again", call: [{ tool: "Bash", input: { command: `${notify} | ${send} "$(cat socket)"` } }] },
      },
      config: { limits: { requests_per_turn: 3 } },
    });
    writeFileSync(`${pod.cwd}/socket`, pod.address.replace(/^unix:/, ""));
    await pod.run("begin");
    await pod.waitForEntries("tool_results", 2);
    const begin = performance.now();
    await pod.request("shutdown", {});
    expect(await pod.exited).toBe(0);
    expect(performance.now() - begin).toBeLessThan(5000);
    await pod.verify();
  });
});
