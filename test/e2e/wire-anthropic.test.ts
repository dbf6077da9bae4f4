import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startPod } from "../support/pod-harness.ts";
import { httpJson, stream, streamInPieces, text, thinking, toolCall } from "../support/provider-server/answer.ts";
import { type ReceivedRequest, startProviderServer } from "../support/provider-server/provider-server.ts";
import { untilFile } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

interface Body {
  readonly system: unknown;
  readonly tools: unknown;
  readonly messages: readonly { readonly role: string; readonly content: readonly Record<string, unknown>[] }[];
}
const bodyOf = (request: ReceivedRequest): Body => request.body as Body;
const say = (words: string) => stream(text(words));
const run = (command: string, id?: string) => toolCall("Bash", { command }, id);

describe("Anthropic's wire, strict: history after a crash", () => {
  verifies(["I5"], "holds the real result of one parallel call and an error for the other (B40)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    server.enqueue(stream(text("Both."), run("echo line >> done"), run(`echo line >> half; ${untilFile("never")}`)));
    await pod.run("work");
    await pod.file("never.started");
    await pod.waitForEntries("tool_results");
    await pod.kill();
    await pod.restore();
    server.enqueue(say("I see."));
    await pod.run("go on");
    await pod.settled();
    const last = bodyOf(server.requests[1] ?? expect.fail("no second request"));
    const results = last.messages.at(-1)?.content.filter((block) => block["type"] === "tool_result") ?? [];
    expect(results.map((result) => result["is_error"] ?? false)).toEqual([false, true]);
    expect(await pod.file("half")).toBe("line\n");
    expect(server.violations).toEqual([]);
    await pod.verify();
  });

  verifies(["L3", "L5"], "holds signed and redacted thinking byte for byte, first in its message (B48)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    const thought = "Hm 👩‍👩‍👧, \r\n and trailing blanks  ";
    server.enqueue(
      stream(thinking("sig==", ...thought), { kind: "redacted_thinking", data: "b64==" }, text("Now."), run(untilFile("never"))),
    );
    await pod.run("work");
    await pod.file("never.started");
    await pod.kill();
    await pod.restore();
    server.enqueue(say("ok"));
    await pod.run("go on");
    await pod.settled();
    const assistant = bodyOf(server.requests[1] ?? expect.fail("no second request")).messages[1];
    expect(assistant?.content.slice(0, 2)).toMatchObject([
      { type: "thinking", thinking: thought, signature: "sig==" },
      { type: "redacted_thinking", data: "b64==" },
    ]);
    expect(server.violations).toEqual([]);
  });

  it("holds no thinking that was cut before its signature (B48)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    server.enqueue(stream({ kind: "thinking", chunks: ["half a thou"] }, { kind: "close" }), say("whole"), say("next"));
    await pod.run("go");
    await pod.settled();
    await pod.run("again");
    await pod.settled();
    expect(server.requests[2]?.text).not.toContain("half a thou");
    expect(server.violations).toEqual([]);
  });
});

describe("Anthropic's wire, strict: order and roles", () => {
  verifies(
    ["N14", "N5"],
    "three notifications and a human before one request are one user message; a session may begin without a human (B44)",
    async () => {
      await using server = await startProviderServer();
      await using pod = await startPod({ server });
      await pod.notify("one", { wake: false });
      await pod.notify("two", { wake: false });
      await pod.notify("three", { wake: false });
      server.enqueue(say("ok"), say("ok"));
      await pod.run("and me");
      await pod.settled();
      const { messages } = bodyOf(server.requests[0] ?? expect.fail("no request"));
      expect(messages).toHaveLength(1);
      expect(messages[0]?.content).toHaveLength(4);
      await using second = await startPod({ server, name: "second" });
      await second.notify("first of all");
      await second.settled();
      expect(server.violations).toEqual([]);
    },
  );

  it("a notification at the very moment a tool ends still stands behind its result (B42)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    server.enqueue(
      stream(run("true")),
      stream(run("true")),
      stream(run("sleep 0.01")),
      stream(run("sleep 0.02")),
      stream(run("true")),
      say("ok"),
    );
    await using client = await pod.client();
    await pod.run("go");
    let sent = 0;
    for (let from = 0; ; ) {
      const event = await client.waitFor(
        (candidate) => candidate.type === "tool_started" || candidate.type === "tool_result" || candidate.type === "turn_ended",
        { from },
      );
      from = client.events.indexOf(event) + 1;
      if (event.type === "turn_ended") break;
      await pod.notify(`at ${event.type} ${++sent}`);
    }
    // Whatever came behind the last request woke the Pod again.
    for (let n = 0; n < 3; n++) server.enqueue(say("ok"));
    await pod.settled();
    expect(sent).toBe(10);
    expect(server.violations).toEqual([]);
    await pod.verify();
  });

  verifies(
    ["N14"],
    "a model that takes system messages in place gets the operator's words there, and nobody else's (N14)",
    async () => {
      await using server = await startProviderServer();
      await using pod = await startPod({ server, model: "anthropic/claude-opus-5" });
      server.enqueue(
        httpJson(401, { type: "error", error: { type: "authentication_error", message: "bad key" } }),
        say("ok"),
        say("ok"),
        stream(run("true")),
        say("ok"),
      );
      await pod.run("first");
      await pod.waitForEntries("turn_ended");
      // The reminder that the turn failed is the operator's; the notification is anybody's.
      await pod.notify("news", { wake: false });
      await pod.run("second");
      await pod.waitForEntries("turn_ended", 2);
      await pod.run("third");
      await pod.waitForEntries("turn_ended", 3);
      await pod.run("fourth");
      await pod.waitForEntries("turn_ended", 4);
      const system = server.requests
        .flatMap((request) => bodyOf(request).messages)
        .filter((message) => message.role === "system");
      for (const message of system) expect(JSON.stringify(message)).not.toContain("news");
      expect(server.violations).toEqual([]);
      await pod.verify();
    },
  );
});

describe("Anthropic's wire, strict: streams that end badly", () => {
  verifies(
    ["I6"],
    "tidily but without the last event, or by an error within, are tried again and never taken for an answer (B64, B67)",
    async () => {
      await using server = await startProviderServer();
      await using pod = await startPod({ server });
      server.enqueue(
        stream({ kind: "open_text", chunks: ["half an ans"] }, { kind: "end" }),
        stream({ kind: "error", type: "overloaded_error", message: "Overloaded" }),
        stream(text("some text"), { kind: "error", type: "overloaded_error", message: "Overloaded" }),
        say("the whole answer"),
      );
      await pod.run("go");
      await pod.settled();
      expect(pod.entries("llm_request")).toHaveLength(4);
      expect(pod.entries("assistant_items").map((entry) => entry.items)).toMatchObject([
        [{ content: [{ text: "the whole answer" }] }],
      ]);
      expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
    },
  );

  it("with a login page, a JSON error without a stream or nothing at all are errors that quote the server (B67)", async () => {
    const answers = [
      { kind: "http", status: 200, headers: { "content-type": "text/html" }, body: "<html>please log in</html>" } as const,
      httpJson(200, { type: "error", error: { type: "api_error", message: "sorry, not now" } }),
      { kind: "http", status: 200, headers: { "content-type": "text/event-stream" }, body: "" } as const,
    ];
    for (const answer of answers) {
      await using server = await startProviderServer({ answer: () => answer });
      await using pod = await startPod({ server, config: { limits: { attempts_per_request: 2 } } });
      await pod.run("go");
      const [ended] = await pod.waitForEntries("turn_ended");
      expect(ended?.outcome).toBe("failed");
      expect(pod.entries("assistant_items")).toEqual([]);
      if (String(answer.body).includes("log in")) expect(ended?.error?.message).toMatch(/log in|html/i);
      if (String(answer.body).includes("sorry")) expect(ended?.error?.message).toContain("sorry, not now");
    }
  });

  it("with a refusal, a filter or nothing are said, never a silent end (B80)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server, config: { limits: { attempts_per_request: 2 } } });
    server.enqueue(
      stream({ kind: "stop", reason: "refusal" }),
      stream({ kind: "stop", reason: "end_turn" }),
      stream({ kind: "stop", reason: "end_turn" }),
      say("fine now"),
    );
    await pod.run("one");
    await pod.waitForEntries("turn_ended");
    await pod.run("two");
    await pod.waitForEntries("turn_ended", 2);
    await pod.run("three");
    await pod.waitForEntries("turn_ended", 3);
    const ends = pod.entries("turn_ended");
    expect(ends.map((entry) => entry.error?.code)).toEqual(["refused", "empty_answer", undefined]);
    expect(server.violations).toEqual([]);
  });

  it("a 529 storm ends after the stated attempts; 12 hours are not slept through; both say so to clients (B68)", async () => {
    await using server = await startProviderServer({
      answer: () => httpJson(529, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }),
    });
    await using pod = await startPod({ server, config: { limits: { attempts_per_request: 4 } } });
    await using client = await pod.client();
    await pod.run("go");
    const ended = await client.event("turn_ended");
    expect(ended).toMatchObject({
      outcome: "failed",
      error: { code: "overloaded", message: expect.stringContaining("Overloaded") },
    });
    expect(client.events.flatMap((event) => (event.type === "retry" ? [event.attempt] : []))).toEqual([1, 2, 3]);
    expect(server.requests).toHaveLength(4);

    await using later = await startProviderServer({
      answer: () =>
        httpJson(429, { type: "error", error: { type: "rate_limit_error", message: "later" } }, { "retry-after": "43200" }),
    });
    await using second = await startPod({ server: later });
    await second.run("go");
    const [limited] = await second.waitForEntries("turn_ended");
    expect(limited?.error).toMatchObject({ code: "rate_limited", retry_after_ms: 43_200_000 });
    expect(later.requests).toHaveLength(1);
  });

  it("a wait between attempts is left at once by cancel, and a notification meanwhile is not lost (B68)", async () => {
    await using server = await startProviderServer({
      answer: () => httpJson(529, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }),
    });
    await using pod = await startPod({ server, config: { limits: { retry_base_ms: 60_000 } } });
    await using client = await pod.client();
    await pod.run("go");
    await client.event("retry");
    const sent = await pod.notify("meanwhile", { wake: false });
    const begin = performance.now();
    await pod.request("cancel", {});
    expect(performance.now() - begin).toBeLessThan(1000);
    expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "cancelled" }]);
    expect((await pod.status()).pending).toBe(1);
    expect(sent.state).toBe("next_request");
  });

  it.each([
    ["no answer at all", stream({ kind: "stall" })],
    ["headers and nothing", stream({ kind: "headers" }, { kind: "stall" })],
    ["pings for ever", stream({ kind: "ping_forever", everyMs: 100 })],
    ["some text and then nothing", stream({ kind: "open_text", chunks: ["abc"] }, { kind: "stall" })],
  ])("silence has a limit, and cancel does not wait for it: %s (B71)", async (_, answer) => {
    await using server = await startProviderServer({ answer: () => answer });
    await using pod = await startPod({ server, config: { limits: { stream_idle_s: 1, attempts_per_request: 1 } } });
    await pod.run("go");
    const [ended] = await pod.waitForEntries("turn_ended");
    expect(ended?.error?.code).toBe("timeout");
    await pod.run("again");
    await pod.waitForEntries("llm_request", 2);
    const begin = performance.now();
    await pod.request("cancel", {});
    expect(performance.now() - begin).toBeLessThan(900);
    expect((await pod.status()).state).toBe("idle");
  });
});

describe("Anthropic's wire, strict: calls", () => {
  it("run although the stop reason says end_turn (B73)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    server.enqueue(stream(run("touch ran"), { kind: "stop", reason: "end_turn" }), say("ok"));
    await pod.run("go");
    await pod.settled();
    expect(existsSync(join(pod.cwd, "ran"))).toBe(true);
    expect(server.violations).toEqual([]);
  });

  it("with arguments cut by the output limit are not carried out, and the history stays valid (B74, B55)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    server.enqueue(
      stream(
        { kind: "tool_call", name: "Write", chunks: ['{"path":"a","content":"abc'] },
        { kind: "stop", reason: "max_tokens" },
      ),
      say("I see."),
    );
    await pod.run("go");
    await pod.settled();
    expect(existsSync(join(pod.cwd, "a"))).toBe(false);
    expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
    expect(server.requests).toHaveLength(2);
    expect(server.violations).toEqual([]);
  });

  it("half streamed when the turn is cancelled are not sent (B55)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    await using client = await pod.client();
    server.enqueue(
      stream(text("I write."), { kind: "open_tool_call", name: "Write", chunks: ['{"pa'] }, { kind: "stall" }),
      say("ok"),
    );
    await pod.run("go");
    await client.waitFor((event) => event.type === "tool_call_delta" && event.arguments.includes("pa"), { what: "half a call" });
    await pod.request("cancel", {});
    await pod.run("what now?");
    await pod.settled();
    expect(server.requests[1]?.text).not.toContain("tool_use");
    expect(server.requests[1]?.text).toContain("I write.");
    expect(server.violations).toEqual([]);
    await pod.verify();
  });

  it("of unknown tools are answered with those there are, and the others run; odd ids are made valid (B52, B76)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    server.enqueue(
      stream(
        toolCall("read_file", {}, "functions.read:0"),
        toolCall("Bash ", { command: "touch no" }, "a|b"),
        toolCall("__proto__", {}, `x${"y".repeat(120)}`),
        toolCall("constructor", {}, "é"),
        run("touch yes", "a_b"),
      ),
      say("ok"),
    );
    await pod.run("go");
    await pod.settled();
    expect(existsSync(join(pod.cwd, "yes"))).toBe(true);
    expect(existsSync(join(pod.cwd, "no"))).toBe(false);
    const results = bodyOf(server.requests[1] ?? expect.fail("no second request")).messages.at(-1)?.content ?? [];
    expect(results.map((result) => result["is_error"] ?? false)).toEqual([true, true, true, true, false]);
    expect(server.violations).toEqual([]);
  });

  it("and texts arrive whole when the stream comes byte by byte (B78)", async () => {
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    const odd = "日本語 👩‍👩‍👧 é";
    server.enqueue(streamInPieces(1, thinking("s1", odd), text(odd), toolCall("Write", { path: "a", content: odd })), say("ok"));
    await pod.run("go");
    await pod.settled();
    expect(readFileSync(join(pod.cwd, "a"), "utf8")).toBe(odd);
    expect(JSON.stringify(pod.entries("assistant_items")[0])).not.toContain("\ufffd");
    expect(pod.entries("assistant_items")[0]?.items).toMatchObject([{ text: odd }, { content: [{ text: odd }] }, {}]);
    expect(server.violations).toEqual([]);
  });

  it("too large a request ends the turn at once, and a small one works afterwards if the input was small (B54)", async () => {
    await using server = await startProviderServer({
      answer: (request) =>
        request.bytes.length > 1_000_000
          ? httpJson(413, { type: "error", error: { type: "request_too_large", message: "Request exceeds the maximum size" } })
          : say("ok"),
    });
    await using pod = await startPod({ server });
    await pod.run("x".repeat(1_200_000));
    const [ended] = await pod.waitForEntries("turn_ended");
    expect(ended?.error).toMatchObject({ code: "too_large", message: expect.stringContaining("maximum size") });
    expect(server.requests).toHaveLength(1);
  });
});
