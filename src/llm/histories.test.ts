import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MODELS, openAt, WIRES, type WireName } from "../../test/support/provider-server/ask-model.ts";
import { startProviderServer } from "../../test/support/provider-server/provider-server.ts";
import { sessionHistory } from "../../test/support/provider-server/session-history.ts";
import { AnthropicMemory } from "../../test/support/provider-server/wires/anthropic-memory.ts";
import { checkAnthropic } from "../../test/support/provider-server/wires/anthropic-rules.ts";
import { checkChat } from "../../test/support/provider-server/wires/chat-rules.ts";
import { GeminiMemory } from "../../test/support/provider-server/wires/gemini-memory.ts";
import { checkGemini } from "../../test/support/provider-server/wires/gemini-rules.ts";
import { ResponsesMemory } from "../../test/support/provider-server/wires/responses-memory.ts";
import { checkResponses } from "../../test/support/provider-server/wires/responses-rules.ts";
import { toSafeText } from "../base/text.ts";
import type { Item } from "./item.ts";
import { wireToolName } from "./wire-name.ts";

const HEADERS = {
  "content-type": "application/json",
  "anthropic-version": "2023-06-01",
  "x-api-key": "k",
  "x-goog-api-key": "k",
  authorization: "Bearer k",
};

type Check = (body: unknown, items: readonly Item[]) => string[];
const CHECKS: Readonly<Record<WireName | "strict", Check>> = {
  messages: (body, items) => {
    const memory = new AnthropicMemory();
    for (const item of items) {
      if (item.kind !== "reasoning") continue;
      const { signature, redactedData } = item.provider?.["anthropic"] ?? {};
      if (typeof signature === "string") memory.thinking.set(signature, item.text);
      if (typeof redactedData === "string") memory.redacted.add(redactedData);
    }
    return checkAnthropic(body, HEADERS, memory);
  },
  responses: (body, items) => {
    const memory = new ResponsesMemory();
    for (const item of items) {
      const encrypted = item.kind === "reasoning" ? item.provider?.["openai"]?.["reasoningEncryptedContent"] : undefined;
      if (typeof encrypted === "string") memory.reasoning.set(encrypted, undefined);
    }
    return checkResponses(body, HEADERS, memory);
  },
  chat: (body) => checkChat(body, HEADERS, { reasoning: new Set() }, { alternates: false }),
  strict: (body) => checkChat(body, HEADERS, { reasoning: new Set() }, { alternates: true }),
  gemini: (body, items) => checkGemini(body, HEADERS, geminiMemory(items)),
};

function geminiMemory(items: readonly Item[]): GeminiMemory {
  const memory = new GeminiMemory();
  for (const item of items) {
    if (item.kind !== "message" && item.kind !== "reasoning" && item.kind !== "tool_call") continue;
    const { thoughtSignature: signature, pieces, isText } = item.provider?.["google"] ?? {};
    const kind = item.kind === "tool_call" ? "call" : item.kind === "message" || isText === true ? "text" : "thought";
    const text =
      item.kind === "tool_call" ? wireToolName(item.name) : item.kind === "message" ? toSafeText(item.text) : item.text;
    if (typeof signature === "string") memory.signed.set(signature, { kind, text: text.toWellFormed() });
    let at = 0;
    for (const [chars, proof] of Array.isArray(pieces) ? pieces : []) {
      if (proof !== null) memory.signed.set(proof, { kind, text: text.slice(at, at + chars) });
      at += chars;
    }
  }
  return memory;
}

describe("any history a session can hold", () => {
  it.each([...WIRES, "strict"] as const)(
    "makes requests that a strict server takes, of any provider's making: %s (B42, B44, B46, B47, B51, B52)",
    async (wire) => {
      await using server = await startProviderServer();
      const model = await openAt(server, wire === "strict" ? "strict/m" : MODELS[wire]);
      let kept = 0;
      await fc.assert(
        fc.asyncProperty(sessionHistory(), async ({ items, requestAt }) => {
          for (const length of requestAt) {
            const prompt = { system: "S", tools: [], items: items.slice(0, length) };
            const json = new TextDecoder().decode(await model.renderBody(prompt, { reasoning: "default" }));
            expect(json.isWellFormed() && !/\\ud[89a-f]/i.test(json)).toBe(true);
            expect(CHECKS[wire](JSON.parse(json), items)).toEqual([]);
            if (/"(signature|encrypted_content|thoughtSignature)":"/.test(json)) kept += 1;
          }
        }),
        { numRuns: 40 },
      );
      // The wires that sign get back what they signed.
      expect(kept > 0).toBe(wire === "messages" || wire === "responses" || wire === "gemini");
    },
    30_000,
  );
});

/** The list of turns in a body of a wire, each as text, and what stands before it. */
function turnsOf(wire: WireName, body: Uint8Array): { readonly turns: string[]; readonly rest: string } {
  const { messages, input, contents, ...rest }: Record<string, unknown> = JSON.parse(new TextDecoder().decode(body));
  const list = { messages, responses: input, chat: messages, gemini: contents }[wire];
  if (!Array.isArray(list)) throw new Error(`no turns in a body of ${wire}`);
  return { turns: list.map((turn) => JSON.stringify(turn)), rest: JSON.stringify(rest) };
}

// The last turn of the user's side can still grow (N5), within its text or by a part: what stays is all of it but the closing marks.
const opened = (turn: string) => turn.replace(/["\]}]+$/, "");

describe("a growing conversation (I11, B61)", () => {
  it.each(WIRES)(
    "only goes on where it ended, byte for byte up to its last turn: %s",
    async (wire) => {
      await using server = await startProviderServer();
      const model = await openAt(server, MODELS[wire]);
      let compared = 0;
      await fc.assert(
        fc.asyncProperty(sessionHistory(), async ({ items, requestAt }) => {
          let former: ReturnType<typeof turnsOf> | undefined;
          for (const length of requestAt) {
            const prompt = { system: "S", tools: [], items: items.slice(0, length) };
            const next = turnsOf(wire, await model.renderBody(prompt, { reasoning: "default" }));
            if (former !== undefined && !isProvisional(former.turns)) {
              compared += 1;
              expect(next.rest).toBe(former.rest);
              expect(next.turns.slice(0, former.turns.length - 1)).toEqual(former.turns.slice(0, -1));
              const last = former.turns.at(-1) ?? "";
              expect(next.turns[former.turns.length - 1]?.startsWith(opened(last))).toBe(true);
            }
            former = next;
          }
        }),
        { numRuns: 25 },
      );
      expect(compared).toBeGreaterThan(10);
    },
    30_000,
  );
});

// An operator item in place at the end can become a block if no answer follows: see LoweredConversation, 5.
function isProvisional(turns: readonly string[]): boolean {
  return /"role":"(developer|system)"/.test(turns.at(-1) ?? "");
}
