import { describe, expect, test } from "vitest";
import type { Item } from "../item.ts";
import type { Prompt } from "../model.ts";
import { findUnmet } from "./expectations.ts";
import { parseScript } from "./read-script.ts";

const items: readonly Item[] = [
  { kind: "user", id: "input_1", content: [{ kind: "text", text: "build it" }] },
  { kind: "tool_call", callId: "call_1_1", name: "Bash", arguments: '{"command":"make"}' },
  { kind: "tool_result", callId: "call_1_1", name: "Bash", summary: "ran", content: "make: done", isError: false },
  {
    kind: "system",
    item: {
      id: "item_1",
      kind: "notification",
      payload: { source: "ci", message: "build finished <ok>" },
      body: "[Notification from ci]\n\nbuild finished <ok>",
      origin: { by: "client" },
      trust: "external",
      wake: true,
      chain: { id: "chain_1", hops: 0 },
    },
  },
];

function check(yaml: string, sent: readonly Item[] = items): string | undefined {
  const script = parseScript(`steps:\n  - say: Hello\n    expect:\n      ${yaml}\n`, "s.yaml");
  const expected = script.steps[0]?.expect;
  if (expected === undefined) throw new Error("the step has no expectation");
  const tools = ["Bash", "Read"].map((name) => ({ name, description: "", inputSchema: {} }));
  const prompt: Prompt = { system: "You are a Pod.", tools, items: sent };
  return findUnmet(expected, prompt, { systemInPlace: false });
}

describe("an expectation", () => {
  test.each([
    "contains: build it",
    "contains: [build it, 'make: done', 'build finished <ok>', '<system_item kind=\"notification\" trust=\"external\">']",
    "not_contains: [no such text, You are a Pod]",
    "last_contains: ['make: done', build finished]",
    "system_contains: You are a Pod",
    "tools: [Bash]",
    "count: { build: 2, finished: 1, nothing: 0 }",
    "order: [build it, '{\"command\":\"make\"}', 'make: done', build finished]",
    "order: [build finished, '<ok>']",
    "results_before: build finished",
  ])("is met: %s", (yaml) => {
    expect(check(yaml)).toBeUndefined();
  });

  test.each([
    ["contains: [build it, You are a Pod]", /^contains: "You are a Pod" is nowhere .*build finished <ok>/],
    [
      "not_contains: [no such text, 'make: done']",
      /^not_contains: "make: done" is in .*item 3 of 4 \(tool_result\) reads "make: done"/,
    ],
    ["last_contains: build it", /^last_contains: "build it" is not in what is new .*\(2 items\)/],
    ["system_contains: You are a bird", /^system_contains: .*begins "You are a Pod\."/],
    ["tools: [Read, Write]", /^tools: "Write" is not .*: Bash, Read$/],
    ["count: { build: 1 }", /^count: "build" occurs 2 times .* not 1 time; first: item 1 of 4/],
    ["count: { nothing: 1 }", /^count: "nothing" occurs 0 times .* not 1 time; the newest of 4 items/],
    ["order: ['make: done', build it]", /^order: "make: done" does not stand before "build it"/],
    ["order: [build it, build it]", /^order: .* does not stand before/],
    ["order: [build it, nowhere]", /^order: "nowhere" is nowhere/],
    ["results_before: build it", /^results_before: "build it" does not stand behind the newest tool result: item 1/],
    ["results_before: nowhere", /^results_before: "nowhere" is nowhere/],
  ] as const)("is not met, and says why on one line: %s", (yaml, message) => {
    expect(check(yaml)).toMatch(message);
    expect(check(yaml)).not.toContain("\n");
  });

  test("about results is not met without any", () => {
    expect(check("results_before: build it", items.slice(0, 2))).toContain("no tool result");
  });

  test("about nothing but an empty conversation says that it is empty", () => {
    expect(check("contains: build it", [])).toContain("the conversation is empty");
  });

  test("counts over all items, a thousand of them in linear time", () => {
    const many = Array.from({ length: 5000 }, (_, n): Item => ({ kind: "message", text: `message ${n} of many` }));
    expect(check("count: { of many: 5000, message 4999: 1 }", many)).toBeUndefined();
  });

  test("shows a bounded excerpt in whole characters", () => {
    const long: Item = { kind: "message", text: `${"🦉".repeat(100_000)}here${"🦉".repeat(100_000)}` };
    for (const yaml of ["contains: nowhere", "not_contains: here"]) {
      const unmet = check(yaml, [long]) ?? "";
      expect(unmet).toContain("🦉🦉");
      expect(unmet.length).toBeLessThan(600);
      expect(unmet.isWellFormed()).toBe(true);
    }
  });
});
