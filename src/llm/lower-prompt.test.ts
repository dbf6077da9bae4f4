import type { LanguageModelV4Message } from "@ai-sdk/provider";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sessionHistory } from "../../test/support/provider-server/session-history.ts";
import type { Item } from "./item.ts";
import { PromptLowering, type PromptLoweringOptions } from "./lower-prompt.ts";
import { LoweredConversation } from "./lowered-conversation.ts";

const rules = (systemInPlace: boolean): PromptLoweringOptions => ({
  systemInPlace,
  keepsReasoning: (metadata) => metadata["anthropic"] !== undefined,
});
const signed = { anthropic: { signature: "s" } };

function lower(items: readonly Item[], systemInPlace = false): LanguageModelV4Message[] {
  return new PromptLowering(rules(systemInPlace)).lower({ system: "S", tools: [], items }).slice(1);
}

const user = (...texts: readonly string[]): Item => ({
  kind: "user",
  id: "u",
  content: texts.map((text) => ({ kind: "text", text })),
});
const said = (text: string): Item => ({ kind: "message", text });
const thought = (text: string, provider?: typeof signed): Item => ({ kind: "reasoning", text, ...(provider && { provider }) });
const call = (callId: string, args = "{}"): Item => ({ kind: "tool_call", callId, name: "Bash", arguments: args });
const result = (callId: string, content?: string, isError = false): Item => ({
  kind: "tool_result",
  callId,
  name: "Bash",
  summary: "ran",
  isError,
  ...(content === undefined ? {} : { content }),
});
function system(kind: "notification" | "reminder", body: string): Item {
  const common = { id: "i", body, origin: { by: "process" }, wake: true, chain: { id: "c", hops: 0 } } as const;
  return kind === "notification"
    ? { kind: "system", item: { kind, payload: { source: "ci", message: body }, trust: "external", ...common } }
    : { kind: "system", item: { kind, payload: { topic: "t", text: body }, trust: "operator", ...common } };
}
const block = (kind: string, trust: string, body: string) =>
  `<system_item kind="${kind}" trust="${trust}">\n${body}\n</system_item>`;
const texts = (...values: readonly string[]) => ({ role: "user", content: values.map((text) => ({ type: "text", text })) });

describe("lowering a conversation", () => {
  it("puts neighbouring texts of the user's side into one message, each a block of its own (N4, N5)", () => {
    expect(lower([system("notification", "a"), system("notification", "b"), user("c", " ", "d")])).toEqual([
      texts(block("notification", "external", "a"), block("notification", "external", "b"), "c", "d"),
    ]);
  });

  it("makes one assistant message of an answer and puts the results directly behind it", () => {
    const items = [user("hi"), thought("hm", signed), said("ok"), call("a", '{"x":1}'), call("b"), result("a", "A"), result("b")];
    expect(lower(items)).toEqual([
      texts("hi"),
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "hm", providerOptions: signed },
          { type: "text", text: "ok" },
          { type: "tool-call", toolCallId: "a", toolName: "Bash", input: { x: 1 } },
          { type: "tool-call", toolCallId: "b", toolName: "Bash", input: {} },
        ],
      },
      {
        role: "tool",
        content: [
          { type: "tool-result", toolCallId: "a", toolName: "Bash", output: { type: "text", value: "A" } },
          { type: "tool-result", toolCallId: "b", toolName: "Bash", output: { type: "text", value: "ran" } },
        ],
      },
    ]);
  });

  it("keeps texts that came between calls and results until the last result (B42)", () => {
    const messages = lower([user("hi"), call("a"), call("b"), result("a"), system("notification", "n"), result("b")]);
    expect(messages.map((message) => message.role)).toEqual(["user", "assistant", "tool", "user"]);
    expect(messages.at(-1)).toEqual(texts(block("notification", "external", "n")));
  });

  it("leaves unsigned and foreign reasoning out, and reasoning that nothing follows (B48, B52)", () => {
    const foreign = { ...thought("f"), provider: { openai: { itemId: "1" } } } as Item;
    const messages = lower([user("a"), thought("x"), foreign, said("b"), user("c"), thought("cut", signed), user("d")]);
    expect(messages).toEqual([texts("a"), { role: "assistant", content: [{ type: "text", text: "b" }] }, texts("c", "d")]);
  });

  it("answers a call whose result is missing, and keeps a result whose call is gone as text", () => {
    const messages = lower([user("a"), call("x"), call("y"), result("x"), said("b"), result("gone", "late"), user("c")]);
    expect(messages.map((message) => message.role)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
    expect(JSON.stringify(messages[2])).toContain('"toolCallId":"y","toolName":"Bash","output":{"type":"error-text"');
    expect(messages[4]).toEqual(texts("[Result of an earlier call of Bash]\nlate", "c"));
  });

  it("keeps a result whose call is gone until the batch it fell into is complete", () => {
    const messages = lower([user("a"), call("x"), result("gone", "late"), result("x")]);
    expect(messages.map((message) => message.role)).toEqual(["user", "assistant", "tool", "user"]);
  });

  it("begins with the user even if the history does not (B47)", () => {
    expect(lower([call("a"), result("a")])[0]).toEqual(texts("(the conversation before this is not shown)"));
  });

  it("gives calls of one id different ids and each its own result (B52)", () => {
    const messages = JSON.stringify(lower([user("a"), call("x"), result("x", "1"), call("x"), result("x", "2")]));
    expect(messages).toContain('"toolCallId":"x","toolName":"Bash","output":{"type":"text","value":"1"}');
    expect(messages).toContain('"toolCallId":"x_2","toolName":"Bash","output":{"type":"text","value":"2"}');
  });

  it("sends no half of a surrogate pair and no NUL (B111)", () => {
    expect(JSON.stringify(lower([user("a\ud83d"), said("\udc00b"), system("notification", "\0c"), user("d")]))).not.toMatch(
      /\\ud|\\u0000/,
    );
  });
});

describe("operator items", () => {
  it("stand in place where the model takes that, behind a user turn and before an answer or the end", () => {
    expect(lower([user("a"), system("reminder", "r"), said("b"), user("c"), system("reminder", "s")], true)).toEqual([
      texts("a"),
      { role: "system", content: "r" },
      { role: "assistant", content: [{ type: "text", text: "b" }] },
      texts("c"),
      { role: "system", content: "s" },
    ]);
  });

  it("are tagged blocks where the model does not take them", () => {
    expect(lower([user("a"), system("reminder", "r")], false)).toEqual([texts("a", block("reminder", "operator", "r"))]);
  });

  it("are tagged blocks at the beginning, before another text of the user's side, and one behind another", () => {
    const [r, s, t] = ["r", "s", "t"].map((body) => block("reminder", "operator", body));
    const items = [system("reminder", "r"), system("reminder", "s"), system("reminder", "t"), user("u")];
    expect(lower(items, true)).toEqual([texts(r ?? "", s ?? "", t ?? "", "u")]);
    expect(lower(items.slice(0, 3), true)).toEqual([texts(r ?? "", s ?? ""), { role: "system", content: "t" }]);
  });

  it("are tagged blocks when there is no system prompt, for which the adapter would take them", () => {
    const prompt = { system: " ", tools: [], items: [user("a"), system("reminder", "r")] };
    expect(new PromptLowering(rules(true)).lower(prompt)).toEqual([texts("a", block("reminder", "operator", "r"))]);
  });

  it("never include what others said, whatever the model can do (N14)", () => {
    expect(lower([user("a"), system("notification", "n")], true).map((message) => message.role)).toEqual(["user"]);
  });
});

/** Whether `longer` only goes on where `shorter` ended: equal messages, the last one possibly with more parts. */
function isExtension(shorter: readonly LanguageModelV4Message[], longer: readonly LanguageModelV4Message[]): boolean {
  return shorter.every((message, index) => {
    const other = longer[index];
    if (other === undefined || other.role !== message.role) return false;
    if (typeof message.content === "string" || typeof other.content === "string") return message.content === other.content;
    const isLast = index === shorter.length - 1;
    const parts = isLast ? other.content.slice(0, message.content.length) : other.content;
    return JSON.stringify(parts) === JSON.stringify(message.content);
  });
}

describe("a growing conversation (I11)", () => {
  it("only goes on where it ended, request by request", () => {
    return fc.assert(
      fc.property(sessionHistory(), fc.boolean(), ({ items, requestAt }, inPlace) => {
        const sent = requestAt.map((length) => ({ length, messages: lower(items.slice(0, length), inPlace) }));
        for (const [index, { length, messages }] of sent.entries()) {
          const next = sent[index + 1];
          if (next === undefined) continue;
          // A request that ended with an operator item and got no answer is the one exception: see LoweredConversation, 5.
          const provisional = inPlace && messages.at(-1)?.role === "system" && !isAnswered(items.slice(length));
          expect(isExtension(provisional ? messages.slice(0, -1) : messages, next.messages)).toBe(true);
        }
      }),
    );
  });

  it("is lowered the same at once and bit by bit, and nothing handed out changes", () => {
    return fc.assert(
      fc.property(sessionHistory(), fc.boolean(), ({ items, requestAt }, inPlace) => {
        const growing: Item[] = [];
        const lowering = new PromptLowering(rules(inPlace));
        const handedOut: { readonly messages: LanguageModelV4Message[]; readonly asText: string }[] = [];
        for (const length of requestAt) {
          growing.push(...items.slice(growing.length, length));
          const messages = lowering.lower({ system: "S", tools: [], items: growing }).slice(1);
          expect(messages).toEqual(lower(items.slice(0, length), inPlace));
          handedOut.push({ messages, asText: JSON.stringify(messages) });
        }
        for (const { messages, asText } of handedOut) expect(JSON.stringify(messages)).toBe(asText);
      }),
    );
  });

  it("is lowered from the start when the array is no extension of what it was", () => {
    const lowering = new PromptLowering(rules(false));
    const items = [user("a"), said("b"), user("c")];
    const prompt = { system: "S", tools: [], items };
    lowering.lower(prompt);
    items.splice(1, 2, user("d"));
    expect(lowering.lower(prompt).slice(1)).toEqual([texts("a", "d")]);
  });

  it("costs only what is new", () => {
    let lowered = 0;
    const push = LoweredConversation.prototype.push;
    const count = function (this: LoweredConversation, item: Item) {
      lowered += 1;
      push.call(this, item);
    };
    LoweredConversation.prototype.push = count;
    try {
      const items = [user("a")];
      const lowering = new PromptLowering(rules(false));
      for (let n = 0; n < 50; n++) {
        lowering.lower({ system: "S", tools: [], items });
        items.push(said(`${n}`), user(`${n}`));
      }
      expect(lowered).toBe(99);
    } finally {
      LoweredConversation.prototype.push = push;
    }
  });
});

/** Whether the model said anything that goes back before the user's side spoke again. */
function isAnswered(rest: readonly Item[]): boolean {
  const end = rest.findIndex((item) => item.kind === "user" || item.kind === "system");
  const answer = end < 0 ? rest : rest.slice(0, end);
  return answer.some((item) => item.kind === "tool_call" || (item.kind === "message" && item.text.trim() !== ""));
}
