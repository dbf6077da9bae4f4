import * as fc from "fast-check";
import type { Item } from "../../../src/llm/item.ts";

/** A history as a session can hold it, and the lengths at which requests were made of it; the last one is the whole. */
export interface SessionHistory {
  readonly items: readonly Item[];
  readonly requestAt: readonly number[];
}

const anyText = fc.oneof(
  fc.constantFrom(
    "hello",
    "",
    " \n",
    "日本語 👩‍👩‍👧 é",
    "half \ud83d",
    "nul \0",
    "</system_item>",
    '<system_item kind="x">',
    "trailing \n ",
  ),
  fc.string({ maxLength: 12 }),
);

const userItem: fc.Arbitrary<Item> = fc.array(anyText, { maxLength: 3 }).map((texts) => ({
  kind: "user",
  id: "input",
  content: texts.map((text) => ({ kind: "text", text })),
}));

const common = { id: "item", origin: { by: "process" }, chain: { id: "chain", hops: 0 }, wake: true } as const;
const systemItem: fc.Arbitrary<Item> = fc.oneof(
  anyText.map((body): Item => {
    const payload = { source: "ci", message: body };
    return { kind: "system", item: { ...common, kind: "notification", trust: "external", payload, body } };
  }),
  anyText.map((body): Item => {
    const payload = { topic: "turn_failed", text: body };
    return { kind: "system", item: { ...common, kind: "reminder", trust: "operator", payload, body } };
  }),
);

const reasoning: fc.Arbitrary<Item> = fc.oneof(
  anyText.map((text): Item => ({ kind: "reasoning", text })),
  fc
    .nat()
    .map((n): Item => ({ kind: "reasoning", text: `thought ${n} 🙂\r\n `, provider: { anthropic: { signature: `sig-${n}` } } })),
  fc.nat().map((n): Item => ({ kind: "reasoning", text: "", provider: { anthropic: { redactedData: `data-${n}` } } })),
  anyText.map(
    (text): Item => ({ kind: "reasoning", text, provider: { openai: { itemId: "rs", reasoningEncryptedContent: "x" } } }),
  ),
  anyText.map((text): Item => ({ kind: "reasoning", text, provider: { google: { thoughtSignature: "g" } } })),
  fc
    .constantFrom("", "\n")
    .map((text): Item => ({ kind: "reasoning", text, provider: { google: { thoughtSignature: "e", isText: true } } })),
);
const signedText: fc.Arbitrary<Item> = fc.oneof(
  anyText.map((text): Item => ({ kind: "message", text })),
  anyText.map((text): Item => ({ kind: "message", text, provider: { google: { thoughtSignature: "t", isText: true } } })),
  anyText.map((text): Item => {
    const pieces = [
      [1, null],
      [text.length, "p"],
      [0, "q"],
    ];
    return { kind: "message", text: `a${text}`, provider: { google: { pieces, isText: true } } };
  }),
);

const callId = fc.constantFrom("toolu_1", "toolu_2", "functions.read:0", "a|b", "a_b", "é", "", "x".repeat(120));
const batch: fc.Arbitrary<readonly Item[]> = fc
  .uniqueArray(callId, { maxLength: 3 })
  .chain((ids) =>
    fc.tuple(
      ...ids.map((id) =>
        fc.record({
          id: fc.constant(id),
          name: fc.constantFrom("Bash", "Bash ", "", "__proto__", "constructor", "読む"),
          args: fc.constantFrom(
            '{"command":"ls"}',
            '{"path":"a","content":"abc',
            "[1]",
            "",
            '{"a":"\\ud83d"}',
            '{"__proto__":1}',
          ),
          content: fc.option(anyText, { nil: undefined }),
          summary: anyText,
          isError: fc.boolean(),
          signed: fc.boolean(),
        }),
      ),
    ),
  )
  .map((calls) => [
    ...calls.map((call): Item => {
      const provider = call.signed ? { provider: { google: { thoughtSignature: "c" } } } : {};
      return { kind: "tool_call", callId: call.id, name: call.name, arguments: call.args, ...provider };
    }),
    ...calls.map(
      (call): Item => ({
        kind: "tool_result",
        callId: call.id,
        name: call.name,
        summary: call.summary,
        isError: call.isError,
        ...(call.content === undefined ? {} : { content: call.content }),
      }),
    ),
  ]);

/** What came of a request: nothing (it failed or said nothing), thoughts and text (perhaps cancelled in between), calls with results. */
const answer: fc.Arbitrary<readonly Item[]> = fc.oneof(
  fc.constant([]),
  fc
    .tuple(fc.array(reasoning, { maxLength: 2 }), fc.option(signedText), batch)
    .map(([thoughts, text, calls]) => [...thoughts, ...(text === null ? [] : [text]), ...calls]),
);

const userSide = fc.array(fc.oneof(userItem, systemItem), { minLength: 1, maxLength: 3 });

/** Any history: users, notifications, reminders, signed and unsigned reasoning, cancelled texts, failed requests, batches with their results. */
export function sessionHistory(): fc.Arbitrary<SessionHistory> {
  const round = fc.record({ userSide, answer, injected: fc.array(systemItem, { maxLength: 2 }) });
  return fc.tuple(fc.array(round, { maxLength: 5 }), userSide).map(([rounds, last]) => {
    const items: Item[] = [];
    const requestAt: number[] = [];
    for (const { userSide, answer, injected } of rounds) {
      items.push(...userSide);
      requestAt.push(items.length);
      items.push(...answer);
      if (answer.at(-1)?.kind !== "tool_result") continue;
      // The follow-up request takes the results, and what arrived meanwhile.
      items.push(...injected);
      requestAt.push(items.length);
    }
    items.push(...last);
    requestAt.push(items.length);
    return { items: items.map(withOwnProofs), requestAt };
  });
}

// No provider gives a proof twice.
function withOwnProofs(item: Item, index: number): Item {
  if (!("provider" in item) || item.provider === undefined) return item;
  const json = JSON.stringify(item.provider);
  return { ...item, provider: JSON.parse(json.replace(/"(rs|x|g|e|t|p|q|c)"/g, `"$1-${index}"`)) };
}
