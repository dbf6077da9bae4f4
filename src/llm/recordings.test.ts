import { readdirSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { describe, expect, it } from "vitest";
import { replay, stream, text } from "../../test/support/provider-server/answer.ts";
import { ask, failureOf, itemsOf, MODELS, openAt, words } from "../../test/support/provider-server/ask-model.ts";
import { startProviderServer } from "../../test/support/provider-server/provider-server.ts";
import type { Item } from "./item.ts";

const FOLDER = path.join(import.meta.dirname, "../../test/fixtures/provider-streams");
const recording = (name: string) => readFileSync(path.join(FOLDER, `${name}.chunks.txt`), "utf8");
const wireOf = (name: string) => (name.startsWith("google") ? "gemini" : name.startsWith("chat") ? "chat" : "responses");

async function play(name: string, pieceBytes?: number) {
  await using server = await startProviderServer();
  server.enqueue({ ...replay(recording(name)), ...(pieceBytes === undefined ? {} : { pieceBytes }) });
  return await ask(await openAt(server, MODELS[wireOf(name)]));
}

const RECORDINGS: readonly [string, readonly string[], object][] = [
  ["responses-phase.1", ["message: ", "message: "], { stop: "end" }],
  [
    "responses-reasoning-encrypted-content.1",
    ["reasoning: ", "calculator({", "calculator({", "calculator({", "message: The final result is **570**."],
    { stop: "tool_calls" },
  ],
  ["responses-custom-tool.1", ["write_sql("], { stop: "tool_calls" }],
  ["chat-azure-model-router", ["message: Capital of Denmark"], { stop: "end" }],
  ["chat-openai-text", ["message: "], { stop: "end" }],
  ["chat-deepseek-tool-call", ["reasoning: ", 'weather({"location": "San Francisco"})'], { stop: "tool_calls" }],
  ["chat-groq-tool-call", ["weather({})"], { stop: "tool_calls" }],
  ["chat-mistral-tool-call", ["weather("], { stop: "tool_calls" }],
  [
    "chat-mistral-incremental-tool-call",
    ['webSearchTool({"query": "current Berlin weather"})'],
    { stop: "tool_calls", usage: { input: 43, output: 14, cache_read: 128, cache_write: 0 } },
  ],
  ["chat-xai-tool-call", ["reasoning: ", "weather("], { stop: "tool_calls" }],
  ["google-text", ["message: "], { stop: "end" }],
  ["google-reasoning", ["message: "], { stop: "end" }],
  ["google-reasoning-gemini3", ['message: There are **3** "r"s in strawberry.'], { stop: "end" }],
  ["google-tool-call", ['weather({"location":"San Francisco"})'], { stop: "tool_calls" }],
  ["google-tool-call-gemini3", ["weather("], { stop: "tool_calls" }],
  [
    "google-stream-no-args-tool-call",
    ["reasoning: ", "read_theme({})", ...["A", "B", "C"].map((id) => `read_screen({"id":"${id}"})`)],
    { stop: "tool_calls" },
  ],
];

describe("recorded answers of OpenAI's, Google's and other servers", () => {
  it("are all looked at", () => {
    const all = readdirSync(FOLDER).flatMap((name) => /^(?!anthropic)(.*)\.chunks\.txt$/.exec(name)?.[1] ?? []);
    expect(all.toSorted()).toEqual([...RECORDINGS.map(([name]) => name), "responses-error.1"].toSorted());
  });

  it.each(RECORDINGS)("%s gives its items, in pieces of any size", async (name, items, finish) => {
    const events = await play(name);
    expect(
      itemsOf(events)
        .map(shown)
        .map((item, index) => item.slice(0, items[index]?.length)),
    ).toEqual(items);
    expect(events.at(-1)).toMatchObject({ type: "finish", ...finish });
    expect(itemsOf(await play(name, 7)).map(shown)).toEqual(itemsOf(events).map(shown));
  });

  it("responses-error.1 is a failure with the server's words", async () => {
    expect(failureOf(await play("responses-error.1")).message).toMatch(/\w{4}/);
  });

  it.each(RECORDINGS.map(([name]) => name))("%s can be gone on from: the strict server takes what follows", async (name) => {
    await using server = await startProviderServer();
    server.enqueue(replay(recording(name)), stream(text("ok")));
    const model = await openAt(server, MODELS[wireOf(name)]);
    const answer = itemsOf(await ask(model));
    const results = answer.flatMap((item): Item[] =>
      item.kind === "tool_call"
        ? [{ kind: "tool_result", callId: item.callId, name: item.name, summary: "done", isError: false }]
        : [],
    );
    // As after a restore: through JSON, as new objects.
    const items: Item[] = JSON.parse(JSON.stringify([words("hi"), ...answer, ...results, words("go on")]));
    expect(itemsOf(await ask(model, { items })).map(shown)).toEqual(["message: ok"]);
    // What ends an item counts: OpenAI encrypts anew in every event.
    const lines = recording(name)
      .split("\n")
      .filter((line) => /response\.output_item\.done|^\{"candidates"/.test(line));
    const proof = lines
      .join("")
      .match(/"(thoughtSignature|encrypted_content)":"[^"]+"/g)
      ?.at(-1);
    if (proof !== undefined) expect(server.requests[1]?.text).toContain(proof);
  });
});

function shown(item: ReturnType<typeof itemsOf>[number]): string {
  return item.kind === "tool_call" ? `${item.name}(${item.arguments})` : `${item.kind}: ${item.text}`;
}
