import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { startPod } from "../support/pod-harness.ts";
import { ALWAYS, bashUntil } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

const line = (value: unknown) => `${JSON.stringify(value)}\n`;
const status = (id: unknown) => ({ jsonrpc: "2.0", id, method: "status", params: {} });

describe("what a stranger writes to the socket", () => {
  verifies(["I6"], "at random never reaches the Pod or another client (B104)", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("go"), { say: "ok" }] } });
    await using good = await pod.client();
    await pod.run("work");
    await pod.file("go.started");
    const before = pod.log().length;
    const garbage = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 2000 }).map((bytes) => Buffer.from(bytes)),
      fc.string({ unit: "binary", minLength: 1, maxLength: 500 }).map((text) => Buffer.from(`${text}\n`)),
      fc.json().map((json) => Buffer.from(`${json}\n`)),
      fc.record({ jsonrpc: fc.constant("2.0"), id: fc.anything(), method: fc.anything(), params: fc.anything() }).map((value) => {
        try {
          return Buffer.from(line(value));
        } catch {
          return Buffer.from("{}\n");
        }
      }),
      fc
        .record({
          jsonrpc: fc.constant("2.0"),
          id: fc.nat(),
          method: fc.constantFrom("run", "notify", "history", "set_config", "read_output", "__proto__", "constructor"),
          params: fc.oneof(fc.jsonValue(), fc.record({ input: fc.jsonValue(), source: fc.jsonValue(), before: fc.jsonValue() })),
        })
        .map((value) => Buffer.from(line(value))),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(garbage, { minLength: 1, maxLength: 5 }), fc.boolean(), async (parts, isCut) => {
        await using raw = await pod.raw();
        for (const part of parts) await raw.write(isCut ? part.subarray(0, part.length - 1) : part);
        raw.socket.end();
        await raw.closed;
      }),
      { numRuns: 60 },
    );
    expect(await pod.status()).toMatchObject({ state: "running", turn: 1 });
    // Whatever was written, nobody's words got in.
    expect(
      pod
        .log()
        .slice(before)
        .filter((entry) => entry.type !== "config_changed"),
    ).toEqual([]);
    pod.touch("go");
    await good.event("turn_ended");
    expect(good.connection.isOpen).toBe(true);
    await pod.verify();
  });

  it("wrong is answered with what is wrong, where it can be", async () => {
    await using pod = await startPod({ script: ALWAYS });
    const cases: readonly (readonly [unknown, number | string | null, number])[] = [
      [{ jsonrpc: "2.0", id: 1, method: "nope" }, 1, -32601],
      [{ jsonrpc: "2.0", id: 2, method: "__proto__" }, 2, -32601],
      [{ jsonrpc: "2.0", id: 3, method: "run", params: {} }, 3, -32602],
      [{ jsonrpc: "2.0", id: "four", method: "run", params: { input: [] } }, "four", -32602],
      [{ jsonrpc: "2.0", id: 5, method: "run", params: { input: [{ kind: "text" }] } }, 5, -32602],
      [{ jsonrpc: "2.0", id: 6, method: 7 }, 6, -32600],
      [{ id: 8, method: "status" }, 8, -32600],
      [{ jsonrpc: "2.0", id: null, method: "status" }, null, -32600],
      [[status(1)], null, -32600],
      ["text", null, -32600],
    ];
    for (const [message, id, code] of cases) {
      await using raw = await pod.raw();
      await raw.write(line(message));
      expect((await raw.answer(id)).error, JSON.stringify(message)).toMatchObject({ code });
      // The connection still serves.
      await raw.write(line(status("after")));
      expect((await raw.answer("after")).result).toMatchObject({ state: "idle" });
    }
  });

  it("that is no line of ours ends that connection, with a reason (B104)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using other = await pod.client();
    const cases = [
      Buffer.from("not json\n"),
      Buffer.from([0xff, 0xfe, 0x0a]),
      Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
      Buffer.concat([Buffer.alloc(9 * 1024 * 1024, 0x61), Buffer.from("\n")]),
      Buffer.alloc(40 * 1024 * 1024, 0x61),
    ];
    const before = pod.residentBytes;
    for (const bytes of cases) {
      await using raw = await pod.raw();
      const answered = raw.answer(null);
      await raw.write(bytes);
      expect((await answered).error?.code).toBe(-32700);
      await raw.closed;
    }
    expect(pod.residentBytes - before).toBeLessThan(150 * 1024 * 1024);
    expect(other.connection.isOpen).toBe(true);
    expect((await pod.status()).state).toBe("idle");
  });

  it("deeply nested costs that connection at most", async () => {
    await using pod = await startPod({ script: ALWAYS });
    for (const depth of [1000, 100_000, 1_000_000]) {
      await using raw = await pod.raw();
      const deep = `${"[".repeat(depth)}${"]".repeat(depth)}`;
      await raw.write(`{"jsonrpc":"2.0","id":1,"method":"run","params":{"input":${deep}}}\n`);
      await raw.line((line): line is object => typeof line === "object" && line !== null && "error" in line);
    }
    expect((await pod.status()).state).toBe("idle");
  });

  verifies(
    ["M-status-idle", "M-hello-idle"],
    "is framed by line breaks and nothing else: two in one write, one byte a write, CRLF, empty lines, a character cut in two (B104)",
    async () => {
      await using pod = await startPod({ script: ALWAYS });
      await using raw = await pod.raw();
      await raw.write(
        `${line(status(1))}${line({ jsonrpc: "2.0", id: 2, method: "hello", params: { client: "t", version: "1" } })}`,
      );
      expect((await raw.answer(1)).result).toMatchObject({ state: "idle" });
      expect((await raw.answer(2)).result).toEqual({ pod: "pod", version: expect.any(String), protocol: 1 });
      const text = "ein 👩‍👩‍👧 und 日本語 \u2028\u0085 é";
      const bytes = Buffer.from(
        `\r\n\n${JSON.stringify({ jsonrpc: "2.0", id: 3, method: "notify", params: { source: "s", message: text, wake: false } })}\r\n`,
      );
      for (const byte of bytes) await raw.write(Uint8Array.of(byte));
      expect((await raw.answer(3)).result).toMatchObject({ state: "pending" });
      expect(pod.entries("system_items")[0]?.items[0]?.payload).toEqual({ source: "s", message: text });
    },
  );

  it("without its line break and then nothing more is not carried out", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using raw = await pod.raw();
    await raw.write(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "notify", params: { source: "s", message: "half" } }));
    raw.socket.end();
    await raw.closed;
    await pod.request("status", {});
    expect(pod.log()).toHaveLength(1);
  });

  it("of one megabyte is taken whole", async () => {
    await using pod = await startPod({ script: ALWAYS });
    const text = "日".repeat(350_000);
    await pod.run(text);
    await pod.settled();
    expect(pod.entries("user_input")[0]?.segments).toEqual([{ kind: "text", text }]);
  });

  it("faster than it reads its answers is slowed down, and nothing is lost", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using raw = await pod.raw();
    raw.socket.pause();
    const before = pod.residentBytes;
    // 40 000 requests, whose answers are not read: they wait in the socket.
    const all = Array.from({ length: 40_000 }, (_, id) => line(status(id))).join("");
    const written = raw.write(all);
    await pod.request("status", {});
    expect(pod.residentBytes - before).toBeLessThan(150 * 1024 * 1024);
    raw.socket.resume();
    await written;
    await raw.answer(39_999);
    expect(raw.lines).toHaveLength(40_000);
  });
});
