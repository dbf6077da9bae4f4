import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { Item } from "../item.ts";
import type { ModelEvent } from "../model.ts";
import { parseScript } from "./read-script.ts";
import { knownKeysAt } from "./script-format.ts";
import { openScriptedModel } from "./scripted-model.ts";

const folder = new URL("../../../examples/", import.meta.url);
const guide = new URL("../../../docs/scripts.md", import.meta.url);
const scripts = (await readdir(folder)).filter((name) => name.endsWith(".yaml"));

/** Plays one attempt at one step of an example. */
async function play(name: string, items: readonly Item[], position: { readonly answered: number; readonly attempt?: number }) {
  const model = await openScriptedModel(fileURLToPath(new URL(name, folder)));
  const events: ModelEvent[] = [];
  const stream = model.stream({
    prompt: { system: "", tools: [], items },
    settings: { reasoning: "default" },
    signal: new AbortController().signal,
    position: { attempt: 1, ...position },
    idleTimeoutMs: 10_000,
    beforeSend: async () => {},
  });
  for await (const event of stream) events.push(event);
  const end = events.at(-1);
  const text = events.map((event) => (event.type === "text_delta" ? event.text : "")).join("");
  return { text, items: events.flatMap((event) => (event.type === "item" ? [event.item] : [])), end };
}

const input: Item = { kind: "user", id: "input_1", content: [{ kind: "text", text: "go" }] };
const result = (content: string): Item => {
  return { kind: "tool_result", callId: "call_1_1", name: "Bash", summary: "exit 0", content, isError: false };
};
const notice: Item = {
  kind: "system",
  item: {
    id: "item_1",
    kind: "notification",
    payload: { source: "home", message: "the lights are off" },
    body: "[Notification from home]\nthe lights are off",
    origin: { by: "client" },
    trust: "external",
    wake: true,
    chain: { id: "chain_1", hops: 0 },
  },
};

describe("the examples", () => {
  test("are there", () => {
    expect(scripts).toEqual(expect.arrayContaining(["flaky.yaml", "hello.yaml", "notified.yaml", "tools.yaml"]));
  });

  test.each(scripts)("hold a script: %s", async (name) => {
    expect(parseScript(await readFile(new URL(name, folder), "utf8"), name).steps.length).toBeGreaterThan(0);
  });

  test("greet without a tool, then answer any notification", async () => {
    expect(await play("hello.yaml", [input], { answered: 0 })).toMatchObject({
      text: expect.stringMatching(/^Hi!/),
      end: { stop: "end" },
    });
    expect(await play("hello.yaml", [input, notice], { answered: 7 })).toMatchObject({ text: expect.stringMatching(/^Noted/) });
  });

  test("fail twice, drop once, then succeed", async () => {
    const attempts = [1, 2, 3, 4].map((attempt) => play("flaky.yaml", [input], { answered: 0, attempt }));
    expect(
      (await Promise.all(attempts)).map(({ text, end }) => [text, end?.type === "failure" ? end.failure.code : end?.type]),
    ).toEqual([
      ["", "overloaded"],
      ["", "overloaded"],
      ["I am here, aft", "stream_cut"],
      ["I am here, after all.", "finish"],
    ]);
  });

  test("accept a notification behind the tool result once, and nothing else", async () => {
    const call = (await play("notified.yaml", [input], { answered: 0 })).items;
    const outcome = async (...rest: readonly Item[]) => {
      const { end } = await play("notified.yaml", [input, ...call, ...rest], { answered: 1 });
      return end?.type === "failure" ? end.failure.message : end?.type;
    };
    expect(await outcome(result("built\n"), notice)).toBe("finish");
    expect(await outcome(result("built\n"))).toMatch(/last_contains: "\[Notification from home\]"/);
    expect(await outcome(notice, result("built\n"))).toMatch(/results_before: "the lights are off"/);
    expect(await outcome(result("built\n"), notice, notice)).toMatch(/count: .* 2 times/);
  });

  test("check what the tools answered", async () => {
    const history = (await Promise.all([0, 1].map((answered) => play("tools.yaml", [input], { answered })))).flatMap(
      ({ items }) => items,
    );
    expect((await play("tools.yaml", [input, ...history, result("Good morning\n")], { answered: 2 })).end).toMatchObject({
      stop: "tool_calls",
    });
    expect((await play("tools.yaml", [input, ...history, result("")], { answered: 2 })).end).toMatchObject({
      failure: { code: "script" },
    });
  });
});

test("every example in the guide is a script", async () => {
  const blocks = [...(await readFile(guide, "utf8")).matchAll(/^```yaml\n(.*?)^```$/gms)].map((match) => match[1] ?? "");
  expect(blocks.length).toBeGreaterThan(5);
  for (const block of blocks) expect(parseScript(block, "docs/scripts.md").steps.length).toBeGreaterThan(0);
});

test("the guide names every key of the format", async () => {
  const text = await readFile(guide, "utf8");
  const missing = allKeys().filter((key) => !new RegExp(`\\b${key}\\b`).test(text));
  expect(missing).toEqual([]);
});

function allKeys(): readonly string[] {
  return [
    [],
    ["steps", 0],
    ...["expect", "wait_for", "fail", "stall", "drop", "call", "usage"].map((key) => ["steps", 0, key]),
  ].flatMap((path) => knownKeysAt(path));
}
