import { createOpenAI, VERSION } from "@ai-sdk/openai";
import { isJsonObject } from "../base/json.ts";
import type { ProviderSettings } from "../protocol/provider-settings.ts";
import { createAiSdkModel } from "./ai-sdk-model.ts";
import { shownUrl, versionedBaseUrl } from "./base-url.ts";
import { adapterName, openaiCapabilities, UNKNOWN_MODEL, withSettings } from "./capabilities.ts";
import type { Model } from "./model.ts";

/** Where a provider is and who we are there. */
export interface OpenAiOptions {
  /** Stands before the slash of the model's reference. */
  readonly provider: string;
  readonly settings: ProviderSettings;
  readonly apiKey: string;
  /** With or without a trailing slash or version; absent = OpenAI's own. */
  readonly baseUrl?: string;
}

const OWN_BASE_URL = "https://api.openai.com/v1";

/**
 * A model behind OpenAI's Responses API, stateless: nothing is stored there, reasoning goes back encrypted with each request. Nothing is sent
 * before the first request.
 */
export function openResponsesModel(modelId: string, options: OpenAiOptions): Model {
  const { provider, settings, apiKey } = options;
  const baseUrl = versionedBaseUrl(options.baseUrl ?? OWN_BASE_URL, "v1");
  const known = provider === "openai" ? openaiCapabilities(modelId) : UNKNOWN_MODEL;
  const capabilities = withSettings(known, settings);
  return createAiSdkModel({
    ref: `${provider}/${modelId}`,
    adapter: adapterName(`@ai-sdk/openai@${VERSION}`, settings),
    capabilities,
    protocol: "OpenAI Responses",
    baseUrl: shownUrl(baseUrl),
    createModel: (fetch) => createOpenAI({ apiKey, baseURL: baseUrl, fetch }).responses(modelId),
    namespace: { own: provider, wire: "openai" },
    lowering: {
      // A reasoning item can be several of ours, of which only the last holds the encrypted content; what has none is left out by the adapter.
      keepsReasoning: (metadata) =>
        isText(metadata[provider]?.["itemId"]) || isText(metadata[provider]?.["reasoningEncryptedContent"]),
    },
    // The adapter gives no raw reason for an answer that simply ended.
    isWhole: ({ unified }) => unified !== "interrupted" && unified !== "error",
    refusesEmpty: true,
    // Limits count against the rate limit as if they were used up, so none is asked for without need.
    outputLimit: settings.maxOutputTokens === undefined ? "when_set" : "always",
    // The API takes functions for strict ones unless told otherwise, and then has no optional parameters.
    strictTools: false,
    providerOptions: {
      openai: {
        store: false,
        forceReasoning: capabilities.reasoning,
        systemMessageMode: provider === "openai" ? "developer" : "system",
        // Summaries are refused to organisations that are not verified.
        reasoningSummary: null,
      },
    },
    isUnknownEvent,
  });
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

/** What the adapter could not read is of a newer kind when it looks like an event of this API, is no error and ends nothing. */
function isUnknownEvent(event: unknown): boolean {
  if (!isJsonObject(event) || typeof event["type"] !== "string" || isJsonObject(event["error"])) return false;
  return !["error", "response.completed", "response.incomplete", "response.failed"].includes(event["type"]);
}
