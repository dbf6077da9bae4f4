import { readdirSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { describe, expect, it } from "vitest";
import { replay, stream, text } from "../../test/support/provider-server/answer.ts";
import { ask, failureOf, itemsOf, modelAt, words } from "../../test/support/provider-server/ask-model.ts";
import { startProviderServer } from "../../test/support/provider-server/provider-server.ts";
import type { Item } from "./item.ts";

const FOLDER = path.join(import.meta.dirname, "../../test/fixtures/provider-streams");
const recording = (name: string) => readFileSync(path.join(FOLDER, `${name}.chunks.txt`), "utf8");
const all = readdirSync(FOLDER)
  .filter((name) => name.startsWith("anthropic-") && name.endsWith(".chunks.txt"))
  .map((name) => name.replace(".chunks.txt", ""));

async function play(name: string, pieceBytes?: number) {
  await using server = await startProviderServer();
  server.enqueue({ ...replay(recording(name)), ...(pieceBytes === undefined ? {} : { pieceBytes }) });
  return await ask(await modelAt(server));
}

describe("recorded answers", () => {
  it("are all looked at", () => {
    expect(all.toSorted()).toEqual([
      "anthropic-clear-thinking.1",
      "anthropic-duplicate-message-start",
      "anthropic-json-tool.1",
      "anthropic-json-tool.2",
      "anthropic-mcp.1",
      "anthropic-message-delta-input-tokens",
      "anthropic-refusal",
      "anthropic-spliced-message-start",
      "anthropic-text",
      "anthropic-tool-no-args",
    ]);
  });

  it.each([
    [
      "anthropic-text",
      ["message: Hello! I'm doing well, thank you for asking. How are you doing today? Is there anything I can help you with?"],
      { stop: "end", usage: { input: 12, output: 30, cache_read: 0, cache_write: 0 } },
    ],
    ["anthropic-duplicate-message-start", ["message: Hello, World!"], { stop: "end" }],
    [
      "anthropic-message-delta-input-tokens",
      ["message: pong"],
      { stop: "end", usage: { input: 61, output: 2, cache_read: 0, cache_write: 0 } },
    ],
    ["anthropic-tool-no-args", ["message: I'll update the issue list for you.", "updateIssueList({})"], { stop: "tool_calls" }],
    [
      "anthropic-json-tool.1",
      ['json({"elements": [{"location": "San Francisco", "temperature": 58, "condition": "sunny"}]})'],
      { stop: "tool_calls" },
    ],
    [
      "anthropic-json-tool.2",
      [
        "message: I'll invoke the JSON response tool.",
        'json({"elements": [{"location": "San Francisco", "temperature": 58, "condition": "sunny"}]})',
      ],
      { stop: "tool_calls" },
    ],
    // A tool that the provider ran by itself is no call for us to answer.
    [
      "anthropic-mcp.1",
      [
        "message: The echo tool responded back with: **hello world**\n\nIt simply echoed back the exact message that was sent to it.",
      ],
      { stop: "end" },
    ],
    ["anthropic-refusal", [], { stop: "refusal" }],
  ])("%s gives its items, in pieces of any size", async (name, items, finish) => {
    const events = await play(name);
    expect(itemsOf(events).map(shown)).toEqual(items);
    expect(events.at(-1)).toMatchObject({ type: "finish", ...finish });
    expect(await play(name, 7)).toEqual(events);
  });

  it("anthropic-spliced-message-start, two answers in one, is a failure and no half of it is taken for a whole", async () => {
    const events = await play("anthropic-spliced-message-start");
    expect(failureOf(events)).toMatchObject({
      code: "server_error",
      retryable: true,
      message: expect.stringContaining("msg_second"),
    });
    expect(itemsOf(events).filter((item) => item.kind === "tool_call")).toEqual([]);
  });

  it("anthropic-clear-thinking gives its thinking back byte for byte (B48)", async () => {
    await using server = await startProviderServer();
    server.enqueue(replay(recording("anthropic-clear-thinking.1")), stream(text("ok")));
    const model = await modelAt(server);
    const items: Item[] = [words("hi"), ...itemsOf(await ask(model)), words("go on")];
    await ask(model, { items });
    const signature = /"signature":"([^"]{20,})"/.exec(recording("anthropic-clear-thinking.1"))?.[1];
    expect(server.requests[1]?.body).toMatchObject({
      messages: [
        {},
        {
          role: "assistant",
          content: [
            {
              type: "thinking",
              thinking: "The previous result was 925. Now I need to divide that by 5.\n\n925 ÷ 5 = 185",
              signature,
            },
            { type: "text", text: "925 ÷ 5 = 185" },
          ],
        },
        {},
      ],
    });
  });

  it.each(all.filter((name) => !name.includes("spliced")))(
    "%s can be gone on from: the strict server takes what follows",
    async (name) => {
      await using server = await startProviderServer();
      server.enqueue(replay(recording(name)), stream(text("ok")));
      const model = await modelAt(server);
      const answer = itemsOf(await ask(model));
      const results = answer.flatMap((item): Item[] =>
        item.kind === "tool_call"
          ? [{ kind: "tool_result", callId: item.callId, name: item.name, summary: "done", isError: false }]
          : [],
      );
      const events = await ask(model, { items: [words("hi"), ...answer, ...results, words("go on")] });
      expect(itemsOf(events)).toEqual([{ kind: "message", text: "ok" }]);
    },
  );
});

describe("thinking that goes back", () => {
  it("is byte-equal and first, redacted or not, with the calls it led to (B48)", async () => {
    await using server = await startProviderServer();
    const thought = "so 🤔\r\n\tthen é  \n ";
    server.enqueue(
      stream(
        { kind: "thinking", chunks: ["so 🤔\r\n", "\tthen é  \n "], signature: "c2ln/+==" },
        { kind: "redacted_thinking", data: "ZGF0YQ==" },
        text("I will look. "),
        { kind: "tool_call", id: "toolu_a", name: "Bash", chunks: ['{"command":', '"ls"}'] },
      ),
      stream(text("ok")),
    );
    const model = await modelAt(server);
    const answer = itemsOf(await ask(model));
    // As after a restore: through JSON, as new objects.
    const restored: Item[] = JSON.parse(JSON.stringify(answer));
    const result: Item = { kind: "tool_result", callId: "toolu_a", name: "Bash", summary: "interrupted", isError: true };
    await ask(model, { items: [words("hi"), ...restored, result] });
    expect(server.requests[1]?.text).toContain(
      `{"role":"assistant","content":[{"type":"thinking","thinking":${JSON.stringify(thought)},"signature":"c2ln/+=="},` +
        `{"type":"redacted_thinking","data":"ZGF0YQ=="},{"type":"text","text":"I will look. "},` +
        `{"type":"tool_use","id":"toolu_a","name":"Bash","input":{"command":"ls"}}]}`,
    );
  });
});

function shown(item: ReturnType<typeof itemsOf>[number]): string {
  return item.kind === "tool_call" ? `${item.name}(${item.arguments})` : `${item.kind}: ${item.text}`;
}
