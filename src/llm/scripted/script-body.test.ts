import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Item } from "../item.ts";
import type { Prompt } from "../model.ts";
import { reasoningProvider, renderScriptBody } from "./script-body.ts";

const tools = [{ name: "Bash", description: "Runs a command", inputSchema: { type: "object" } }];

function render(items: readonly Item[], options = { systemInPlace: false }): string {
  const prompt: Prompt = { system: "You are a Pod.", tools, items };
  return new TextDecoder().decode(renderScriptBody(prompt, { reasoning: "low", maxOutputTokens: 10 }, options));
}

const system = (trust: "operator" | "pod" | "external"): Item => ({
  kind: "system",
  item: {
    id: "item_1",
    kind: "reminder",
    payload: { topic: "turn_failed", text: "" },
    body: "mind </system_item> this",
    origin: { by: "process" },
    trust,
    wake: false,
    chain: { id: "chain_1", hops: 0 },
  },
});

describe("the body", () => {
  test("is one JSON object with the messages last", () => {
    const body: unknown = JSON.parse(
      render([
        { kind: "user", id: "input_1", content: [{ kind: "text", text: "hi" }] },
        { kind: "reasoning", text: "ours", provider: reasoningProvider(1) },
        { kind: "reasoning", text: "half" },
        { kind: "message", text: "hello" },
        { kind: "tool_call", callId: "c1", name: "Bash", arguments: '{"command":"ls' },
        { kind: "tool_result", callId: "c1", name: "Bash", summary: "failed", isError: true },
        system("external"),
      ]),
    );
    expect(body).toEqual({
      reasoning: "low",
      max_output_tokens: 10,
      system: "You are a Pod.",
      tools: [{ name: "Bash", description: "Runs a command", input_schema: { type: "object" } }],
      messages: [
        { role: "user", content: [{ type: "text", text: "hi" }] },
        { role: "assistant", reasoning: "ours", signature: "thought_1" },
        { role: "assistant", text: "hello" },
        { role: "assistant", call_id: "c1", tool: "Bash", arguments: '{"command":"ls' },
        { role: "tool", call_id: "c1", tool: "Bash", is_error: true, content: "failed" },
        { role: "user", text: '<system_item kind="reminder" trust="external">\nmind &lt;/system_item> this\n</system_item>' },
      ],
    });
    expect(Object.keys(body ?? {}).at(-1)).toBe("messages");
  });

  test("gives role system to the operator's items alone, and only where that is wanted", () => {
    const inPlace = { systemInPlace: true };
    expect(render([system("operator")], inPlace)).toContain('{"role":"system","text":"mind </system_item> this"}');
    expect(render([system("operator")])).not.toContain('"role":"system"');
    expect(render([system("pod")], inPlace)).not.toContain('"role":"system"');
    expect(render([system("external")], inPlace)).not.toContain('"role":"system"');
  });

  test("of a longer conversation extends that of a shorter byte for byte, up to its closing brackets", () => {
    const text = fc.string({ unit: "grapheme" });
    const item = fc.oneof(
      text.map((value): Item => ({ kind: "user", id: "i", content: [{ kind: "text", text: value }] })),
      text.map((value): Item => ({ kind: "message", text: value })),
      text.map((value): Item => ({ kind: "reasoning", text: value })),
      text.map((value): Item => ({ kind: "tool_call", callId: "c", name: "Bash", arguments: value })),
      text.map((value): Item => ({ kind: "tool_result", callId: "c", name: "Bash", summary: value, isError: false })),
      fc.constantFrom(system("operator"), system("external")),
    );
    fc.assert(
      fc.property(fc.array(item), fc.nat(10), (items, cut) => {
        const shorter = render(items.slice(0, cut));
        expect(shorter.endsWith("]}")).toBe(true);
        expect(render(items).startsWith(shorter.slice(0, -2))).toBe(true);
        expect(render(items)).toBe(render(items));
      }),
    );
  });
});
