import { expect, it } from "vitest";
import { MODELS, openAt, type WireName } from "../../test/support/provider-server/ask-model.ts";
import { startProviderServer } from "../../test/support/provider-server/provider-server.ts";
import type { Item } from "./item.ts";

const common = { id: "item", origin: { by: "process" }, chain: { id: "chain", hops: 0 }, wake: true } as const;
const notification: Item = {
  kind: "system",
  item: { ...common, kind: "notification", trust: "external", payload: { source: "ci", message: "m" }, body: "From ci: <b>" },
};
const ofPod: Item = {
  kind: "system",
  item: { ...common, kind: "notification", trust: "pod", payload: { source: "child", message: "m" }, body: "I am done." },
};
const reminder: Item = {
  kind: "system",
  item: { ...common, kind: "reminder", trust: "operator", payload: { topic: "t", text: "Mind the gap." }, body: "Mind the gap." },
};
const thought = (provider: string, proof: Readonly<Record<string, unknown>>): Item => ({
  kind: "reasoning",
  text: `${provider} thinks`,
  provider: { [provider]: proof },
});
const called = (callId: string, args: string): Item => ({ kind: "tool_call", callId, name: "Bash", arguments: args });
const result = (callId: string, content: string, isError: boolean): Item => ({
  kind: "tool_result",
  callId,
  name: "Bash",
  summary: "one line",
  content,
  isError,
});

/** Every kind of item with every trust, and reasoning of every provider. */
const ITEMS: readonly Item[] = [
  notification,
  { kind: "user", id: "u", content: ["Hello", "pasted"].map((text) => ({ kind: "text", text })) },
  ofPod,
  reminder,
  thought("anthropic", { signature: "sig" }),
  thought("openai", { itemId: "rs_1", reasoningEncryptedContent: "enc" }),
  thought("google", { thoughtSignature: "ts" }),
  { kind: "message", text: "I look." },
  called("toolu_1", '{"command":"ls"}'),
  called("functions.Bash:0", '{"command":"l'),
  result("toolu_1", "a.txt", false),
  result("functions.Bash:0", "arguments were cut", true),
  notification,
  { kind: "message", text: "Done." },
  { kind: "user", id: "v", content: [{ kind: "text", text: "Go on" }] },
];

const tool = { name: "Bash", description: "Runs.", inputSchema: { type: "object", properties: { command: { type: "string" } } } };
const block = (kind: string, trust: string, body: string) =>
  `<system_item kind="${kind}" trust="${trust}">\n${body}\n</system_item>`;
const CI = block("notification", "external", "From ci: <b>");
const CHILD = block("notification", "pod", "I am done.");
const MIND = block("reminder", "operator", "Mind the gap.");

const typed = (type: string, ...texts: readonly string[]) => texts.map((text) => ({ type, text }));
const parts = (...texts: readonly string[]) => texts.map((text) => ({ text }));

const GOLDEN: Readonly<Record<WireName, unknown>> = {
  messages: {
    model: "claude-sonnet-4-5",
    max_tokens: 64_000,
    stream: true,
    cache_control: { type: "ephemeral" },
    system: [{ type: "text", text: "You are a test.", cache_control: { type: "ephemeral" } }],
    messages: [
      { role: "user", content: typed("text", CI, "Hello", "pasted", CHILD, MIND) },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "anthropic thinks", signature: "sig" },
          { type: "text", text: "I look." },
          { type: "tool_use", id: "toolu_1", name: "Bash", input: { command: "ls" } },
          { type: "tool_use", id: "functions_Bash_0", name: "Bash", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "toolu_1", content: "a.txt" },
          { type: "tool_result", tool_use_id: "functions_Bash_0", content: "arguments were cut", is_error: true },
          { type: "text", text: CI },
        ],
      },
      { role: "assistant", content: typed("text", "Done.") },
      { role: "user", content: typed("text", "Go on") },
    ],
    tools: [{ name: "Bash", description: "Runs.", input_schema: tool.inputSchema }],
  },
  responses: {
    model: "gpt-5.5",
    stream: true,
    store: false,
    include: ["reasoning.encrypted_content"],
    input: [
      { role: "developer", content: "You are a test." },
      { role: "user", content: typed("input_text", CI, "Hello", "pasted", CHILD) },
      { role: "developer", content: "Mind the gap." },
      {
        type: "reasoning",
        id: "rs_1",
        encrypted_content: "enc",
        summary: [{ type: "summary_text", text: "openai thinks" }],
      },
      { role: "assistant", content: "I look." },
      { type: "function_call", call_id: "toolu_1", name: "Bash", arguments: '{"command":"ls"}' },
      { type: "function_call", call_id: "functions_Bash_0", name: "Bash", arguments: "{}" },
      { type: "function_call_output", call_id: "toolu_1", output: "a.txt" },
      { type: "function_call_output", call_id: "functions_Bash_0", output: '{"error":"arguments were cut"}' },
      { role: "user", content: typed("input_text", CI) },
      { role: "assistant", content: "Done." },
      { role: "user", content: typed("input_text", "Go on") },
    ],
    tools: [{ type: "function", name: "Bash", description: "Runs.", parameters: tool.inputSchema, strict: false }],
  },
  chat: {
    model: "some-model",
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      { role: "system", content: "You are a test." },
      { role: "user", content: [CI, "Hello", "pasted", CHILD, MIND].join("\n\n") },
      {
        role: "assistant",
        content: "I look.",
        tool_calls: [
          { id: "toolu_1", type: "function", function: { name: "Bash", arguments: '{"command":"ls"}' } },
          { id: "functions_Bash_0", type: "function", function: { name: "Bash", arguments: "{}" } },
        ],
      },
      { role: "tool", tool_call_id: "toolu_1", content: "a.txt" },
      { role: "tool", tool_call_id: "functions_Bash_0", content: "arguments were cut" },
      { role: "user", content: CI },
      { role: "assistant", content: "Done." },
      { role: "user", content: "Go on" },
    ],
    tools: [{ type: "function", function: { name: "Bash", description: "Runs.", parameters: tool.inputSchema } }],
  },
  gemini: {
    generationConfig: { thinkingConfig: { includeThoughts: true } },
    systemInstruction: { parts: parts("You are a test.") },
    contents: [
      { role: "user", parts: parts(CI, "Hello", "pasted", CHILD, MIND) },
      {
        role: "model",
        parts: [
          { text: "google thinks", thought: true, thoughtSignature: "ts" },
          { text: "I look." },
          {
            functionCall: { id: "toolu_1", name: "Bash", args: { command: "ls" } },
            thoughtSignature: "skip_thought_signature_validator",
          },
          {
            functionCall: { id: "functions_Bash_0", name: "Bash", args: {} },
            thoughtSignature: "skip_thought_signature_validator",
          },
        ],
      },
      {
        role: "user",
        parts: [
          { functionResponse: { id: "toolu_1", name: "Bash", response: { name: "Bash", content: "a.txt" } } },
          { functionResponse: { id: "functions_Bash_0", name: "Bash", response: { name: "Bash", error: "arguments were cut" } } },
        ],
      },
      { role: "user", parts: parts(CI) },
      { role: "model", parts: parts("Done.") },
      { role: "user", parts: parts("Go on") },
    ],
    tools: [{ functionDeclarations: [{ name: "Bash", description: "Runs.", parametersJsonSchema: tool.inputSchema }] }],
  },
};

it.each(["messages", "responses", "chat", "gemini"] as const)(
  "a history with every kind of item is exactly this request: %s (N14, B42, B46, B51, B52)",
  async (wire) => {
    await using server = await startProviderServer();
    const model = await openAt(server, MODELS[wire]);
    const prompt = { system: "You are a test.", tools: [tool], items: ITEMS };
    const body: unknown = JSON.parse(new TextDecoder().decode(await model.renderBody(prompt, { reasoning: "default" })));
    expect(body).toEqual(GOLDEN[wire]);
  },
);

it("strict servers of Chat Completions get an answer of ours between results and what the user's side says next (B44)", async () => {
  await using server = await startProviderServer();
  const model = await openAt(server, "strict/some-model", { systemInPlace: true });
  const prompt = { system: "You are a test.", tools: [], items: ITEMS };
  const body = JSON.parse(new TextDecoder().decode(await model.renderBody(prompt, { reasoning: "default" })));
  const roles = body.messages.map((message: { role: string }) => message.role);
  expect(roles).toEqual(["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "user"]);
});

it("a chat server that takes the system in place gets operator items so, and nobody else's (N14)", async () => {
  await using server = await startProviderServer();
  const model = await openAt(server, MODELS.chat, { systemInPlace: true });
  const prompt = { system: "You are a test.", tools: [], items: ITEMS };
  const body = JSON.parse(new TextDecoder().decode(await model.renderBody(prompt, { reasoning: "default" })));
  expect(body.messages.slice(1, 3)).toEqual([
    { role: "user", content: [CI, "Hello", "pasted", CHILD].join("\n\n") },
    { role: "system", content: "Mind the gap." },
  ]);
});

it.each([
  ["openai/gpt-5.5", "high", { reasoning: { effort: "high" } }],
  ["openai/gpt-5.5", "minimal", { reasoning: { effort: "low" } }],
  ["openai/gpt-5", "xhigh", { reasoning: { effort: "high" } }],
  ["openai/gpt-4.1", "high", { reasoning: undefined, include: undefined }],
  ["openai/something-else", "high", { reasoning: undefined }],
  ["local/m", "high", { reasoning_effort: undefined }],
  ["google/gemini-3.5-flash", "high", { generationConfig: { thinkingConfig: { thinkingLevel: "high" } } }],
  ["google/gemini-2.5-flash", "none", { generationConfig: { thinkingConfig: { thinkingBudget: 0 } } }],
  ["google/gemini-2.5-pro", "low", { generationConfig: { thinkingConfig: { thinkingBudget: 6554 } } }],
  ["google/gemini-2.0-flash", "high", { generationConfig: {} }],
] as const)("the request of %s with reasoning %s says what its server takes", async (ref, reasoning, expected) => {
  await using server = await startProviderServer();
  const model = await openAt(server, ref);
  const prompt = { system: "S", tools: [], items: ITEMS };
  const body: Record<string, unknown> = JSON.parse(new TextDecoder().decode(await model.renderBody(prompt, { reasoning })));
  const found = Object.fromEntries(Object.keys(expected).map((key) => [key, body[key]]));
  expect(found).toMatchObject(expected);
});

it("settings of a named provider correct what is guessed of it, and show in the name of the adapter (audit)", async () => {
  await using server = await startProviderServer();
  const local = { reasoning: true, maxOutputTokens: 500, contextWindow: 9000 };
  const model = await openAt(server, MODELS.chat, local);
  expect(model.capabilities).toEqual({ systemInPlace: false, contextWindow: 9000, maxOutputTokens: 500, reasoning: true });
  expect(model.adapter).toBe("@ai-sdk/openai-compatible@3.0.92 (reasoning=true, max_output_tokens=500)");
  const prompt = { system: "S", tools: [], items: ITEMS };
  const body: unknown = JSON.parse(new TextDecoder().decode(await model.renderBody(prompt, { reasoning: "high" })));
  expect(body).toMatchObject({ reasoning_effort: "high", max_tokens: 500 });
  expect((await openAt(server, MODELS.responses)).adapter).toBe("@ai-sdk/openai@4.0.118");
  expect((await openAt(server, MODELS.gemini)).adapter).toBe("@ai-sdk/google@4.0.121");
});
