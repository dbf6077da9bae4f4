import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type FakeIo, fakeIo } from "../../test/support/fake-io.ts";
import { FakePod, IDLE } from "../../test/support/fake-pod.ts";
import { connect } from "../client/connection.ts";
import type { Event } from "../protocol/event.ts";
import { resultLine } from "./close-run.ts";
import { startRun, type WatchOptions, type WatchResult, watchRun } from "./watch-run.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "wk-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

type Handlers = Parameters<typeof FakePod.start>[1];
const start = (handlers: Handlers) => FakePod.start(join(directory, "p.sock"), handlers);
const usage = { input: 10, output: 2, cache_read: 0, cache_write: 0 };

/** The events of a whole turn, from place `seq` on. */
function turn(number: number, seq: number, text: string, outcome: "completed" | "failed" | "cancelled" = "completed"): Event[] {
  return [
    { type: "turn_started", seq, index: 0, ts: 0, turn: number, trigger: "user", chain: { id: "c", hops: 0 } },
    { type: "request_started", seq: seq + 1, index: 0, ts: 0, n: number, turn: number, model: "m", takes: [] },
    { type: "text_delta", text: text.slice(0, 3) },
    { type: "assistant_item", seq: seq + 2, index: 0, ts: 0, item: { kind: "text", text } },
    { type: "request_ended", seq: seq + 2, index: 1, ts: 0, stop: "end", usage },
    { type: "turn_ended", seq: seq + 3, index: 0, ts: 0, turn: number, outcome },
  ];
}

async function watch(pod: FakePod, io: FakeIo, more: Partial<WatchOptions> = {}): Promise<WatchResult> {
  const options = {
    io,
    json: false,
    timeoutMs: undefined,
    connect: () => connect(pod.address),
    params: { input: [{ kind: "text" as const, text: "go" }] },
    ...more,
  };
  const run = await startRun(options);
  await using _connection = run.connection;
  return await watchRun(run, options);
}

/** Answers `run` and plays events right behind the answer. */
function playing(...events: readonly Event[]): Handlers {
  return {
    run: (_call, pod) => {
      setImmediate(() => pod.send(...events));
      return { result: { turn: 1, seq: 2 } };
    },
  };
}

describe("watchRun", () => {
  test("streams the answer to standard output and returns when the Pod is idle", async () => {
    await using pod = await start(playing(...turn(1, 2, "Hello there")));
    const io = fakeIo();
    expect(await watch(pod, io)).toEqual({
      exitCode: 0,
      outcome: "completed",
      text: "Hello there",
      turns: 1,
      usage,
      left: false,
    });
    expect(io.out()).toBe("Hello there\n");
    expect(io.err()).toBe("");
  });

  test("the next turn of a Pod that owes one is waited for; the outcome is the last one's", async () => {
    let statusCalls = 0;
    await using pod = await start({
      ...playing(...turn(1, 2, "first")),
      status: (_call, fake) => {
        statusCalls++;
        if (statusCalls > 1) return { result: IDLE };
        setImmediate(() => fake.send(...turn(2, 10, "second", "failed")));
        return { result: { ...IDLE, state: "running" } };
      },
    });
    const result = await watch(pod, fakeIo());
    expect(result).toMatchObject({ exitCode: 1, outcome: "failed", text: "second", turns: 2, usage: { input: 20 } });
  });

  test("what is pending but held does not keep it, and neither do items that wake nobody", async () => {
    const held = { ...IDLE, pending: 2, wake_held: { reason: "bucket_empty" as const, until: 1 } };
    await using pod = await start({ ...playing(...turn(1, 2, "a")), status: () => ({ result: held }) });
    expect((await watch(pod, fakeIo())).exitCode).toBe(0);
    await using passive = await FakePod.start(join(directory, "q.sock"), {
      ...playing(...turn(1, 2, "a")),
      status: () => ({ result: { ...IDLE, pending: 1 } }),
    });
    expect((await watch(passive, fakeIo())).exitCode).toBe(0);
  });

  test("with json every event is one line as it came, fields of a newer Pod included", async () => {
    await using pod = await start({
      run: (_call, fake) => {
        setImmediate(() => {
          fake.write('{"jsonrpc":"2.0","method":"event","params":{"type":"sparkle","colour":"red"}}\n');
          fake.send(...turn(1, 2, "Hello"));
        });
        return { result: { turn: 1, seq: 2 } };
      },
    });
    const io = fakeIo();
    const result = await watch(pod, io, { json: true });
    expect(io.lines()).toEqual([{ type: "sparkle", colour: "red" }, ...turn(1, 2, "Hello")]);
    expect(JSON.parse(resultLine(result, { name: "p", session: "s" }))).toEqual({
      type: "result",
      outcome: "completed",
      text: "Hello",
      turns: 1,
      usage,
      pod: "p",
      session: "s",
      children: [],
    });
  });

  test("a queued task waits for the turn that takes it and shows that answer alone", async () => {
    const other = turn(1, 3, "of another");
    await using pod = await start({
      run: (call, fake) => {
        const input: Event = {
          type: "user_message",
          seq: 2,
          index: 0,
          ts: 0,
          id: "in_1",
          segments: [],
          waits_for: "turn",
          origin: { by: "client" },
          ...(call.params.submission === undefined ? {} : { submission: call.params.submission }),
        };
        const own = turn(2, 10, "mine").map((event) =>
          event.type === "request_started" ? { ...event, takes: ["in_1"] } : event,
        );
        setImmediate(() => fake.send(input, ...other, ...own));
        return { result: { queued: true, seq: 2 } };
      },
    });
    const io = fakeIo();
    expect(await watch(pod, io)).toMatchObject({ exitCode: 0, text: "mine", turns: 1 });
    expect(io.out()).toBe("mine\n");
  });

  test("the first Ctrl-C cancels the turn, and the exit code says interrupted", async () => {
    const io = fakeIo();
    await using pod = await start({
      run: (_call, fake) => {
        setImmediate(() => {
          fake.send(...turn(1, 2, "part").slice(0, 3));
          io.interrupt();
        });
        return { result: { turn: 1, seq: 2 } };
      },
      cancel: (_call, fake) => {
        setImmediate(() => fake.send({ type: "turn_ended", seq: 9, index: 0, ts: 0, turn: 1, outcome: "cancelled" }));
        return { result: {} };
      },
    });
    expect(await watch(pod, io)).toMatchObject({ exitCode: 130, outcome: "cancelled", left: false });
    expect(io.err()).toContain("Ctrl-C again leaves at once");
  });

  test("the second Ctrl-C leaves without waiting", async () => {
    const io = fakeIo();
    await using pod = await start({
      cancel: () => {
        io.interrupt();
        return "silence";
      },
      run: () => {
        io.interrupt();
        return { result: { turn: 1, seq: 2 } };
      },
    });
    expect(await watch(pod, io)).toMatchObject({ exitCode: 130, left: true });
  });

  test("a time limit cancels and exits with 124", async () => {
    await using pod = await start({
      cancel: (_call, fake) => {
        fake.send(...turn(1, 2, "x", "cancelled"));
        return { result: {} };
      },
    });
    expect(await watch(pod, fakeIo(), { timeoutMs: 20 })).toMatchObject({ exitCode: 124, outcome: "cancelled" });
    expect(pod.received.map((call) => call.name)).toContain("cancel");
  });

  test("a refused task is thrown with the Pod's code", async () => {
    await using pod = await start({ run: () => ({ refuse: "already_running" }) });
    await expect(watch(pod, fakeIo())).rejects.toMatchObject({ code: "busy", details: { wire: "already_running" } });
  });

  test("a connection lost before the answer sends the same submission again (B35)", async () => {
    let attempts = 0;
    await using pod = await start({
      run: (_call, fake) => {
        if (++attempts === 1) return "drop";
        setImmediate(() => fake.send(...turn(1, 2, "once")));
        return { result: { turn: 1, seq: 2 } };
      },
    });
    const io = fakeIo();
    expect((await watch(pod, io)).exitCode).toBe(0);
    const submissions = pod.received.flatMap((call) => (call.name === "run" ? [call.params.submission] : []));
    expect(new Set(submissions).size).toBe(1);
    expect(submissions).toHaveLength(2);
  });

  test("a Pod that dies during the turn ends the run with an error, and the closing line says so", async () => {
    await using pod = await start({
      run: (_call, fake) => {
        setTimeout(() => fake.drop(), 20);
        return { result: { turn: 1, seq: 2 } };
      },
    });
    const result = await watch(pod, fakeIo());
    expect(result).toMatchObject({
      exitCode: 1,
      outcome: "interrupted",
      error: { kind: "watch", error: { code: "unavailable" } },
    });
    expect(JSON.parse(resultLine(result, { name: "my pod", session: "s" }))).toMatchObject({
      type: "result",
      outcome: "interrupted",
      error: {
        code: "unavailable",
        message: "the Pod 'my pod' was lost before its turn ended",
        hint: "its session is kept; bring it back: wakeful restore 'my pod'",
      },
    });
  });
});
