import fc from "fast-check";
import { describe, expect } from "vitest";
import { sourceFiles } from "../../test/support/source-files.ts";
import { verifies } from "../../test/support/verifies.ts";
import type { Item } from "../llm/item.ts";
import { NewEntry } from "./entry.ts";
import { LoggedItem } from "./logged-item.ts";
import { fromLoggedItem, toLoggedAnswer, toLoggedItem } from "./logged-item-conversion.ts";
import { STARTED } from "./test-support.ts";

// Lone surrogates, astral characters, controls and empty strings are in it.
const text = fc.oneof(fc.string({ unit: "binary" }), fc.string(), fc.constantFrom("", "\0", "\ud800", "日本語", "a\r\nb\u2028"));
const word = fc.string({ minLength: 1 });
const metadata = fc.option(
  fc.dictionary(word, fc.dictionary(word, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3, noNullPrototype: true }), {
    maxKeys: 2,
    noNullPrototype: true,
  }),
  { nil: undefined },
);
const withProvider = <Shape extends object>(shape: Shape, provider: object | undefined) => ({
  ...shape,
  ...(provider === undefined ? {} : { provider }),
});

const anyItem: fc.Arbitrary<Item> = fc.oneof(
  fc.record({
    kind: fc.constant("user" as const),
    id: word,
    content: fc.array(fc.record({ kind: fc.constant("text" as const), text })),
  }),
  fc.tuple(text, metadata).map(([said, provider]) => withProvider({ kind: "message" as const, text: said }, provider) as Item),
  fc.tuple(text, metadata).map(([said, provider]) => withProvider({ kind: "reasoning" as const, text: said }, provider) as Item),
  fc
    .tuple(word, word, text, metadata)
    .map(
      ([callId, name, args, provider]) =>
        withProvider({ kind: "tool_call" as const, callId, name, arguments: args }, provider) as Item,
    ),
  fc.tuple(word, word, text, fc.option(text, { nil: undefined }), fc.boolean()).map(
    ([callId, name, summary, content, isError]): Item => ({
      kind: "tool_result",
      callId,
      name,
      summary,
      ...(content === undefined ? {} : { content }),
      isError,
    }),
  ),
  fc.tuple(word, text, fc.boolean()).map(
    ([id, body, wake]): Item => ({
      kind: "system",
      item: {
        kind: "reminder",
        payload: { topic: "t", text: body },
        id: id.slice(0, 100),
        body,
        origin: { by: "process" },
        trust: "operator",
        wake,
        chain: { id: "c", hops: 0 },
      },
    }),
  ),
);

/** The way to the disk and back: what is written, and what a later process reads. */
function save(item: Item): string {
  const started = NewEntry.parse({ ...STARTED, history: [toLoggedItem(item)] });
  return JSON.stringify(started.type === "session_started" ? started.history[0] : undefined);
}

function load(saved: string): Item {
  return fromLoggedItem(LoggedItem.parse(JSON.parse(saved)));
}

describe("an item on its way to the log and back", () => {
  verifies(["L5", "L3"], "is the same, and saving it again gives the same bytes", () => {
    fc.assert(
      fc.property(anyItem, (item) => {
        const saved = save(item);
        const back = load(saved);
        // JSON knows no -0.
        expect(back).toEqual(JSON.parse(JSON.stringify(item)));
        expect(save(back)).toBe(saved);
      }),
      { numRuns: 500 },
    );
  });

  verifies(["L5", "L3"], "keeps what a provider wants back: signatures, encrypted reasoning, thought signatures", () => {
    const provider = {
      anthropic: { signature: "s1g", redactedData: "b64==" },
      openai: { reasoningEncryptedContent: "enc", itemId: null },
      google: { thoughtSignature: "t", nested: { deep: [1, { a: "b" }] } },
    };
    for (const item of [
      { kind: "reasoning", text: "thinking", provider },
      { kind: "message", text: "said", provider },
      { kind: "tool_call", callId: "c", name: "n", arguments: '{"cut off', provider },
    ] as const) {
      expect(load(save(item))).toEqual(item);
    }
  });

  verifies(["L4"], "leaves behind every field that the log does not know", () => {
    fc.assert(
      fc.property(anyItem, fc.string({ minLength: 1 }), fc.jsonValue(), (item, name, value) => {
        fc.pre(name !== "__proto__" && !Object.hasOwn(item, name) && !["provider", "content"].includes(name));
        const grown = Object.assign({}, item, { [name]: value });
        expect(save(grown)).toBe(save(item));
      }),
    );
    const item = { kind: "message", text: "hi", id: "msg_1", status: "completed" } as const;
    expect(JSON.parse(JSON.stringify(toLoggedAnswer(item)))).toEqual({
      kind: "message",
      role: "assistant",
      content: [{ kind: "text", text: "hi" }],
    });
  });

  verifies(["L1", "L6"], "has a form of its own there", () => {
    const call = { kind: "tool_call", callId: "c1", name: "Bash", arguments: "{}" } as const;
    expect(toLoggedItem(call)).toEqual({ kind: "tool_call", call_id: "c1", name: "Bash", arguments: "{}" });
    expect(LoggedItem.safeParse(call).success).toBe(false);
    const segments = [
      { kind: "text", text: "look at" },
      { kind: "paste", text: "a\nb" },
    ] as const;
    expect(
      NewEntry.parse({
        type: "user_input",
        id: "i",
        segments,
        waits_for: "turn",
        origin: { by: "client" },
        chain: { id: "c", hops: 0 },
      }),
    ).toMatchObject({ segments });
  });

  verifies(["L2"], "is converted in one file of the session log, and nowhere else", () => {
    const converters = /function (to|from)Logged/;
    const files = sourceFiles("src", /\.ts$/).filter((file) => !file.path.endsWith(".test.ts") && converters.test(file.text));
    expect(files.map((file) => file.path)).toEqual(["src/session-log/logged-item-conversion.ts"]);
  });
});
