import type { AnswerItem, Item } from "../../../src/llm/item.ts";
import type { Model, ModelEvent, ModelFailure, ModelRequest } from "../../../src/llm/model.ts";
import { openModel } from "../../../src/llm/open-model.ts";
import { builtInProviders, type ProviderSettings } from "../../../src/protocol/provider-settings.ts";
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

/** One model on each wire of the test server, by the wire's name. */
export const MODELS = {
  messages: "anthropic/claude-sonnet-4-5",
  responses: "openai/gpt-5.5",
  chat: "local/some-model",
  gemini: "google/gemini-3.5-flash",
} as const;
export type WireName = keyof typeof MODELS;
export const WIRES: readonly WireName[] = ["messages", "responses", "chat", "gemini"];

/** Keys and base URLs of every built-in provider, all at the test server. */
export function serverEnv(baseUrl: string): Readonly<Record<string, string>> {
  return {
    ANTHROPIC_API_KEY: "test-key",
    ANTHROPIC_BASE_URL: baseUrl,
    OPENAI_API_KEY: "test-key",
    OPENAI_BASE_URL: baseUrl,
    GEMINI_API_KEY: "test-key",
    GEMINI_BASE_URL: baseUrl,
  };
}

/** Any model at the test server: those of {@link MODELS}, or `strict/...` for the strictest kind of chat server. `local` settings correct it. */
export function openAt(server: ProviderServer, ref: string, local: Partial<ProviderSettings> = {}): Promise<Model> {
  const env = serverEnv(server.baseUrl);
  const settings = { api: "chat", keyVariables: [], ...local } as const;
  const providers = new Map<string, ProviderSettings>([
    ...builtInProviders(env),
    ["local", { ...settings, baseUrl: server.baseUrl }],
    ["strict", { ...settings, strictRoles: true, baseUrl: `${server.baseUrl}/strict/v1/` }],
  ]);
  return openModel(ref, { env, providers });
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
