import { createAnthropic, VERSION } from "@ai-sdk/anthropic";
import { isJsonObject } from "../base/json.ts";
import type { ProviderSettings } from "../protocol/provider-settings.ts";
import { createAiSdkModel } from "./ai-sdk-model.ts";
import { shownUrl } from "./base-url.ts";
import { adapterName, anthropicCapabilities, withSettings } from "./capabilities.ts";
import type { ProviderMetadata } from "./item.ts";
import type { Model } from "./model.ts";

export interface AnthropicOptions {
  /** Stands before the slash of the model's reference; absent = `anthropic`. */
  readonly provider?: string;
  readonly settings?: ProviderSettings;
  readonly apiKey: string;
  /** With or without a trailing slash or `/v1`; absent = Anthropic's own. */
  readonly baseUrl?: string;
}

const OWN_BASE_URL = "https://api.anthropic.com";

// A mark on the request and one on the system prompt: the first lets the server mark the last block by itself, so no mark of ours ever
// moves and the prefix of the bytes stays (B61).
const CACHE_MARK = { type: "ephemeral" } as const;

/** What a stream of this provider may hold; anything else is of a newer kind and says nothing to us. */
const KNOWN_EVENTS: ReadonlySet<unknown> = new Set([
  "message_start",
  "message_delta",
  "message_stop",
  "content_block_start",
  "content_block_delta",
  "content_block_stop",
  "ping",
  "error",
]);
const KNOWN_DELTAS: ReadonlySet<unknown> = new Set(["text_delta", "input_json_delta", "thinking_delta", "signature_delta"]);
const KNOWN_BLOCKS: ReadonlySet<unknown> = new Set(["text", "tool_use", "thinking", "redacted_thinking"]);

/** A model behind Anthropic's Messages API. Nothing is sent before the first request. */
export function openAnthropicModel(modelId: string, options: AnthropicOptions): Model {
  const { provider = "anthropic", settings } = options;
  const baseUrl = normalizeBaseUrl(options.baseUrl ?? OWN_BASE_URL);
  return createAiSdkModel({
    ref: `${provider}/${modelId}`,
    adapter: adapterName(`@ai-sdk/anthropic@${VERSION}`, settings),
    capabilities: withSettings(anthropicCapabilities(modelId), settings),
    protocol: "Anthropic Messages",
    baseUrl: shownUrl(baseUrl),
    createModel: (fetch) => createAnthropic({ apiKey: options.apiKey, baseURL: baseUrl, fetch })(modelId),
    namespace: { own: provider, wire: "anthropic" },
    lowering: { keepsReasoning: (metadata) => keepsReasoning(metadata, provider) },
    outputLimit: "always",
    // Without toolStreaming: it marks each tool with a setting that we have no use for.
    providerOptions: { anthropic: { cacheControl: CACHE_MARK, toolStreaming: false } },
    systemOptions: { anthropic: { cacheControl: CACHE_MARK } },
    isUnknownEvent,
  });
}

/** The base URL as the adapter wants it: ending in `/v1`, without a slash behind. */
export function normalizeBaseUrl(baseUrl: string): string {
  const bare = baseUrl.trim().replace(/\/+$/, "");
  return bare.endsWith("/v1") ? bare : `${bare}/v1`;
}

function keepsReasoning(metadata: ProviderMetadata, provider: string): boolean {
  const own = metadata[provider];
  return [own?.["signature"], own?.["redactedData"]].some((proof) => typeof proof === "string" && proof !== "");
}

function isUnknownEvent(event: unknown): boolean {
  if (!isJsonObject(event) || typeof event["type"] !== "string") return false;
  if (!KNOWN_EVENTS.has(event["type"])) return !isJsonObject(event["error"]);
  const { delta, content_block: block } = event;
  if (event["type"] === "content_block_delta") return isJsonObject(delta) && !KNOWN_DELTAS.has(delta["type"]);
  if (event["type"] === "content_block_start") return isJsonObject(block) && !KNOWN_BLOCKS.has(block["type"]);
  return false;
}
