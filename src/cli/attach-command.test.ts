import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type FakeIo, fakeIo } from "../../test/support/fake-io.ts";
import { FakePod, IDLE } from "../../test/support/fake-pod.ts";
import type { Event } from "../protocol/event.ts";
import { resolvePlaces } from "../registry/places.ts";
import { openRegistry } from "../registry/registry.ts";
import { runCli } from "./dispatch.ts";

let home = "";
beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "wk-")));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const env = () => ({ WAKEFUL_HOME: home, HOME: home });

/** Registers this process as the Pod `fake`, so that commands find the fake by name. */
async function register(pod: FakePod): Promise<void> {
  await using registry = openRegistry(resolvePlaces(env()));
  const claim = await registry.claim({
    name: "fake",
    session: "s_fake",
    cwd: home,
    address: pod.address,
    scope: { allow: [], deny: [] },
    scopeEnforcement: "tools_only",
    model: "script:fake",
    isRestore: false,
  });
  expect(claim.kind).toBe("claimed");
}

async function withFake(
  handlers: Parameters<typeof FakePod.start>[1],
  test: (pod: FakePod, io: FakeIo) => Promise<void>,
  options: { isTTY?: boolean } = {},
): Promise<void> {
  await using pod = await FakePod.start(join(home, "p.sock"), handlers);
  await register(pod);
  await test(pod, fakeIo({ env: env(), cwd: home, ...options }));
}

const runs = (pod: FakePod) => pod.received.flatMap((call) => (call.name === "run" ? [call.params] : []));

describe("attach", () => {
  test("lines are sent as tasks in order, queued if a turn runs, and the answers come before it leaves", async () => {
    let seq = 10;
    await withFake(
      {
        run: (call, pod) => {
          const place = seq++;
          const input: Event = {
            type: "user_message",
            seq: place,
            index: 0,
            ts: 0,
            id: `in_${place}`,
            segments: call.params.input,
            waits_for: "turn",
            origin: { by: "client" },
            ...(call.params.submission === undefined ? {} : { submission: call.params.submission }),
          };
          pod.send(input);
          setImmediate(() => {
            const turn = place;
            pod.send(
              { type: "turn_started", seq: seq++, index: 0, ts: 0, turn, trigger: "user", chain: { id: "c", hops: 0 } },
              { type: "request_started", seq: seq++, index: 0, ts: 0, n: 1, model: "m", takes: [`in_${place}`] },
              { type: "assistant_item", seq: seq++, index: 0, ts: 0, item: { kind: "text", text: `answer ${place}` } },
              { type: "turn_ended", seq: seq++, index: 0, ts: 0, turn, outcome: "completed" },
              { type: "status", status: IDLE },
            );
          });
          return { result: { queued: true, seq: place } };
        },
      },
      async (pod, io) => {
        io.type("first\n");
        io.type("second");
        io.type(null);
        expect(await runCli(["attach", "fake"], io)).toBe(0);
        expect(runs(pod).map(({ input, if_running }) => [input, if_running])).toEqual([
          [[{ kind: "text", text: "first" }], "queue"],
          [[{ kind: "text", text: "second" }], "queue"],
        ]);
        expect(io.out().match(/answer/g)).toHaveLength(2);
        expect(io.err()).toContain("queued");
        expect(io.err()).not.toContain("you: first");
      },
    );
  });

  test("a text the Pod refuses is given back, never lost (B30)", async () => {
    await withFake({ run: () => ({ refuse: "queue_full", message: "too much waits" }) }, async (_pod, io) => {
      io.type("my precious text\n");
      io.type(null);
      expect(await runCli(["attach", "fake"], io)).toBe(0);
      expect(io.err()).toContain("not sent (too much waits); your text was:\nmy precious text\n");
    });
  });

  test("commands are not sent as text; an unknown one is, and so is a path", async () => {
    await withFake({}, async (pod, io) => {
      io.type("/help\n/status\n/cancel\n/home/u/a.log shows an error\n//quit\n/quit\nnever\n");
      expect(await runCli(["attach", "fake"], io)).toBe(0);
      expect(runs(pod).map(({ input }) => input[0]?.text)).toEqual(["/home/u/a.log shows an error", "/quit"]);
      expect(pod.received.map((call) => call.name)).toContain("cancel");
      expect(io.err()).toContain("idle, turn 0");
    });
  });

  test("recent history is shown once, with control characters made inert and kinds told apart", async () => {
    await withFake({}, async (pod, io) => {
      pod.snapshot = {
        ...pod.snapshot,
        cursor: { seq: 4, index: 0 },
        events: [
          {
            type: "user_message",
            seq: 2,
            index: 0,
            ts: 0,
            id: "u",
            segments: [{ kind: "text", text: "[Notification from x] hi" }],
            waits_for: "turn",
            origin: { by: "client" },
          },
          { type: "system_item", seq: 3, index: 0, ts: 0, item: { id: "n", kind: "weather", body: "rain\u001b[2J" } },
          { type: "assistant_item", seq: 4, index: 0, ts: 0, item: { kind: "text", text: "\u001b]0;title\u0007done" } },
        ],
      };
      io.type(null);
      expect(await runCli(["attach", "fake"], io)).toBe(0);
      expect(io.err()).toContain("you: [Notification from x] hi\n");
      expect(io.err()).toContain("[weather] rain\u241b[2J\n");
      expect(io.out()).toBe("\u241b]0;title\u2407done\n");
    });
  });

  test("Ctrl-C cancels a running turn, and leaves when nothing runs", async () => {
    await withFake(
      {
        attach: (_call, pod) => {
          const { snapshot, status } = pod;
          return {
            result: {
              ...snapshot,
              status: { ...status, state: "running" },
              cursor: { seq: 5, index: 0 },
              events: [{ type: "turn_started", seq: 5, index: 0, ts: 0, turn: 1, trigger: "user", chain: { id: "c", hops: 0 } }],
              live: [{ type: "text_delta", text: "working" }],
            },
          };
        },
        cancel: (_call, pod) => {
          pod.send(
            { type: "turn_ended", seq: 6, index: 0, ts: 0, turn: 1, outcome: "cancelled" },
            { type: "alert", alert: { id: "a", level: "info", code: "x", message: "now", ts: 0, active: true } },
          );
          return { result: {} };
        },
      },
      async (pod, io) => {
        const seen = waitFor(io, "working");
        const running = runCli(["attach", "fake"], io);
        await seen;
        io.interrupt();
        await waitFor(io, "info: now");
        io.interrupt();
        expect(await running).toBe(0);
        expect(pod.received.filter((call) => call.name === "cancel")).toHaveLength(1);
        expect(pod.received.map((call) => call.name)).not.toContain("shutdown");
      },
      { isTTY: true },
    );
  });
});

describe("commands on a living Pod", () => {
  test("notify passes the causal chain one hop further and prints what happened (N11)", async () => {
    await withFake({}, async (pod, io) => {
      const chained = { ...io, env: { ...io.env, WAKEFUL_CHAIN: "chain_1:3", WAKEFUL_POD: "other" } };
      expect(await runCli(["notify", "fake", "hello", "--passive", "--id", "i1"], chained)).toBe(0);
      expect(pod.received).toEqual([
        {
          name: "notify",
          params: { source: "pod:other", message: "hello", wake: false, id: "i1", chain: { id: "chain_1", hops: 4 } },
        },
      ]);
      expect(io.out()).toBe("item_1 woke\n");
    });
  });

  test("a notification whose answer is lost goes again under the same id", async () => {
    let attempts = 0;
    const result = { item: "item_9", seq: 3, state: "next_request" as const };
    await withFake({ notify: () => (++attempts === 1 ? "drop" : { result }) }, async (pod, io) => {
      expect(
        await runCli(["notify", "fake", "-", "--source", "ci", "--json"], {
          ...io,
          stdin: fakeIo({ stdin: "from a pipe\n" }).stdin,
        }),
      ).toBe(0);
      expect(io.lines()).toEqual([result]);
      const sent = pod.received.flatMap((call) => (call.name === "notify" ? [call.params] : []));
      expect(sent.map(({ message, source }) => [message, source])).toEqual(Array(2).fill(["from a pipe", "ci"]));
      expect(new Set(sent.map(({ id }) => id)).size).toBe(1);
    });
  });

  test("a busy Pod is exit code 4, with the Pod's own code in JSON", async () => {
    await withFake({ run: () => ({ refuse: "already_running" }) }, async (_pod, io) => {
      expect(await runCli(["send", "fake", "x", "--json"], io)).toBe(4);
      expect(io.lines()).toEqual([{ error: { code: "already_running", message: "already_running", hint: null } }]);
    });
  });

  test("ps asks the living, and a Pod that does not answer does not hold it up", async () => {
    await withFake(
      { status: (_call, pod) => (pod.status.turn === 7 ? "silence" : { result: { ...IDLE, state: "running", turn: 3 } }) },
      async (pod, io) => {
        expect(await runCli(["ps", "--json"], io)).toBe(0);
        pod.status = { ...IDLE, turn: 7 };
        expect(await runCli(["ps", "--json"], io)).toBe(0);
        expect(io.lines()).toMatchObject([
          [{ name: "fake", session: "s_fake", status: "running", turn: 3, pid: process.pid, model: "script:fake" }],
          [{ name: "fake", reason: "does not answer" }],
        ]);
      },
    );
  });

  test("a name that is nearly right is suggested", async () => {
    await withFake({}, async (_pod, io) => {
      expect(await runCli(["output", "fkae"], io)).toBe(3);
      expect(io.err()).toBe("wakeful: no Pod or session is called fkae. Did you mean fake?\n");
    });
  });
});

async function waitFor(io: FakeIo, text: string): Promise<void> {
  const deadline = performance.now() + 5000;
  while (!io.out().includes(text) && !io.err().includes(text)) {
    if (performance.now() > deadline) throw new Error(`'${text}' did not appear in:\n${io.out()}\n${io.err()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
