import type { AnswerItem, Item } from "../../../src/llm/item.ts";
import type { Model, ModelEvent, ModelFailure, ModelRequest } from "../../../src/llm/model.ts";
import { openModel } from "../../../src/llm/open-model.ts";
import type { ProviderServer } from "./provider-server.ts";

export const BASH = {
  name: "Bash",
  description: "Runs a command.",
  inputSchema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};

/** An Anthropic model whose provider is the test server. */
export function modelAt(server: ProviderServer, modelId = "claude-opus-5"): Promise<Model> {
  return openModel(`anthropic/${modelId}`, { env: { ANTHROPIC_API_KEY: "test-key", ANTHROPIC_BASE_URL: server.baseUrl } });
}

/** A human's words as an item. */
export function words(text: string): Item {
  return { kind: "user", id: "input", content: [{ kind: "text", text }] };
}

/** A request with everything filled in that a test does not care about. */
export function requestOf(more: Partial<ModelRequest> & { readonly items?: readonly Item[] } = {}): ModelRequest {
  const { items = [words("hi")], ...given } = more;
  return {
    prompt: { system: "You are a test.", tools: [BASH], items },
    settings: { reasoning: "default" },
    signal: new AbortController().signal,
    position: { answered: 0, attempt: 1 },
    idleTimeoutMs: 5000,
    beforeSend: async () => undefined,
    ...given,
  };
}

/** All events of an answer. */
export async function ask(model: Model, more: Parameters<typeof requestOf>[0] = {}): Promise<ModelEvent[]> {
  const events: ModelEvent[] = [];
  for await (const event of model.stream(requestOf(more))) events.push(event);
  return events;
}

/** The complete items among events. */
export function itemsOf(events: readonly ModelEvent[]): AnswerItem[] {
  return events.flatMap((event) => (event.type === "item" ? [event.item] : []));
}

/** The failure that ended an answer; throws if it did not fail. */
export function failureOf(events: readonly ModelEvent[]): ModelFailure {
  const last = events.at(-1);
  if (last?.type !== "failure") throw new Error(`the answer did not fail: ${JSON.stringify(events)}`);
  return last.failure;
}
