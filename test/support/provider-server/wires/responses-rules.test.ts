import { describe, expect, it } from "vitest";
import { ResponsesMemory } from "./responses-memory.ts";
import { checkResponses } from "./responses-rules.ts";

const HEADERS = { authorization: "Bearer k", "content-type": "application/json" };
const user = { role: "user", content: [{ type: "input_text", text: "hi" }] };
const said = { role: "assistant", content: "yes" };
const call = (call_id: string, args = "{}", name = "Bash") => ({ type: "function_call", call_id, name, arguments: args });
const output = (call_id: string, text = "done") => ({ type: "function_call_output", call_id, output: text });
const thought = (encrypted_content: string | null) => ({ type: "reasoning", id: "rs", encrypted_content, summary: [] });

/** Names of the rules that a body breaks. Said before: `enc` with the call `a`, `said` with a text. */
function broken(input: readonly unknown[], more: object = {}, headers: Record<string, string> = HEADERS): string[] {
  const memory = new ResponsesMemory();
  memory.reasoning.set("enc", { kind: "call", callId: "a" });
  memory.reasoning.set("said", { kind: "text", text: "yes" });
  const body = { model: "m", stream: true, store: false, input, ...more };
  return checkResponses(body, headers, memory).map((rule) => rule.slice(0, rule.indexOf(":")));
}

describe("the rules of the Responses API", () => {
  it.each<[string, readonly unknown[], object?]>([
    ["a question", [{ role: "developer", content: "S" }, user]],
    ["calls and their outputs in any order", [user, call("a"), call("b"), output("b"), output("a"), user]],
    ["reasoning with what it was produced with", [user, thought("enc"), call("a"), output("a"), thought("said"), said, user]],
    ["calls without their reasoning", [user, call("a"), output("a")]],
    [
      "an effort, a limit and tools",
      [user],
      { reasoning: { effort: "low" }, include: ["reasoning.encrypted_content"], max_output_tokens: 16 },
    ],
    ["an id of 64 characters", [user, call("x".repeat(64)), output("x".repeat(64))]],
  ])("allow %s", (_name, input, more) => {
    expect(broken(input, more)).toEqual([]);
  });

  it.each<[string, string, readonly unknown[], object?]>([
    ["shape", "a field nobody knows", [user], { surprise: 1 }],
    ["shape", "nothing", []],
    ["blank-text", "a blank text", [{ role: "user", content: [{ type: "input_text", text: " \n" }] }]],
    ["blank-text", "an empty content", [{ role: "user", content: [] }]],
    ["blank-text", "an empty output", [user, call("a"), output("a", "")]],
    ["phase", "a phase of the user", [{ ...user, phase: "final_answer" }]],
    ["output", "a call without output", [user, call("a")]],
    ["output", "an output without call", [user, output("a")]],
    ["output", "an output before its call", [user, output("a"), call("a")]],
    ["output", "two outputs of one call", [user, call("a"), output("a"), output("a")]],
    ["call-id", "an id of 65 characters", [user, call("x".repeat(65)), output("x".repeat(65))]],
    ["call-id", "an odd id", [user, call("a|b"), output("a|b")]],
    ["call-id", "an id twice", [user, call("a"), output("a"), call("a")]],
    ["tool-name", "an odd name", [user, call("a", "{}", "Ba sh"), output("a")]],
    ["tool-name", "one name for two tools", [user], { tools: [1, 2].map(() => tool()) }],
    ["arguments", "arguments that are cut", [user, call("a", '{"x":'), output("a")]],
    ["reasoning", "reasoning of somebody else", [user, thought("theirs"), said]],
    ["reasoning", "reasoning without its proof", [user, thought(null), said]],
    ["reasoning", "reasoning at the end", [user, thought("said")]],
    ["reasoning", "reasoning before the user", [user, thought("said"), user]],
    ["reasoning", "reasoning before another call", [user, thought("enc"), call("b"), output("b")]],
    ["reasoning", "reasoning before another text", [user, thought("said"), { ...said, content: "no" }]],
    ["reasoning", "reasoning before another kind of item", [user, thought("enc"), said]],
    ["reasoning", "reasoning twice", [user, thought("said"), said, thought("said"), said]],
    ["store", "encrypted reasoning where things are stored", [user, thought("said"), said], { store: true }],
    ["include", "an effort whose reasoning is lost", [user], { reasoning: { effort: "low" } }],
  ])("break %s with %s", (rule, _name, input, more) => {
    expect(broken(input, more)).toContain(rule);
  });

  it("want a key and JSON", () => {
    expect(broken([user], {}, {})).toEqual(["key", "content-type"]);
  });
});

function tool(): object {
  return { type: "function", name: "Bash", parameters: { type: "object" }, strict: false };
}
