import { describe, expect, it } from "vitest";
import { checkChat } from "./chat-rules.ts";

const HEADERS = { "content-type": "application/json" };
const system = { role: "system", content: "S" };
const user = { role: "user", content: "hi" };
const said = { role: "assistant", content: "yes" };
const called = (ids: readonly string[], args = "{}", name = "Bash") => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name, arguments: args } })),
});
const result = (id: string, content = "done") => ({ role: "tool", tool_call_id: id, content });

/** Names of the rules that a body breaks. Said before: the reasoning `hm`. */
function broken(messages: readonly unknown[], more: object = {}, alternates = false): string[] {
  const body = { model: "m", stream: true, messages, ...more };
  const rules = checkChat(body, HEADERS, { reasoning: new Set(["hm"]) }, { alternates });
  return rules.map((rule) => rule.slice(0, rule.indexOf(":")));
}

describe("the rules of Chat Completions", () => {
  it.each<[string, readonly unknown[], boolean?]>([
    ["a question", [system, user]],
    ["a batch with its results, and the user behind them", [user, called(["a", "b"]), result("b"), result("a"), user]],
    ["the system in place", [system, user, system, said, user]],
    ["texts in a list", [{ role: "user", content: [{ type: "text", text: "hi" }] }]],
    ["reasoning of its own", [user, { ...said, reasoning_content: "hm" }, user]],
    ["an id of 40 characters", [user, called(["x".repeat(40)]), result("x".repeat(40))]],
    [
      "an answer between results and the user, where roles alternate",
      [system, user, called(["a"]), result("a"), said, user],
      true,
    ],
  ])("allow %s", (_name, messages, alternates) => {
    expect(broken(messages, {}, alternates)).toEqual([]);
  });

  it.each<[string, string, readonly unknown[], boolean?]>([
    ["shape", "nothing", []],
    ["shape", "a role of its own", [{ role: "developer", content: "S" }, user]],
    ["blank-text", "a blank text", [{ ...user, content: "\n" }]],
    ["blank-text", "an answer without anything", [user, { role: "assistant", content: "" }, user]],
    ["tool-result", "a call without result", [user, called(["a", "b"]), result("a"), user]],
    ["tool-result", "a text between call and result", [user, called(["a"]), user, result("a")]],
    ["tool-result", "a result without call", [user, result("a")]],
    ["tool-result", "a result behind a text of the model", [user, said, result("a")]],
    ["tool-result", "a result twice", [user, called(["a"]), result("a"), result("a")]],
    ["call-id", "an id of 41 characters", [user, called(["x".repeat(41)]), result("x".repeat(41))]],
    ["call-id", "an odd id", [user, called(["a:0"]), result("a:0")]],
    ["call-id", "an id twice", [user, called(["a"]), result("a"), called(["a"]), result("a")]],
    ["arguments", "arguments that are no object", [user, called(["a"], "[1]"), result("a")]],
    ["tool-name", "an odd name", [user, called(["a"], "{}", ""), result("a")]],
    ["reasoning", "reasoning of somebody else", [user, { ...said, reasoning_content: "theirs" }, user]],
    ["first", "an answer first", [said, user]],
    ["last", "an answer last", [user, said]],
    ["alternate", "the user twice", [user, user]],
    ["alternate", "the model twice", [user, said, said, user]],
    ["alternate", "the user behind a result, where roles alternate", [user, called(["a"]), result("a"), user], true],
    ["alternate", "the system in place, where roles alternate", [system, user, system, said, user], true],
    [
      "alternate",
      "texts in a list, where only plain ones are read",
      [{ role: "user", content: [{ type: "text", text: "hi" }] }],
      true,
    ],
  ])("break %s with %s", (rule, _name, messages, alternates) => {
    expect(broken(messages, {}, alternates)).toContain(rule);
  });

  it("refuse fields and tools that no server knows", () => {
    expect(broken([user], { surprise: 1 })).toEqual(["shape"]);
    const tool = { type: "function", function: { name: "Bash", parameters: { type: "object" } } };
    expect(broken([user], { tools: [tool] })).toEqual([]);
    expect(broken([user], { tools: [tool, tool] })).toEqual(["tool-name"]);
  });
});
