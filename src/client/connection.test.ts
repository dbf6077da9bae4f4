import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakePod, IDLE } from "../../test/support/fake-pod.ts";
import { AppError } from "../base/errors.ts";
import { type CommittedEvent, cursorOf } from "../protocol/event.ts";
import { connect, resultOf } from "./connection.ts";
import { follow } from "./follow.ts";
import { submitRun } from "./submit-run.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "wk-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));
const socket = () => join(directory, "p.sock");

function textAt(seq: number): CommittedEvent {
  return { type: "assistant_item", seq, index: 0, ts: 0, item: { kind: "text", text: `t${seq}` } };
}

describe("connect", () => {
  test("a method is answered with its validated result, a refusal is a value with the Pod's code", async () => {
    await using pod = await FakePod.start(socket(), { run: () => ({ refuse: "already_running", message: "turn 3 runs" }) });
    await using connection = await connect(pod.address);
    expect(await connection.request("status", {})).toEqual({ ok: true, result: IDLE });
    const refused = await connection.request("run", { input: [{ kind: "text", text: "x" }] });
    expect(refused).toEqual({ ok: false, refusal: { code: "already_running", message: "turn 3 runs", hint: undefined } });
    expect(() => resultOf(refused)).toThrow(expect.objectContaining({ code: "busy", details: { wire: "already_running" } }));
  });

  test("an answer that is not what the method gives is an internal error", async () => {
    // A cast, because a fake of the right type could not lie.
    await using pod = await FakePod.start(socket(), { status: () => ({ result: { ...IDLE, turn: "x" } as never }) });
    await using connection = await connect(pod.address);
    await expect(connection.request("status", {})).rejects.toMatchObject({ code: "internal" });
    expect(connection.isOpen).toBe(true);
  });

  test("a lost connection rejects what waits, ends the events with an error, and refuses what comes later", async () => {
    await using pod = await FakePod.start(socket(), { pause: () => "drop" });
    await using connection = await connect(pod.address);
    const events = (async () => {
      for await (const _ of connection.events());
    })();
    const lost = expect.objectContaining({ code: "unavailable" });
    const ends = expect(events).rejects.toEqual(lost);
    await expect(connection.request("pause", {})).rejects.toEqual(lost);
    await ends;
    await expect(connection.request("status", {})).rejects.toEqual(lost);
  });

  test("a request ends at its deadline or when its signal aborts, and its late answer harms nobody", async () => {
    await using pod = await FakePod.start(socket(), { pause: () => "silence" });
    await using connection = await connect(pod.address);
    await expect(connection.request("pause", {}, { deadlineMs: 20 })).rejects.toMatchObject({ code: "timed_out" });
    const abort = new AbortController();
    const waiting = connection.request("pause", {}, { signal: abort.signal });
    abort.abort(new AppError("cancelled", "enough"));
    await expect(waiting).rejects.toThrow("enough");
    pod.write('{"jsonrpc":"2.0","id":1,"result":{}}\n');
    expect((await connection.request("status", {})).ok).toBe(true);
  });

  test("nobody at the address is unavailable, another scheme is invalid input", async () => {
    await expect(connect(`unix:${socket()}`)).rejects.toMatchObject({ code: "unavailable" });
    await expect(connect("tcp:localhost:1")).rejects.toMatchObject({ code: "invalid_input" });
  });

  test("events wait for their reader without being dropped, and the socket is not read meanwhile", async () => {
    await using pod = await FakePod.start(socket());
    await using connection = await connect(pod.address);
    await connection.request("attach", {});
    const total = 5000;
    pod.send(...Array.from({ length: total }, (_, i) => textAt(i + 2)));
    const seen: number[] = [];
    for await (const received of connection.events()) {
      if (received.kind === "known" && "seq" in received.event) seen.push(received.event.seq);
      if (seen.length === total) break;
    }
    expect(seen).toEqual(Array.from({ length: total }, (_, i) => i + 2));
  });

  test("rubbish from a Pod ends the connection with an error", async () => {
    await using pod = await FakePod.start(socket());
    await using connection = await connect(pod.address);
    await connection.request("attach", {});
    pod.write("hello\n");
    await expect(connection.events()[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "internal" });
  });
});

describe("submitRun", () => {
  test("a task whose answer was lost goes again under the same submission, never under another (B35)", async () => {
    let attempts = 0;
    await using pod = await FakePod.start(socket(), { run: () => (++attempts === 1 ? "drop" : { result: { turn: 4, seq: 9 } }) });
    const open = () => connect(pod.address);
    const { answer, connection } = await submitRun(await open(), { input: [{ kind: "text", text: "x" }] }, { reconnect: open });
    await connection.close();
    expect(answer).toEqual({ ok: true, result: { turn: 4, seq: 9 } });
    const submissions = pod.received.map((call) => (call.name === "run" ? call.params.submission : undefined));
    expect(submissions).toHaveLength(2);
    expect(submissions[0]).toMatch(/^sub_/);
    expect(submissions[1]).toBe(submissions[0]);
  });

  test("a refusal is not tried again", async () => {
    await using pod = await FakePod.start(socket(), { run: () => ({ refuse: "queue_full" }) });
    const open = () => connect(pod.address);
    const { answer, connection } = await submitRun(await open(), { input: [{ kind: "text", text: "x" }] }, { reconnect: open });
    await connection.close();
    expect(answer).toMatchObject({ ok: false, refusal: { code: "queue_full" } });
    expect(pod.received).toHaveLength(1);
  });
});

describe("follow", () => {
  test("goes on from the newest place after a loss and after lagged, and ends at shutdown", async () => {
    let attaches = 0;
    await using pod = await FakePod.start(socket(), {
      attach: (_call, fake) => {
        attaches++;
        return { result: { ...fake.snapshot, status: fake.status, cursor: { seq: attaches * 10, index: 0 }, events: [] } };
      },
    });
    const seen: unknown[] = [];
    for await (const followed of follow({ connect: () => connect(pod.address), since: { seq: 3, index: 1 } })) {
      if (followed.kind === "snapshot") {
        seen.push(followed.snapshot.cursor.seq);
        if (attaches === 1) pod.send(textAt(12), { type: "lagged", cursor: { seq: 12, index: 0 } });
        if (attaches === 2) pod.drop();
        if (attaches === 3) pod.send({ type: "shutdown", reason: "done" });
      } else if (followed.received.kind === "known") seen.push(followed.received.event.type);
    }
    expect(seen).toEqual([10, "assistant_item", "lagged", 20, 30, "shutdown"]);
    const places = pod.received.map((call) => (call.name === "attach" ? call.params.since : undefined));
    expect(places).toEqual([{ seq: 3, index: 1 }, cursorOf(textAt(12)), { seq: 20, index: 0 }]);
  });

  test("gives up when the Pod stays away", async () => {
    const followed = follow({ connect: () => connect(`unix:${socket()}`), patienceMs: 120 });
    await expect(followed.next()).rejects.toMatchObject({ code: "unavailable" });
  });

  test("ends without an error when its signal aborts", async () => {
    await using pod = await FakePod.start(socket());
    const abort = new AbortController();
    const kinds: string[] = [];
    for await (const followed of follow({ connect: () => connect(pod.address), signal: abort.signal })) {
      kinds.push(followed.kind);
      abort.abort();
    }
    expect(kinds).toEqual(["snapshot"]);
  });
});
