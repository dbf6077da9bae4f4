import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  httpJson,
  type Step,
  stream,
  streamInPieces,
  text,
  thinking,
  toolCall,
} from "../../test/support/provider-server/answer.ts";
import { ask, failureOf, itemsOf, modelAt, requestOf, words } from "../../test/support/provider-server/ask-model.ts";
import { startProviderServer } from "../../test/support/provider-server/provider-server.ts";
import { sessionHistory } from "../../test/support/provider-server/session-history.ts";
import { AnthropicMemory } from "../../test/support/provider-server/wires/anthropic-memory.ts";
import { checkAnthropic } from "../../test/support/provider-server/wires/anthropic-rules.ts";
import type { ReasoningEffort } from "../protocol/session-config.ts";
import { normalizeBaseUrl, openAnthropicModel } from "./anthropic.ts";
import type { Item } from "./item.ts";

describe("an answer", () => {
  it("comes as deltas, complete items in order, and one finish", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(thinking("sig", "h", "m"), text("he", "llo"), toolCall("Bash", { command: "ls" }, "toolu_a")));
    expect(await ask(await modelAt(server))).toEqual([
      { type: "thinking_delta", text: "h" },
      { type: "thinking_delta", text: "m" },
      { type: "item", item: { kind: "reasoning", text: "hm", provider: { anthropic: { signature: "sig" } } } },
      { type: "text_delta", text: "he" },
      { type: "text_delta", text: "llo" },
      { type: "item", item: { kind: "message", text: "hello" } },
      { type: "tool_call_delta", callId: "toolu_a", name: "Bash", arguments: "" },
      { type: "tool_call_delta", callId: "toolu_a", name: "Bash", arguments: '{"command":"ls"}' },
      { type: "item", item: { kind: "tool_call", callId: "toolu_a", name: "Bash", arguments: '{"command":"ls"}' } },
      { type: "finish", stop: "tool_calls", usage: { input: 10, output: 7, cache_read: 3, cache_write: 2 } },
    ]);
  });

  it("is the same whatever pieces it comes in (B78)", async () => {
    await using server = await startProviderServer();
    const steps = [
      thinking("sig", "日本語 👩‍👩‍👧 é"),
      text("日本語 👩‍👩‍👧 é"),
      toolCall("Write", { content: "日本語 👩‍👩‍👧 é" }, "toolu_a"),
    ];
    server.enqueue(stream(...steps), streamInPieces(1, ...steps), streamInPieces(3, ...steps));
    const model = await modelAt(server);
    const whole = await ask(model);
    expect(itemsOf(whole)[1]).toEqual({ kind: "message", text: "日本語 👩‍👩‍👧 é" });
    expect(await ask(model)).toEqual(whole);
    expect(await ask(model)).toEqual(whole);
  });

  it("gives its calls also when it says that it ended its turn (B73)", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(toolCall("Bash", {}, "toolu_a"), { kind: "stop", reason: "end_turn" }));
    const events = await ask(await modelAt(server));
    expect(itemsOf(events)).toEqual([{ kind: "tool_call", callId: "toolu_a", name: "Bash", arguments: "{}" }]);
    expect(events.at(-1)).toMatchObject({ type: "finish", stop: "end" });
  });

  const cut = '{"path":"a","content":"abc';
  it.each<[string, Step]>([
    ["an ended block", { kind: "tool_call", id: "toolu_a", name: "Write", chunks: [cut] }],
    ["an open block", { kind: "open_tool_call", id: "toolu_a", name: "Write", chunks: [cut] }],
  ])(
    "that ran into the output limit keeps cut arguments as they are, in %s; they go back as an object (B74)",
    async (_name, step) => {
      await using server = await startProviderServer();
      server.enqueue(stream(step, { kind: "stop", reason: "max_tokens" }), stream(text("ok")));
      const model = await modelAt(server);
      const events = await ask(model);
      const call = { kind: "tool_call", callId: "toolu_a", name: "Write", arguments: cut } as const;
      expect(itemsOf(events)).toEqual([call]);
      expect(events.at(-1)).toMatchObject({ type: "finish", stop: "max_tokens" });
      const result: Item = {
        kind: "tool_result",
        callId: "toolu_a",
        name: "Write",
        summary: "arguments were cut",
        isError: true,
      };
      await ask(model, { items: [words("hi"), call, result] });
      expect(server.requests[1]?.text).toContain('{"type":"tool_use","id":"toolu_a","name":"Write","input":{}}');
    },
  );

  it("that is a refusal says so, and one without content is a finish without items (B80)", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream({ kind: "stop", reason: "refusal" }), stream({ kind: "stop", reason: "end_turn" }));
    const model = await modelAt(server);
    const usage = { input: 10, output: 7, cache_read: 3, cache_write: 2 };
    expect(await ask(model)).toEqual([{ type: "finish", stop: "refusal", usage }]);
    expect(await ask(model)).toEqual([{ type: "finish", stop: "end", usage }]);
  });

  it("goes on past events, blocks and deltas of kinds that do not exist yet", async () => {
    await using server = await startProviderServer();
    const event = (value: object): Step => ({ kind: "event", json: JSON.stringify(value) });
    server.enqueue(
      stream(
        text("a"),
        event({ type: "weather", sky: "blue" }),
        event({ type: "content_block_start", index: 7, content_block: { type: "song" } }),
        event({ type: "content_block_delta", index: 7, delta: { type: "note_delta", note: "c" } }),
        event({ type: "content_block_stop", index: 7 }),
        { kind: "raw", text: ": a comment\n\n" },
        { kind: "ping" },
        { kind: "stop", reason: "end_turn" },
      ),
    );
    expect(itemsOf(await ask(await modelAt(server)))).toEqual([{ kind: "message", text: "a" }]);
  });

  it("never has two calls of one id, nor one without", async () => {
    await using server = await startProviderServer();
    server.enqueue(stream(...["a", "a", "", ""].map((id) => toolCall("Bash", {}, id))));
    const calls = itemsOf(await ask(await modelAt(server)));
    expect(calls.map((call) => (call.kind === "tool_call" ? call.callId : ""))).toEqual(["a", "a_2", "call", "call_2"]);
  });
});

describe("the gate (I1)", () => {
  it("sees the exact bytes once, before anything is sent", async () => {
    await using server = await startProviderServer({ answer: () => stream(text("ok")) });
    const bodies: Uint8Array[] = [];
    const opened = Promise.withResolvers<void>();
    const model = await modelAt(server);
    const passing = Promise.withResolvers<void>();
    const answer = ask(model, {
      beforeSend: (body) => {
        bodies.push(body);
        passing.resolve();
        return opened.promise;
      },
    });
    await passing.promise;
    expect(server.requests).toHaveLength(0);
    opened.resolve();
    await answer;
    expect(bodies).toHaveLength(1);
    expect(Buffer.from(bodies[0] ?? []).equals(server.requests[0]?.bytes ?? new Uint8Array())).toBe(true);
  });

  it.each([
    ["rejects", () => Promise.reject(new Error("disk full"))],
    [
      "throws",
      () => {
        throw new Error("disk full");
      },
    ],
  ])("that %s ends the stream with its own error, and nothing is sent", async (_name, beforeSend) => {
    await using server = await startProviderServer();
    const model = await modelAt(server);
    const failing = new Error("disk full");
    await expect(ask(model, { beforeSend })).rejects.toThrow(failing);
    expect(server.requests).toHaveLength(0);
  });

  it("gives its error also when the request was cancelled meanwhile, and lets nothing out when it passes after that", async () => {
    await using server = await startProviderServer();
    const model = await modelAt(server);
    for (const outcome of ["fails", "passes"]) {
      const controller = new AbortController();
      const gate = Promise.withResolvers<void>();
      const answer = ask(model, {
        signal: controller.signal,
        beforeSend: () => {
          controller.abort();
          return gate.promise;
        },
      });
      if (outcome === "fails") {
        gate.reject(new Error("disk full"));
        await expect(answer).rejects.toThrow("disk full");
      } else {
        gate.resolve();
        expect(failureOf(await answer).code).toBe("cancelled");
      }
    }
    expect(server.requests).toHaveLength(0);
  });

  it("is not asked when the request was cancelled before", async () => {
    await using server = await startProviderServer();
    const beforeSend = () => Promise.reject(new Error("asked"));
    const model = await modelAt(server);
    expect(failureOf(await ask(model, { signal: AbortSignal.abort(), beforeSend })).code).toBe("cancelled");
  });
});

describe("a request", () => {
  it("has cache marks that never move, the table's max_tokens and plain tools", async () => {
    await using server = await startProviderServer({ answer: () => stream(text("ok")) });
    const model = await modelAt(server);
    await ask(model);
    expect(server.requests[0]?.body).toEqual({
      model: "claude-opus-5",
      max_tokens: 128_000,
      stream: true,
      cache_control: { type: "ephemeral" },
      system: [{ type: "text", text: "You are a test.", cache_control: { type: "ephemeral" } }],
      messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }],
      tools: [
        {
          name: "Bash",
          description: "Runs a command.",
          input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
        },
      ],
    });
  });

  it.each<[string, ReasoningEffort, object]>([
    ["claude-opus-5", "high", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }],
    ["claude-opus-5", "minimal", { thinking: { type: "adaptive" }, output_config: { effort: "low" } }],
    ["claude-opus-5", "none", { thinking: { type: "disabled" } }],
    ["claude-opus-4-6", "xhigh", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }],
    ["claude-sonnet-4-5", "low", { thinking: { type: "enabled", budget_tokens: 6400 }, max_tokens: 64_000 }],
    ["claude-haiku-4-5", "xhigh", { thinking: { type: "enabled", budget_tokens: 57_600 }, max_tokens: 64_000 }],
    ["claude-3-5-haiku-latest", "high", { max_tokens: 8192 }],
    ["something-else", "high", { max_tokens: 8192 }],
  ])("of %s with reasoning %s is one its server takes", async (modelId, reasoning, expected) => {
    await using server = await startProviderServer({ answer: () => stream(text("ok")) });
    const model = await modelAt(server, modelId);
    await ask(model, { settings: { reasoning } });
    expect(server.requests[0]?.body).toMatchObject(expected);
  });

  it("is rendered without being sent, with the same bytes", async () => {
    await using server = await startProviderServer({ answer: () => stream(text("ok")) });
    const model = await modelAt(server);
    const { prompt, settings } = requestOf({ settings: { reasoning: "high", maxOutputTokens: 999 } });
    const rendered = await model.renderBody(prompt, settings);
    expect(server.requests).toHaveLength(0);
    await ask(model, { settings });
    expect(Buffer.from(rendered).equals(server.requests[0]?.bytes ?? new Uint8Array())).toBe(true);
    expect(new TextDecoder().decode(rendered)).toContain('"max_tokens":999');
  });

  it.each([["https://h"], ["https://h/"], ["https://h/v1"], ["https://h/v1//"], [" https://h/v1/ "]])(
    "goes to the right path for the base URL %j",
    (baseUrl) => {
      expect(normalizeBaseUrl(baseUrl)).toBe("https://h/v1");
    },
  );

  it("names its adapter with the version that made the bytes (audit)", () => {
    expect(openAnthropicModel("m", { apiKey: "k" }).adapter).toMatch(/^@ai-sdk\/anthropic@4\.0\.105$/);
  });
});

describe("any history a session can hold", () => {
  it.each([
    ["in place", "claude-opus-5"],
    ["as tagged blocks", "claude-sonnet-4-5"],
  ])("makes requests that a strict server takes, with operator items %s (B42, B44, B52)", async (_name, modelId) => {
    const model = openAnthropicModel(modelId, { apiKey: "k" });
    let inPlace = 0;
    await fc.assert(
      fc.asyncProperty(sessionHistory(), async ({ items, requestAt }) => {
        for (const length of requestAt) {
          const prompt = { system: "S", tools: [], items: items.slice(0, length) };
          const json = new TextDecoder().decode(await model.renderBody(prompt, { reasoning: "default" }));
          expect(json.isWellFormed() && !/\\ud[89a-f]/i.test(json)).toBe(true);
          expect(checkAnthropic(JSON.parse(json), HEADERS, memoryOf(items))).toEqual([]);
          if (json.includes('"role":"system"')) inPlace += 1;
        }
      }),
      { numRuns: 60 },
    );
    expect(inPlace > 0).toBe(model.capabilities.systemInPlace);
  });
});

// As the adapter sends them; the beta only where it sends it, which the tests over the server look at.
const HEADERS = {
  "anthropic-version": "2023-06-01",
  "x-api-key": "k",
  "content-type": "application/json",
  "anthropic-beta": "mid-conversation-system-2026-04-07",
};

function memoryOf(items: readonly Item[]): AnthropicMemory {
  const memory = new AnthropicMemory();
  for (const item of items) {
    if (item.kind !== "reasoning") continue;
    const { signature, redactedData } = item.provider?.["anthropic"] ?? {};
    if (typeof signature === "string") memory.thinking.set(signature, item.text);
    if (typeof redactedData === "string") memory.redacted.add(redactedData);
  }
  return memory;
}

describe("operator items on the wire", () => {
  it("have the role of the system, with the header it takes, where the model takes them (N14)", async () => {
    await using server = await startProviderServer({ answer: () => stream(text("ok")) });
    const common = { id: "i", origin: { by: "process" }, chain: { id: "c", hops: 0 }, wake: true } as const;
    const payload = { topic: "turn_failed", text: "It failed." };
    const reminder: Item = {
      kind: "system",
      item: { ...common, kind: "reminder", trust: "operator", payload, body: "It failed." },
    };
    await ask(await modelAt(server), { items: [words("hi"), reminder] });
    await ask(await modelAt(server, "claude-sonnet-4-5"), { items: [words("hi"), reminder] });
    expect(server.requests[0]?.text).toContain('{"role":"system","content":[{"type":"text","text":"It failed."}]}');
    expect(server.requests[0]?.headers["anthropic-beta"]).toContain("mid-conversation-system");
    expect(server.requests[1]?.text).not.toContain('"role":"system"');
    expect(server.requests[1]?.text).toContain('trust=\\"operator\\">\\nIt failed.');
    expect(server.requests[1]?.headers["anthropic-beta"] ?? "").not.toContain("mid-conversation-system");
  });
});

describe("the strict server", () => {
  it("refuses a broken request in the provider's own way, and remembers", async () => {
    await using server = await startProviderServer({ expectsViolations: true });
    const said: Item = { kind: "message", text: "x" };
    const failure = failureOf(await ask(await modelAt(server), { items: [words("hi"), said] }));
    expect(failure).toMatchObject({ code: "invalid_request", retryable: false, status: 400 });
    expect(failure.message).toContain("the last message is not the user's");
    expect(server.violations).toEqual([expect.stringContaining("R1 last:")]);
    server.enqueue(httpJson(200, {}));
  });

  it("throws at its end for a broken request nobody expected", async () => {
    const server = await startProviderServer();
    await ask(await modelAt(server), { items: [{ kind: "message", text: "x" }] });
    await expect(server[Symbol.asyncDispose]()).rejects.toThrow("R1 last:");
  });
});
