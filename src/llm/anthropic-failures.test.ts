import * as net from "node:net";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  type HttpAnswer,
  httpJson,
  type Step,
  stream,
  text,
  thinking,
} from "../../test/support/provider-server/answer.ts";
import { ask, failureOf, itemsOf, modelAt, requestOf } from "../../test/support/provider-server/ask-model.ts";
import { startProviderServer } from "../../test/support/provider-server/provider-server.ts";
import { AppError } from "../base/errors.ts";
import type { ModelEvent, ModelFailure, ModelFailureCode } from "./model.ts";
import { openModel } from "./open-model.ts";

async function failureTo(answer: Answer): Promise<ModelFailure> {
  await using server = await startProviderServer();
  server.enqueue(answer);
  return failureOf(await ask(await modelAt(server)));
}

const error = (type: string, message: string) => ({ type: "error", error: { type, message } });
const page = (status: number, body: string): HttpAnswer => ({
  kind: "http",
  status,
  headers: { "content-type": "text/html" },
  body,
});

describe("an HTTP error", () => {
  it.each<[number, object, ModelFailureCode, boolean]>([
    [529, error("overloaded_error", "Overloaded"), "overloaded", true],
    [429, error("rate_limit_error", "Slow down"), "rate_limited", true],
    [500, error("api_error", "Oops"), "server_error", true],
    [503, error("overloaded_error", "Overloaded"), "overloaded", true],
    [504, error("timeout_error", "Too slow"), "timeout", true],
    [408, {}, "timeout", true],
    [401, error("authentication_error", "invalid x-api-key"), "authentication", false],
    [403, error("permission_error", "not yours"), "authentication", false],
    [404, error("not_found_error", "model: x"), "not_found", false],
    [413, error("request_too_large", "too big"), "too_large", false],
    [400, error("invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"), "context_too_long", false],
    [
      400,
      error("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000"),
      "context_too_long",
      false,
    ],
    [400, error("invalid_request_error", "Your credit balance is too low"), "quota", false],
    [402, error("billing_error", "pay"), "quota", false],
    [400, error("invalid_request_error", "messages.1: bad"), "invalid_request", false],
    [422, { message: "unprocessable" }, "invalid_request", false],
  ])("%i %j is %s, retryable: %s", async (status, body, code, retryable) => {
    expect(await failureTo(httpJson(status, body))).toMatchObject({ code, retryable, status });
  });

  it("says what was asked, by whom, and in the server's words", async () => {
    const failure = await failureTo(httpJson(529, error("overloaded_error", "Overloaded")));
    expect(failure.message).toMatch(/^http:\/\/127\.0\.0\.1:\d+ answered 529 \(overloaded_error\): Overloaded$/);
  });

  it("of a gateway is quoted without its mark-up and cut", async () => {
    const failure = await failureTo(page(502, `<style>a{}</style><h1>Bad\n Gateway</h1>${"x".repeat(2000)}`));
    expect(failure).toMatchObject({ code: "server_error", retryable: true, status: 502 });
    expect(failure.message).toContain("Bad Gateway xxx");
    expect(failure.message.length).toBeLessThan(600);
  });

  it("without a body is named by its status", async () => {
    const failure = await failureTo({ kind: "http", status: 503, body: "" });
    expect(failure).toMatchObject({ code: "server_error", message: expect.stringContaining("503: Service Unavailable") });
  });

  it.each<[Record<string, string>, number | undefined]>([
    [{ "retry-after": "43200" }, 43_200_000],
    [{ "retry-after": "1.5" }, 1500],
    [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }, 0],
    [{}, undefined],
  ])("with the headers %j asks to wait %s ms (B68)", async (headers, retryAfterMs) => {
    const failure = await failureTo(httpJson(429, error("rate_limit_error", "later"), headers));
    expect(failure.retryAfterMs).toBe(retryAfterMs);
  });

  it("asks to wait until a date", async () => {
    const date = new Date(Date.now() + 60_000).toUTCString();
    const failure = await failureTo(httpJson(503, {}, { "retry-after": date }));
    expect(failure.retryAfterMs).toBeGreaterThan(50_000);
    expect(failure.retryAfterMs).toBeLessThanOrEqual(60_000);
  });

  it("that is a redirect is not followed: the key would go along", async () => {
    await using elsewhere = await startProviderServer();
    const failure = await failureTo({
      kind: "http",
      status: 307,
      headers: { location: `${elsewhere.baseUrl}/v1/messages` },
      body: "",
    });
    expect(failure).toMatchObject({ code: "invalid_request", message: expect.stringContaining(elsewhere.baseUrl) });
    expect(elsewhere.requests).toHaveLength(0);
  });
});

describe("an error within a stream (B67)", () => {
  const overloaded: Step = { kind: "error", type: "overloaded_error", message: "Overloaded, sorry" };
  it.each<[string, Answer]>([
    ["at once", stream(overloaded)],
    ["after some text", stream(text("half"), overloaded)],
    ["after a ping", stream({ kind: "ping" }, overloaded)],
    ["before a tidy end", stream(thinking("s", "x"), overloaded, { kind: "end" })],
  ])("%s is a failure to retry", async (_name, answer) => {
    const failure = await failureTo(answer);
    expect(failure).toMatchObject({ code: "overloaded", retryable: true, message: expect.stringContaining("Overloaded, sorry") });
  });

  it("that no request can get past is not retried", async () => {
    const failure = await failureTo(stream(text("a"), { kind: "error", type: "invalid_request_error", message: "no" }));
    expect(failure).toMatchObject({ code: "invalid_request", retryable: false });
  });

  it.each([
    '{"type":"error","error":"plain words"}',
    '{"type":"error","message":"plain words"}',
    '{"error":{"message":"plain words"}}',
  ])("is an error also in the form %s", async (json) => {
    const failure = await failureTo(stream(text("a"), { kind: "event", json }));
    expect(failure.message).toContain("plain words");
  });

  it("that is no JSON is a failure, not an answer with a hole", async () => {
    const failure = await failureTo(stream(text("a"), { kind: "raw", text: "data: {oops\n\n" }, text("b")));
    expect(failure).toMatchObject({ code: "server_error", message: expect.stringContaining("{oops") });
  });
});

describe("a 200 that is no answer (B67)", () => {
  it.each<[string, HttpAnswer, object]>([
    ["a login page", page(200, "<html><title>Log in</title></html>"), { retryable: false, message: /text\/html.*Log in/ }],
    [
      "an error as JSON",
      httpJson(200, error("overloaded_error", "busy")),
      { code: "overloaded", retryable: true, message: /busy/ },
    ],
    ["something as JSON", httpJson(200, { message: "welcome" }), { retryable: false, message: /welcome/ }],
    ["an empty body", { kind: "http", status: 200, body: "" }, { code: "empty_answer", retryable: true, message: /empty/ }],
    ["an empty JSON body", { ...httpJson(200, {}), body: "" }, { code: "empty_answer", message: /empty/ }],
    [
      "a page that calls itself a stream",
      { kind: "http", status: 200, headers: { "content-type": "text/event-stream" }, body: "<p>Please log in</p>" },
      { code: "stream_cut", message: /Please log in/ },
    ],
  ])("is a failure with its words: %s", async (_name, answer, { message, ...expected }: { message?: RegExp }) => {
    const failure = await failureTo(answer);
    expect(failure).toMatchObject(expected);
    expect(failure.message).toMatch(message ?? /never/);
  });
});

describe("an answer that is cut", () => {
  it.each<[string, Answer]>([
    ["a tidy end after half the text", stream({ kind: "open_text", chunks: ["ha", "lf"] }, { kind: "end" })],
    ["a tidy end after a whole block", stream(text("whole block"), { kind: "end" })],
    ["a tidy end in the middle of a call", stream({ kind: "open_tool_call", name: "Bash", chunks: ["{"] }, { kind: "end" })],
    ["a tidy end within thinking", stream({ kind: "thinking", chunks: ["hm"] }, { kind: "end" })],
    ["a last event without the one that says why", stream(text("a"), { kind: "event", json: '{"type":"message_stop"}' })],
    [
      "a last event in the middle of a block",
      stream({ kind: "open_text", chunks: ["half"] }, { kind: "stop", reason: "end_turn" }),
    ],
    ["a destroyed connection", stream(text("half"), { kind: "close" })],
  ])("by %s is a failure to retry (B64)", async (_name, answer) => {
    await using server = await startProviderServer();
    server.enqueue(answer);
    const events = await ask(await modelAt(server));
    expect(failureOf(events)).toMatchObject({ code: "stream_cut", retryable: true });
    expect(events.filter((event) => event.type === "finish")).toEqual([]);
  });

  it("gives no unsigned thinking as an item when it is cut before the signature (B48)", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream({ kind: "thinking", chunks: ["hm"] }, { kind: "close" }));
    expect(itemsOf(await ask(await modelAt(server)))).toEqual([]);
  });
});

describe("a provider that cannot be reached", () => {
  async function failureAt(url: string): Promise<ModelFailure> {
    const model = await openModel("anthropic/claude-opus-5", { env: { ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: url } });
    return failureOf(await ask(model));
  }

  it("is named with what is wrong: refused", async () => {
    const server = net.createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    await new Promise((resolve) => server.close(resolve));
    const failure = await failureAt(`http://user:secret@127.0.0.1:${port}/v1`);
    expect(failure).toMatchObject({ code: "connection", retryable: true });
    expect(failure.message).toContain(`cannot reach http://127.0.0.1:${port}: connect ECONNREFUSED`);
    expect(failure.message).not.toContain("secret");
  });

  it("is named with what is wrong: no such host", async () => {
    expect(await failureAt("http://nowhere.invalid")).toMatchObject({
      code: "connection",
      retryable: true,
      message: expect.stringMatching(/cannot reach http:\/\/nowhere\.invalid: getaddrinfo E\w+ nowhere\.invalid/),
    });
  });

  it("is named with what is wrong: hung up before it said anything", async () => {
    const failure = await failureTo(stream({ kind: "close" }));
    expect(failure).toMatchObject({ code: "connection", retryable: true, message: expect.stringContaining("socket hang up") });
  });
});

const emptyDelta = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}';
const silences: readonly [string, Answer][] = [
  [
    "only sends deltas without content",
    stream({ kind: "open_text", chunks: ["half"] }, ...forEver(emptyDelta), { kind: "stall" }),
  ],
  ["only sends events nobody knows", stream(text("half"), ...forEver('{"type":"heartbeat"}'), { kind: "stall" })],
  ["never answers", stream({ kind: "stall" })],
  ["sends the head and nothing more", stream({ kind: "headers" }, { kind: "stall" })],
  ["only pings from the start", stream({ kind: "ping_forever", everyMs: 5 })],
  ["only pings in the middle", stream({ kind: "open_text", chunks: ["half"] }, { kind: "ping_forever", everyMs: 5 })],
  [
    "only sends comments",
    stream({ kind: "open_text", chunks: ["half"] }, { kind: "drip", text: ":\n".repeat(10_000), everyMs: 5 }),
  ],
  ["drips bytes that never become an event", stream(text("half"), { kind: "drip", text: "x".repeat(10_000), everyMs: 5 })],
];

function forEver(json: string): Step[] {
  return Array.from({ length: 4000 }, (): Step[] => [
    { kind: "event", json },
    { kind: "pause", ms: 5 },
  ]).flat();
}

describe("a provider that is silent (B71)", () => {
  it.each(silences)("fails in time when it %s", async (_name, answer) => {
    await using server = await startProviderServer();
    server.enqueue(answer);
    const startedAt = performance.now();
    const failure = failureOf(await ask(await modelAt(server), { idleTimeoutMs: 150 }));
    const tookMs = performance.now() - startedAt;
    expect(failure).toMatchObject({ code: "timeout", retryable: true, message: expect.stringContaining("silent") });
    expect(tookMs).toBeGreaterThan(140);
    expect(tookMs).toBeLessThan(3000);
    await server.requests[0]?.closed;
  });

  it.each(silences)("is left within a moment on cancel when it %s", async (_name, answer) => {
    await using server = await startProviderServer();
    server.enqueue(answer);
    const controller = new AbortController();
    const answered = ask(await modelAt(server), { signal: controller.signal });
    const request = await server.nextRequest();
    await new Promise((resolve) => setTimeout(resolve, 20)); // some of its bytes may be on their way
    const cancelledAt = performance.now();
    controller.abort(new AppError("cancelled", "enough"));
    expect(failureOf(await answered)).toMatchObject({ code: "cancelled", retryable: false });
    expect(performance.now() - cancelledAt).toBeLessThan(500);
    await request.closed;
  });

  it("may be slow as long as it says something", async () => {
    await using server = await startProviderServer();
    const steps = Array.from({ length: 6 }, (_, n): Step[] => [{ kind: "pause", ms: 60 }, text(`${n}`)]).flat();
    server.enqueue(stream(...steps));
    expect((await ask(await modelAt(server), { idleTimeoutMs: 200 })).at(-1)).toMatchObject({ type: "finish" });
  });

  it("is not blamed for the time its listener took", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(text("a", "b", "c")));
    const events: ModelEvent[] = [];
    for await (const event of (await modelAt(server)).stream(requestOf({ idleTimeoutMs: 80 }))) {
      events.push(event);
      await new Promise((resolve) => setTimeout(resolve, 120));
    }
    expect(events.at(-1)).toMatchObject({ type: "finish" });
  });
});

describe("a listener that leaves", () => {
  it("closes the connection", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(text("a"), { kind: "stall" }));
    for await (const _event of (await modelAt(server)).stream(requestOf())) break;
    await server.requests[0]?.closed;
    expect(server.requests).toHaveLength(1);
  });
});
