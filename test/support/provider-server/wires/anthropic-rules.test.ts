import { describe, expect, it } from "vitest";
import { readStrictJson } from "../strict-json.ts";
import { AnthropicMemory } from "./anthropic-memory.ts";
import { checkAnthropic } from "./anthropic-rules.ts";

const HEADERS = { "anthropic-version": "2023-06-01", "x-api-key": "k", "content-type": "application/json" };
const WITH_BETA = { ...HEADERS, "anthropic-beta": "mid-conversation-system-2026-04-07" };

const user = (...content: unknown[]) => ({ role: "user", content });
const assistant = (...content: unknown[]) => ({ role: "assistant", content });
const system = (...content: unknown[]) => ({ role: "system", content });
const text = (value: string) => ({ type: "text", text: value });
const call = (id: string, name = "Bash") => ({ type: "tool_use", id, name, input: {} });
const result = (id: string, content: unknown = "done", more = {}) => ({ type: "tool_result", tool_use_id: id, content, ...more });
const thinking = (signature: string, value: string) => ({ type: "thinking", thinking: value, signature });
const mark = { cache_control: { type: "ephemeral" } };

function body(messages: readonly unknown[], more: Readonly<Record<string, unknown>> = {}) {
  return { model: "m", max_tokens: 2000, stream: true, messages, ...more };
}

function memory(): AnthropicMemory {
  const memory = new AnthropicMemory();
  for (const event of [
    { type: "message_start" },
    { type: "content_block_start", index: 0, content_block: { type: "thinking" } },
    { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "one " } },
    { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "two" } },
    { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "s1" } },
    { type: "content_block_stop", index: 0 },
    { type: "content_block_start", index: 1, content_block: { type: "redacted_thinking", data: "r1" } },
    { type: "content_block_stop", index: 1 },
    { type: "content_block_start", index: 2, content_block: { type: "tool_use", id: "known" } },
    { type: "content_block_stop", index: 2 },
  ]) {
    memory.note(JSON.stringify(event));
  }
  return memory;
}

const rulesOf = (sentences: readonly string[]) => [...new Set(sentences.map((sentence) => sentence.split(":")[0]))];
const check = (value: unknown, headers: Record<string, string> = HEADERS) => checkAnthropic(value, headers, memory());

describe("the rules of the Anthropic wire", () => {
  const hi = user(text("hi"));
  const accepted: readonly [string, unknown, Record<string, string>?][] = [
    ["one user message", body([hi])],
    ["a text in place of blocks", body([{ role: "user", content: "hi" }])],
    ["neighbouring user messages", body([hi, hi])],
    [
      "a batch with its results, then text",
      body([hi, assistant(call("a"), call("b")), user(result("b"), result("a"), text("x"))]),
    ],
    ["results and text in neighbouring messages", body([hi, assistant(call("a")), user(result("a")), user(text("x"))])],
    ["an empty result", body([hi, assistant(call("a")), user(result("a", ""))])],
    ["signed thinking as it was said", body([hi, assistant(thinking("s1", "one two"), text("x")), hi])],
    [
      "a call with the thinking before it",
      body([
        hi,
        assistant(thinking("s1", "one two"), { type: "redacted_thinking", data: "r1" }, call("known")),
        user(result("known")),
      ]),
    ],
    ["a system message at the end", body([hi, system(text("x"))]), WITH_BETA],
    ["a system message before an answer", body([hi, system(text("x")), assistant(text("y")), hi]), WITH_BETA],
    [
      "four cache marks",
      body([user({ ...text("a"), ...mark }, { ...text("b"), ...mark })], { ...mark, system: [{ ...text("s"), ...mark }] }),
    ],
    ["tools", body([hi], { tools: [{ name: "Bash", input_schema: { type: "object" } }] })],
    ["a thinking budget below max_tokens", body([hi], { thinking: { type: "enabled", budget_tokens: 1024 } })],
    ["an authorization in place of a key", body([hi]), { ...HEADERS, "x-api-key": "", authorization: "Bearer x" }],
  ];
  it.each(accepted)("accept %s", (_name, value, headers) => {
    expect(check(value, headers)).toEqual([]);
  });

  const refused: readonly [string, string, unknown, Record<string, string>?][] = [
    ["shape", "no messages", body([])],
    ["shape", "a field nobody knows", body([hi], { temprature: 1 })],
    ["shape", "an answer that is not streamed", body([hi], { stream: false })],
    ["shape", "arguments that are no object", body([hi, assistant({ ...call("a"), input: [] }), user(result("a"))])],
    ["shape", "a block of an unknown type", body([user({ type: "song" })])],
    ["shape", "a tool whose schema is no object", body([hi], { tools: [{ name: "Bash", input_schema: { type: "array" } }] })],
    ["version", "no version", body([hi]), { "x-api-key": "k", "content-type": "application/json" }],
    ["key", "no key", body([hi]), { "anthropic-version": "1", "content-type": "application/json" }],
    ["content-type", "another content type", body([hi]), { ...HEADERS, "content-type": "text/plain" }],
    ["tool-name", "a bad tool name", body([hi], { tools: [{ name: "Ba sh", input_schema: { type: "object" } }] })],
    [
      "tool-name",
      "two tools of one name",
      body([hi], { tools: [1, 2].map(() => ({ name: "Bash", input_schema: { type: "object" } })) }),
    ],
    ["tool-name", "a call without a name", body([hi, assistant(call("a", "")), user(result("a"))])],
    ["tool-name", "a call of a long name", body([hi, assistant(call("a", "x".repeat(65))), user(result("a"))])],
    ["thinking-budget", "a budget above max_tokens", body([hi], { thinking: { type: "enabled", budget_tokens: 2000 } })],
    ["cache-marks", "five cache marks", body([user(...Array.from({ length: 5 }, () => ({ ...text("a"), ...mark })))])],
    ["cache-marks", "a mark on an empty block", body([hi, assistant(call("a")), user(result("a", "", mark))])],
    ["blank-text", "an empty text", body([user(text(""))])],
    ["blank-text", "a blank text", body([user(text("x"), text(" \n"))])],
    ["blank-text", "a blank system prompt", body([hi], { system: [text(" ")] })],
    ["blank-text", "an error without a word", body([hi, assistant(call("a")), user(result("a", "", { is_error: true }))])],
    ["blank-text", "a message without blocks", body([user()])],
    ["first", "an assistant first", body([assistant(text("x")), hi])],
    ["last", "an assistant last", body([hi, assistant(text("x"))])],
    ["system-place", "a system message first", body([system(text("x")), hi]), WITH_BETA],
    ["system-place", "a system message behind an answer", body([hi, assistant(text("x")), system(text("x")), hi]), WITH_BETA],
    ["system-place", "a system message before a user message", body([hi, system(text("x")), hi]), WITH_BETA],
    ["system-place", "two system messages", body([hi, system(text("x")), system(text("y"))]), WITH_BETA],
    ["system-beta", "a system message without its header", body([hi, system(text("x"))])],
    ["tool-id", "an id of other characters", body([hi, assistant(call("a:0")), user(result("a:0"))])],
    ["tool-id", "an empty id", body([hi, assistant(call("")), user(result(""))])],
    [
      "tool-id",
      "an id that comes twice",
      body([hi, assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))]),
    ],
    ["tool-result", "an unanswered call", body([hi, assistant(call("a")), hi])],
    ["tool-result", "a call answered twice", body([hi, assistant(call("a")), user(result("a"), result("a"))])],
    ["tool-result", "an answer nobody asked for", body([user(result("a"))])],
    ["tool-result", "text before a result", body([hi, assistant(call("a")), user(text("x"), result("a"))])],
    [
      "tool-result",
      "a system message before the results",
      body([hi, assistant(call("a")), system(text("x")), user(result("a"))]),
      WITH_BETA,
    ],
    ["tool-use", "a user who calls", body([user(call("a")), assistant(text("x")), hi])],
    ["thinking", "thinking without a signature", body([hi, assistant(thinking("", "x"), text("x")), hi])],
    ["thinking", "thinking with a changed text", body([hi, assistant(thinking("s1", "one two "), text("x")), hi])],
    ["thinking", "a signature of somebody else", body([hi, assistant(thinking("s2", "x"), text("x")), hi])],
    ["thinking", "thinking behind a text", body([hi, assistant(text("x"), thinking("s1", "one two"), text("y")), hi])],
    ["thinking", "thinking at the end", body([hi, assistant(thinking("s1", "one two")), hi])],
    [
      "thinking",
      "redacted thinking of somebody else",
      body([hi, assistant({ type: "redacted_thinking", data: "r" }, text("x")), hi]),
    ],
    ["thinking", "a call that lost its thinking", body([hi, assistant(call("known")), user(result("known"))])],
  ];
  it.each(refused)("%s refuses %s", (rule, _name, value, headers) => {
    expect(rulesOf(check(value, headers))).toContain(rule);
  });
});

describe("reading a body", () => {
  it("takes characters beyond the basic plane, however they are written", () => {
    expect(readStrictJson(Buffer.from('{"a":"😀 \\ud83d\\ude00"}'))).toEqual({ value: { a: "😀 😀" } });
  });

  it.each([
    ["half a surrogate pair in a text", '{"a":["\\ud83d"]}'],
    ["half a surrogate pair in a key", '{"\\ude00":1}'],
    ["no JSON", "{"],
  ])("refuses %s", (_name, json) => {
    expect(readStrictJson(Buffer.from(json)).problem).toBeDefined();
  });

  it("refuses bytes that are no UTF-8", () => {
    expect(readStrictJson(Uint8Array.of(0x22, 0xff, 0x22)).problem).toContain("UTF-8");
  });
});
