import { describe, expect, it } from "vitest";
import {
  type Answer,
  httpJson,
  type Step,
  signedText,
  stream,
  streamInPieces,
  text,
  thinking,
  toolCall,
} from "../../test/support/provider-server/answer.ts";
import { ask, failureOf, itemsOf, MODELS, openAt, type WireName, words } from "../../test/support/provider-server/ask-model.ts";
import { startProviderServer } from "../../test/support/provider-server/provider-server.ts";
import type { ModelEvent } from "./model.ts";

const NEW_WIRES = ["responses", "chat", "gemini"] as const satisfies readonly WireName[];
const HARD = "日本語 👩‍👩‍👧 é";

async function answerTo(wire: WireName, answer: Answer, idleTimeoutMs = 5000): Promise<ModelEvent[]> {
  await using server = await startProviderServer();
  server.enqueue(answer);
  return await ask(await openAt(server, MODELS[wire]), { idleTimeoutMs });
}

const stop = (reason: string): Step => ({ kind: "stop", reason });
const call = (item: { readonly name: string; readonly arguments: string; readonly callId: string }) =>
  expect.objectContaining({ kind: "tool_call", ...item });

describe.each(NEW_WIRES)("an answer over %s", (wire) => {
  it("comes as deltas, complete items in order, and one finish with the tokens by how they are charged", async () => {
    const events = await answerTo(wire, stream(text("he", "llo"), toolCall("Bash", { command: "ls" }, "call_a")));
    expect(events.map((event) => event.type)).toEqual([
      "text_delta",
      "text_delta",
      ...(wire === "chat"
        ? ["tool_call_delta", "tool_call_delta", "item", "item"]
        : ["item", "tool_call_delta", "tool_call_delta", "item"]),
      "finish",
    ]);
    expect(itemsOf(events)).toEqual([
      expect.objectContaining({ kind: "message", text: "hello" }),
      call({ callId: "call_a", name: "Bash", arguments: '{"command":"ls"}' }),
    ]);
    const write = wire === "responses" ? 2 : 0;
    expect(events.at(-1)).toEqual({
      type: "finish",
      stop: "tool_calls",
      usage: { input: 10, output: 7, cache_read: 3, cache_write: write },
    });
  });

  it("is the same whatever pieces it comes in (B78)", async () => {
    const steps = [thinking("sig", HARD), text(HARD), toolCall("Write", { content: HARD }, "call_a"), stop("end of it")].slice(
      0,
      3,
    );
    const whole = itemsOf(await answerTo(wire, stream(...steps)));
    expect(whole.map((item) => (item.kind === "tool_call" ? item.arguments : item.text))).toEqual([
      HARD,
      HARD,
      `{"content":"${HARD}"}`,
    ]);
    expect(itemsOf(await answerTo(wire, streamInPieces(1, ...steps))).map(withoutIds)).toEqual(whole.map(withoutIds));
    expect(itemsOf(await answerTo(wire, streamInPieces(3, ...steps))).map(withoutIds)).toEqual(whole.map(withoutIds));
  });

  it.each<[string, readonly Step[]]>([
    ["in a text", [{ kind: "open_text", chunks: ["half of a"] }]],
    ["behind a text", [text("all that came")]],
    ["in a call", [{ kind: "open_tool_call", name: "Write", chunks: ['{"path":'] }]],
    ["behind a call", [toolCall("Write", { path: "a" })]],
  ])("that ends tidily %s, without its last event, is cut and not complete (B64)", async (_name, steps) => {
    const events = await answerTo(wire, stream(...steps, { kind: "end" }));
    expect(failureOf(events)).toMatchObject({ code: "stream_cut", retryable: true });
    expect(events.filter((event) => event.type === "finish")).toEqual([]);
  });

  it.each<[string, Answer, object, string]>([
    ["an error at once", stream(errorStep(wire)), { code: "overloaded", retryable: true }, "please wait"],
    ["an error after text", stream(text("so far"), errorStep(wire)), { code: "overloaded", retryable: true }, "please wait"],
    [
      "a login page",
      { kind: "http", status: 200, headers: { "content-type": "text/html" }, body: "<html><b>Log in</b> first</html>" },
      { retryable: false },
      "Log in first",
    ],
    [
      "an error as JSON",
      httpJson(200, { error: { message: "no such luck", type: "server_error", code: null } }),
      {},
      "no such luck",
    ],
    [
      "nothing",
      { kind: "http", status: 200, headers: { "content-type": "text/event-stream" }, body: "" },
      { code: "empty_answer" },
      "empty",
    ],
  ])(
    "with status 200 that is %s is a failure with the server's words, and no item (B67)",
    async (_name, answer, failure, words) => {
      const events = await answerTo(wire, answer);
      expect(failureOf(events)).toMatchObject({ ...failure, message: expect.stringContaining(words) });
      expect(itemsOf(events).filter((item) => item.kind === "message" && item.text === "")).toEqual([]);
    },
  );

  it("of pings alone is a silence, and so is a head without a body (B71)", async () => {
    const pings = await answerTo(wire, stream({ kind: "ping_forever", everyMs: 10 }), 150);
    expect(failureOf(pings)).toMatchObject({ code: "timeout", retryable: true });
    const head = await answerTo(wire, stream({ kind: "headers" }, { kind: "stall" }), 150);
    expect(failureOf(head)).toMatchObject({ code: "timeout", retryable: true });
  });

  it("can be cancelled in the middle at once (B71)", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(text("so far"), { kind: "stall" }));
    const controller = new AbortController();
    const model = await openAt(server, MODELS[wire]);
    const answer = ask(model, { signal: controller.signal });
    const request = await server.nextRequest();
    controller.abort();
    expect(failureOf(await answer).code).toBe("cancelled");
    await request.closed;
  });

  it("that was cut in its arguments keeps them as they are; they go back as an object (B74)", async () => {
    await using server = await startProviderServer();
    const cut = '{"path":"a","content":"abc';
    const step: Step = {
      kind: wire === "responses" ? "open_tool_call" : "tool_call",
      id: "call_a",
      name: "Write",
      chunks: [cut],
    };
    server.enqueue(stream(step, stop("max_tokens")), stream(text("ok")));
    const model = await openAt(server, MODELS[wire]);
    const events = await ask(model);
    expect(itemsOf(events)).toEqual([call({ callId: "call_a", name: "Write", arguments: cut })]);
    expect(events.at(-1)).toMatchObject({ type: "finish", stop: "max_tokens" });
    const result = {
      kind: "tool_result",
      callId: "call_a",
      name: "Write",
      summary: "arguments were cut",
      isError: true,
    } as const;
    await ask(model, { items: [words("hi"), ...itemsOf(events), result] });
    expect(server.requests[1]?.text).toContain(wire === "gemini" ? '"args":{}' : '"arguments":"{}"');
  });

  it("that is a refusal says so (B80)", async () => {
    const events = await answerTo(wire, stream(text("I think"), stop("refusal")));
    expect(events.at(-1)).toMatchObject({ type: "finish", stop: wire === "gemini" ? "content_filter" : "refusal" });
    const filtered = await answerTo(wire, stream(text("I think"), stop("content_filter")));
    expect(filtered.at(-1)).toMatchObject({ type: "finish", stop: "content_filter" });
  });

  it("without anything in it is a failure that says why (B80)", async () => {
    const filtered = failureOf(await answerTo(wire, stream(stop("content_filter"))));
    expect(filtered).toMatchObject({ code: "refused", retryable: false });
    const normal = { responses: "completed", chat: "stop", gemini: "STOP" }[wire];
    expect(failureOf(await answerTo(wire, stream(stop(normal))))).toMatchObject({ code: "empty_answer", retryable: true });
    expect(failureOf(await answerTo(wire, stream(stop("max_tokens"))))).toMatchObject({ code: "empty_answer", retryable: false });
    const thought = failureOf(await answerTo(wire, stream(thinking("sig", "hm"), stop(normal))));
    expect(thought).toMatchObject({ code: "empty_answer", retryable: true });
  });

  it.each([
    [529, {}, { code: "overloaded", retryable: true }],
    [503, {}, { retryable: true }],
    [429, { "retry-after": "43200" }, { code: "rate_limited", retryable: true, retryAfterMs: 43_200_000 }],
    [401, {}, { code: "authentication", retryable: false }],
    [413, {}, { code: "too_large", retryable: false }],
    [404, {}, { code: "not_found", retryable: false }],
  ])("with status %i is a failure of its kind (B68)", async (status, headers, failure) => {
    const answer = httpJson(status, { error: { message: "as you see", type: null, code: null } }, headers);
    expect(failureOf(await answerTo(wire, answer))).toMatchObject({
      ...failure,
      status,
      message: expect.stringContaining("as you see"),
    });
  });
});

function errorStep(wire: WireName): Step {
  return { kind: "error", type: wire === "gemini" ? "UNAVAILABLE" : "overloaded_error", message: "overloaded, please wait" };
}

// The server numbers its items.
function withoutIds(item: object): string {
  return JSON.stringify(item).replace(/"itemId":"[^"]*"/g, "");
}

describe("Chat Completions", () => {
  it.each([["stop"], ["missing"], ["empty reason"]])("run their calls when the reason is %s (B73)", async (reason) => {
    const events = await answerTo("chat", stream(toolCall("Bash", {}, "call_a"), stop(reason)));
    expect(itemsOf(events)).toEqual([call({ callId: "call_a", name: "Bash", arguments: "{}" })]);
    expect(events.at(-1)).toMatchObject({ type: "finish", stop: "end" });
  });

  it("with an empty reason in every event are cut where the mark at the end is missing (B64, B73)", async () => {
    const event = (delta: object): Step => ({
      kind: "event",
      json: JSON.stringify({ choices: [{ index: 0, delta, finish_reason: "" }] }),
    });
    const cut = await answerTo("chat", stream(event({ content: "half" }), event({ content: " of it" }), { kind: "end" }));
    expect(failureOf(cut)).toMatchObject({ code: "stream_cut", retryable: true });
    const mark: Step = { kind: "raw", text: "data: [DONE]\n\n" };
    const whole = await answerTo("chat", stream(event({ content: "all" }), event({ content: " of it" }), mark, { kind: "end" }));
    expect(itemsOf(whole)).toEqual([{ kind: "message", text: "all of it" }]);
  });

  it("that end with the reason error are a failure", async () => {
    expect(failureOf(await answerTo("chat", stream(text("so"), stop("error"))))).toMatchObject({
      code: "server_error",
      retryable: true,
    });
  });

  it("give reasoning back only to a server that wants it, and never to another", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(thinking("", "hm"), text("a"), toolCall("Bash", {}, "c1")), stream(text("b")), stream(text("c")));
    const model = await openAt(server, MODELS.chat, { returnsReasoning: true });
    const answer = itemsOf(await ask(model));
    const result = { kind: "tool_result", callId: "c1", name: "Bash", summary: "done", isError: false } as const;
    await ask(model, { items: [words("hi"), ...answer, result] });
    expect(server.requests[1]?.text).toContain('"reasoning_content":"hm"');
    await ask(await openAt(server, MODELS.chat), { items: [words("hi"), ...answer, result] });
    expect(server.requests[2]?.text).not.toContain("reasoning_content");
  });

  it("pass an event that holds nothing for us", async () => {
    const event: Step = { kind: "event", json: '{"type":"queue","position":3}' };
    expect(itemsOf(await answerTo("chat", stream(text("a"), event, stop("stop"))))).toEqual([{ kind: "message", text: "a" }]);
  });

  it("send a key only where there is one", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(text("a")));
    await ask(await openAt(server, MODELS.chat));
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
  });
});

describe("the Responses API", () => {
  const call = (): Answer => stream(thinking("enc-1", "so ", "then"), toolCall("Bash", { command: "ls" }, "call_a"));
  const result = { kind: "tool_result", callId: "call_a", name: "Bash", summary: "done", isError: false } as const;

  it("gets its encrypted reasoning back in front of what it led to, also after a restore", async () => {
    await using server = await startProviderServer();
    server.enqueue(call(), stream(text("ok")));
    const model = await openAt(server, MODELS.responses);
    const answer = itemsOf(await ask(model));
    await ask(model, { items: [words("hi"), ...JSON.parse(JSON.stringify(answer)), result] });
    expect(server.requests[1]?.body).toMatchObject({
      store: false,
      include: ["reasoning.encrypted_content"],
      input: [
        { role: "developer" },
        { role: "user" },
        { type: "reasoning", encrypted_content: "enc-1", summary: [{ text: "so then" }] },
        { type: "function_call", call_id: "call_a" },
        { type: "function_call_output", call_id: "call_a" },
      ],
    });
  });

  it("that refuses what it encrypted is a failure with the remedy, and the remedy leaves out just that (B50)", async () => {
    await using server = await startProviderServer();
    const refusal = { error: { message: "The encrypted content could not be verified.", code: "invalid_encrypted_content" } };
    server.enqueue(call(), httpJson(400, refusal), stream(text("ok")));
    const model = await openAt(server, MODELS.responses);
    const items = [words("hi"), ...itemsOf(await ask(model)), result];
    const failure = failureOf(await ask(model, { items }));
    expect(failure).toMatchObject({ code: "invalid_request", retryable: false, refusedProofsOf: "openai" });
    const adjustments = { refused_proofs: { provider: "openai", before: items.length } };
    await ask(model, { items, settings: { reasoning: "default", adjustments } });
    const [, refused, last] = server.requests.map((request) => request.body);
    expect(last).toEqual({
      ...Object(refused),
      input: Object(refused).input.filter((item: { type?: string }) => item.type !== "reasoning"),
    });
    // Another provider's adjustment is none of its business.
    server.enqueue(stream(text("ok")));
    await ask(model, {
      items,
      settings: { reasoning: "default", adjustments: { refused_proofs: { provider: "google", before: 9 } } },
    });
    expect(server.requests.at(-1)?.body).toEqual(refused);
  });

  it("is told from Chat Completions behind the same URL, once and for all", async () => {
    const event: Step = {
      kind: "event",
      json: '{"id":"x","object":"chat.completion.chunk","choices":[{"delta":{"content":"hi"}}]}',
    };
    const failure = failureOf(await answerTo("responses", stream(event, { kind: "end" })));
    expect(failure).toMatchObject({
      code: "invalid_request",
      retryable: false,
      message: expect.stringContaining("another protocol"),
    });
  });

  it.each([
    ["insufficient_quota", { code: "quota", retryable: false }],
    ["rate_limit_exceeded", { code: "rate_limited", retryable: true }],
    ["server_error", { code: "server_error", retryable: true }],
  ])("that fails with %s in the middle is a failure of that kind", async (code, failure) => {
    const error = { code, message: "in the middle" };
    const response = { id: "r", created_at: 1, model: "m", error, incomplete_details: null };
    const event: Step = { kind: "event", json: JSON.stringify({ type: "response.failed", sequence_number: 9, response }) };
    for (const steps of [[text("so far"), event], [event]]) {
      const found = failureOf(await answerTo("responses", stream(...steps, { kind: "end" })));
      expect(found).toMatchObject({ ...failure, message: expect.stringContaining("in the middle") });
    }
  });
});

describe("Gemini", () => {
  it("gets each signature back on the part it came with: calls, texts, empty texts (B51)", async () => {
    await using server = await startProviderServer();
    server.enqueue(
      stream(
        { kind: "redacted_thinking", data: "s-lead" },
        signedText("s-text", "Let me", " look"),
        signedText("s-empty", ""),
        { kind: "tool_call", id: "c1", name: "Bash", chunks: ["{}"], signature: "s-call" },
        toolCall("Bash", { n: 2 }, "c2"),
      ),
      stream(signedText("s-end", "done", ""), stop("STOP")),
      stream(text("ok")),
    );
    const model = await openAt(server, MODELS.gemini);
    const results = ["c1", "c2"].map(
      (callId) => ({ kind: "tool_result", callId, name: "Bash", summary: callId, isError: false }) as const,
    );
    const first = itemsOf(await ask(model));
    expect(first.map((item) => item.kind)).toEqual(["reasoning", "message", "tool_call", "tool_call"]);
    const items = [words("hi"), ...first, ...results];
    const second = itemsOf(await ask(model, { items }));
    expect(second).toHaveLength(1);
    const restored = JSON.parse(JSON.stringify([...items, ...second, words("go on")]));
    await ask(model, { items: restored });
    expect(server.requests[2]?.body).toMatchObject({
      contents: [
        {},
        {
          role: "model",
          parts: [
            { text: "", thoughtSignature: "s-lead" },
            { text: "Let me" },
            { text: " look", thoughtSignature: "s-text" },
            { text: "", thoughtSignature: "s-empty" },
            { functionCall: { id: "c1", name: "Bash", args: {} }, thoughtSignature: "s-call" },
            { functionCall: { id: "c2", name: "Bash", args: { n: 2 } } },
          ],
        },
        { role: "user", parts: [{ functionResponse: { id: "c1" } }, { functionResponse: { id: "c2" } }] },
        { role: "model", parts: [{ text: "done" }, { text: "", thoughtSignature: "s-end" }] },
        {},
      ],
    });
    expect(Object(server.requests[2]?.body).contents[1].parts[5].thoughtSignature).toBeUndefined();
  });

  it("calls that another provider made go with the mark that is documented for them", async () => {
    await using server = await startProviderServer({ answer: () => stream(text("ok")) });
    const call = { kind: "tool_call", callId: "functions.read:0", name: "Bash", arguments: "{}" } as const;
    const result = { kind: "tool_result", callId: call.callId, name: "Bash", summary: "done", isError: false } as const;
    await ask(await openAt(server, MODELS.gemini), { items: [words("hi"), call, result] });
    expect(server.requests[0]?.text).toContain('"thoughtSignature":"skip_thought_signature_validator"');
  });

  it.each([
    ["MALFORMED_FUNCTION_CALL", { code: "server_error", retryable: true }],
    ["SAFETY", { code: "refused", retryable: false }],
    ["blocked", { code: "refused", retryable: false }],
    ["no content", { code: "empty_answer", retryable: true }],
    ["STOP", { code: "empty_answer", retryable: true }],
  ])("that ends with %s and nothing said is a failure that says so (B80)", async (reason, failure) => {
    expect(failureOf(await answerTo("gemini", stream(stop(reason))))).toMatchObject(failure);
  });

  it("asks to wait in the body of its error, and says when a day's quota is used up (B68)", async () => {
    const error = (details: unknown) => ({ error: { code: 429, message: "quota", status: "RESOURCE_EXHAUSTED", details } });
    const soon = failureOf(await answerTo("gemini", httpJson(429, [error([{ "@type": "RetryInfo", retryDelay: "34.5s" }])])));
    expect(soon).toMatchObject({ code: "rate_limited", retryable: true, retryAfterMs: 34_500 });
    const day = failureOf(
      await answerTo("gemini", httpJson(429, error([{ violations: [{ quotaId: "RequestsPerDayPerProject" }] }]))),
    );
    expect(day).toMatchObject({ code: "quota", retryable: false });
  });
});
