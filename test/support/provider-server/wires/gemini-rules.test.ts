import { describe, expect, it } from "vitest";
import { GeminiMemory } from "./gemini-memory.ts";
import { checkGemini } from "./gemini-rules.ts";

const HEADERS = { "x-goog-api-key": "k", "content-type": "application/json" };
const user = (...parts: readonly object[]) => ({ role: "user", parts });
const model = (...parts: readonly object[]) => ({ role: "model", parts });
const hi = { text: "hi" };
const call = (id: string, more: object = {}) => ({ functionCall: { id, name: "Bash", args: {} }, ...more });
const response = (id: string) => ({ functionResponse: { id, name: "Bash", response: { content: "done" } } });
const signed = (text: string, thoughtSignature: string, more: object = {}) => ({ text, thoughtSignature, ...more });

/** Names of the rules that a body breaks. Said before: a signed call `s1`, signed texts, a signed thought. */
function broken(contents: readonly unknown[], more: object = {}, headers: Record<string, string> = HEADERS): string[] {
  const memory = new GeminiMemory();
  const parts = [call("s1", { thoughtSignature: "for-call" }), signed("yes", "for-text"), signed("", "for-empty")];
  const said = [...parts, signed("hm", "for-thought", { thought: true })];
  memory.note(JSON.stringify({ candidates: [{ content: { parts: said } }] }));
  return checkGemini({ contents, ...more }, headers, memory).map((rule) => rule.slice(0, rule.indexOf(":")));
}

describe("the rules of the Gemini API", () => {
  it.each<[string, readonly unknown[], object?]>([
    ["a question", [user(hi)], { systemInstruction: { parts: [{ text: "S" }] } }],
    [
      "a batch with its responses, and the user behind them",
      [user(hi), model(call("a"), call("b")), user(response("a"), response("b")), user(hi)],
    ],
    [
      "signatures where they were",
      [user(hi), model(signed("hm", "for-thought", { thought: true }), signed("yes", "for-text")), user(hi)],
    ],
    ["an empty text that is signed", [user(hi), model(signed("", "for-empty")), user(hi)]],
    ["a signed call", [user(hi), model(call("s1", { thoughtSignature: "for-call" })), user(response("s1"))]],
    [
      "a call of another provider",
      [user(hi), model(call("a", { thoughtSignature: "skip_thought_signature_validator" })), user(response("a"))],
    ],
  ])("allow %s", (_name, contents, more) => {
    expect(broken(contents, more)).toEqual([]);
  });

  it.each<[string, string, readonly unknown[], object?]>([
    ["shape", "a role of the system", [{ role: "system", parts: [hi] }, user(hi)]],
    ["shape", "a field nobody knows", [user(hi)], { surprise: 1 }],
    ["shape", "nothing", []],
    ["blank-text", "an empty content", [user()]],
    ["blank-text", "a blank text", [user({ text: " " })]],
    ["first", "the model first", [model(hi), user(hi)]],
    ["last", "the model last", [user(hi), model(hi)]],
    ["alternate", "the model twice", [user(hi), model(hi), model(hi), user(hi)]],
    ["role", "a call of the user", [user(hi, call("a"))]],
    ["role", "a response of the model", [user(hi), model(response("a")), user(hi)]],
    ["responses", "fewer responses than calls", [user(hi), model(call("a"), call("b")), user(response("a"))]],
    ["responses", "responses in two contents", [user(hi), model(call("a"), call("b")), user(response("a")), user(response("b"))]],
    ["responses", "a text among the responses", [user(hi), model(call("a")), user(response("a"), hi)]],
    ["responses", "a text between", [user(hi), model(call("a")), user(hi), user(response("a"))]],
    ["responses", "another order than the calls", [user(hi), model(call("a"), call("b")), user(response("b"), response("a"))]],
    ["responses", "a response that nobody asked for", [user(response("a"))]],
    ["call-id", "an id twice", [user(hi), model(call("a")), user(response("a")), model(call("a")), user(response("a"))]],
    ["tool-name", "one name for two tools", [user(hi)], { tools: [{ functionDeclarations: [{ name: "A" }, { name: "A" }] }] }],
    ["signature", "a signature of somebody else", [user(hi), model(signed("yes", "theirs")), user(hi)]],
    ["signature", "a signature on another text", [user(hi), model(signed("no", "for-text")), user(hi)]],
    ["signature", "a text's signature on a thought", [user(hi), model(signed("yes", "for-text", { thought: true })), user(hi)]],
    ["signature", "a signature that is gone", [user(hi), model(call("s1")), user(response("s1"))]],
    [
      "signature",
      "a signature twice",
      [user(hi), model(signed("yes", "for-text")), user(hi), model(signed("yes", "for-text")), user(hi)],
    ],
  ])("break %s with %s", (rule, _name, contents, more) => {
    expect(broken(contents, more)).toContain(rule);
  });

  it("want a key and JSON", () => {
    expect(broken([user(hi)], {}, {})).toEqual(["key", "content-type"]);
  });
});
