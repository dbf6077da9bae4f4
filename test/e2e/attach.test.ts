import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Cursor } from "../../src/protocol/cursor.ts";
import { type CommittedEvent, cursorOf } from "../../src/protocol/event.ts";
import { emptyView, reduce, resumeView, type View } from "../../src/protocol/view.ts";
import { toEvents } from "../../src/session-log/to-events.ts";
import { startPod, type TestPod } from "../support/pod-harness.ts";
import type { TestClient } from "../support/pod-harness-client.ts";
import { ALWAYS, bash, bashUntil, type ScriptInput } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

/** What is drawn: everything of a view but what only holds now. */
function drawn(view: View) {
  const { blocks, pending, openCalls, cursor, turn, pod } = view;
  return { blocks: [...blocks], pending: [...pending], openCalls: [...openCalls], cursor, turn, pod };
}

function foldOfLog(pod: TestPod): View {
  return pod.log().flatMap(toEvents).reduce(reduce, emptyView);
}

const BUSY: ScriptInput = {
  pace: "1ms",
  chunk: 4,
  steps: [
    { think: "What shall I do? Let me see.", say: "I begin with two commands.", ...bash("seq 1 40", "seq 1 20; sleep 0.05") },
    { drop: { after: 10 }, say: "The second answer comes after a cut stream." },
    { think: "A notification.", say: "Noted, and on with it.", ...bash("for i in 1 2 3; do echo $i; sleep 0.02; done") },
    { fail: { status: 529 }, say: "That was the third." },
  ],
  otherwise: { say: "And another one, long enough for a few deltas." },
};

describe("a client that attaches", () => {
  verifies(
    ["I4", "S7", "M-attach-running", "M-attach-idle", "M-detach-running"],
    "at any moment, also again from where it was, sees the same as the log holds: nothing twice, nothing missing",
    async () => {
      await using pod = await startPod({ script: BUSY });
      const views: Promise<View>[] = [];
      const firsts: TestClient[] = [];
      /** Attaches after a while; leaves in the middle and comes back from its place if `returns`. */
      const watch = async (afterMs: number, returns: boolean): Promise<View> => {
        await sleep(afterMs);
        let client = await pod.client();
        firsts.push(client);
        if (returns) {
          await sleep(Math.random() * 60);
          const { view } = client;
          await client[Symbol.asyncDispose]();
          await sleep(Math.random() * 60);
          const { cursor } = view;
          client = await pod.client(cursor);
          firsts.push(client);
          client.view = resumeView(view, client.snapshot);
        }
        const isOver = () => client.view.turn?.number === 3 && client.view.turn.state === "ended";
        if (!isOver()) await client.waitFor(isOver, { what: "the end of turn 3" });
        return client.view;
      };
      for (let n = 0; n < 24; n++) views.push(watch(Math.random() * 900, n % 2 === 0));
      await pod.run("go");
      await pod.waitForEntries("llm_request");
      await pod.notify("while running");
      await pod.run("steer", { if_running: "steer" });
      await pod.run("queued", { if_running: "queue" });
      await pod.waitForEntries("turn_ended", 2);
      await pod.notify("while idle");
      await pod.waitForEntries("turn_ended", 3);
      const seen = await Promise.all(views);
      const expected = drawn(foldOfLog(pod));
      expect(expected.blocks.length).toBeGreaterThan(20);
      for (const view of seen) expect(drawn(view)).toEqual(expected);
      for (const client of firsts) await client[Symbol.asyncDispose]();
      await pod.verify();
    },
  );

  verifies(["I4"], "in the middle of an answer sees what was streamed of it so far, then the rest", async () => {
    await using pod = await startPod({
      script: {
        steps: [
          { think: "thinking aloud", say: "The answer is streamed slowly, so that one can come in between.", pace: "15ms" },
        ],
      },
    });
    await using early = await pod.client();
    await pod.run("go");
    await early.waitFor((event) => event.type === "text_delta", { from: 0 });
    await using late = await pod.client();
    const text = (client: TestClient) => client.view.live.parts.map((part) => ("text" in part ? part.text : ""));
    expect(text(late)[0]).toBe("thinking aloud");
    expect("The answer is streamed slowly".startsWith(text(late)[1]?.slice(0, 10) ?? "?")).toBe(true);
    await late.event("turn_ended");
    await early.event("turn_ended");
    expect(drawn(late.view)).toEqual(drawn(early.view));
    expect(late.view.live.parts).toEqual([]);
  });

  verifies(["M-detach-idle", "M-detach-running"], "and detaches gets answers and no events any more", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using client = await pod.client();
    await client.request("detach", {});
    await pod.run("go");
    await pod.waitForEntries("turn_ended");
    expect((await client.request("status", {})).turn).toBe(1);
    expect(client.events).toEqual([]);
  });

  it("from a place that the log does not have gets everything anew", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using client = await pod.client({ seq: 5000, index: 0 });
    expect(client.snapshot.events.map((event) => event.type)).toEqual(["session_started"]);
    expect(client.snapshot.cursor).toEqual({ seq: 1, index: 0 });
  });
});

describe("an old session", () => {
  verifies(
    ["M-history-idle", "M-attach-idle", "M-read_output-idle", "I4"],
    "costs a client at most 500 events and a megabyte; history pages back to the first, without gap or overlap",
    async () => {
      await using pod = await startPod({ script: { otherwise: { say: "x".repeat(6000) } } });
      await using watcher = await pod.client();
      for (let turn = 1; turn <= 130; turn++) {
        const from = watcher.events.length;
        await pod.run(`message ${turn}`);
        await watcher.event("turn_ended", (event) => event.turn === turn, { from });
      }
      const all = pod.log().flatMap(toEvents);
      await using client = await pod.client();
      const { events, more, cursor } = client.snapshot;
      expect(more).toBe(true);
      expect(events.length).toBeLessThanOrEqual(500);
      expect(JSON.stringify(events).length).toBeLessThan(1_100_000);
      expect(cursor).toEqual(cursorOf(all.at(-1) ?? { seq: 0, index: 0 }));
      let known: CommittedEvent[] = events;
      for (let pages = 0; pages < 100; pages++) {
        const before: Cursor = cursorOf(known[0] ?? { seq: 0, index: 0 });
        const page = await client.request("history", { before, limit: 97 });
        expect(page.events.length).toBeLessThanOrEqual(97);
        known = [...page.events, ...known];
        if (!page.more) break;
        expect(page.events.length).toBeGreaterThan(0);
      }
      expect(known).toEqual(all);

      const newest = await pod.request("read_output", { max_chars: 20_000 });
      expect(newest.text.length).toBeLessThan(20_200);
      expect(newest.text).toContain("[earlier output left out");
      // From the beginning on, page by page, every answer comes once.
      let from: Cursor = { seq: 0, index: 0 };
      let answers = 0;
      for (let pages = 0; pages < 100; pages++) {
        const page = await pod.request("read_output", { since: from, max_chars: 20_000 });
        if (page.text === "") break;
        answers += page.text.split("\n\n").length;
        from = page.cursor;
      }
      expect(answers).toBe(130);
    },
  );

  verifies(["S7"], "still shows what is pending, however far back it was sent", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("go")], otherwise: { say: "y".repeat(2000) } } });
    const old = await pod.notify("an old and quiet one", { wake: false });
    // It enters the first request, so hold a second one back by the size of the first take.
    await pod.run("go");
    await pod.file("go.started");
    const waiting = await pod.notify("waits while much happens");
    for (let n = 0; n < 250; n++) {
      await pod.request("set_config", { reasoning: n % 2 === 0 ? "low" : "high" });
      if (n % 10 === 0) await pod.notify(`filler ${"f".repeat(30_000)}`).catch(() => undefined);
    }
    for (let n = 250; n < 600; n++) await pod.request("set_config", { reasoning: n % 2 === 0 ? "low" : "high" });
    await using client = await pod.client();
    expect(client.snapshot.more).toBe(true);
    expect(client.view.pending.has(waiting.item)).toBe(true);
    expect(client.view.pending.has(old.item)).toBe(false);
    pod.touch("go");
    await client.waitFor(() => client.view.pending.size === 0, { what: "everything taken in" });
  });
});

describe("a client that never reads", () => {
  verifies(
    ["I6"],
    "slows neither the turn nor another client, is cut off, and is right again when it comes back (B106)",
    async () => {
      // 12 MB of deltas and results: far more than a socket and a backlog hold.
      await using pod = await startPod({
        script: { chunk: 30_000, pace: "5ms", otherwise: { say: "z".repeat(3_000_000), ...bash("true") } },
        config: { limits: { requests_per_turn: 4 } },
      });
      const slow = await Promise.all(Array.from({ length: 10 }, () => pod.raw()));
      for (const client of slow) {
        client.socket.pause();
        await client.send("attach", {}, 1);
      }
      await pod.request("status", {});
      const before = pod.residentBytes;
      await pod.run("go");
      // It ends although none of them has read a byte, and answers this other client all the time.
      await expect.poll(async () => (await pod.status()).last_outcome, { timeout: 60_000, interval: 100 }).toBe("failed");
      expect(pod.entries("turn_ended")).toMatchObject([{ error: { code: "request_limit" } }]);
      expect(pod.residentBytes - before).toBeLessThan(400 * 1024 * 1024);
      for (const client of slow) {
        client.socket.resume();
        const lagged = await client.line((line): line is { params: { type: string; cursor: Cursor } } => isEvent(line, "lagged"));
        await using back = await pod.client(lagged.params.cursor);
        expect(drawn(back.view).cursor).toEqual(drawn(foldOfLog(pod)).cursor);
        await client[Symbol.asyncDispose]();
      }
    },
    { timeoutMs: 120_000 },
  );
});

function isEvent(line: unknown, type: string): boolean {
  return (
    typeof line === "object" &&
    line !== null &&
    "params" in line &&
    typeof line.params === "object" &&
    line.params !== null &&
    "type" in line.params &&
    line.params.type === type
  );
}
