import { createOpenAICompatible, VERSION } from "@ai-sdk/openai-compatible";
import { isJsonObject } from "../base/json.ts";
import type { ProviderSettings } from "../protocol/provider-settings.ts";
import { createAiSdkModel } from "./ai-sdk-model.ts";
import { shownUrl, versionedBaseUrl } from "./base-url.ts";
import { adapterName, UNKNOWN_MODEL, withSettings } from "./capabilities.ts";
import type { Model } from "./model.ts";

/** Where a server is and who we are there. */
export interface ChatOptions {
  /** Stands before the slash of the model's reference. */
  readonly provider: string;
  readonly settings: ProviderSettings;
  /** Absent = no key is sent. */
  readonly apiKey?: string;
  /** With or without a trailing slash or version. */
  readonly baseUrl: string;
}

/** What a stream of this protocol ends with, whatever the server says about reasons (B73). */
const END_MARK = /^data: ?\[DONE\]/m;
/** Strictest servers we know of take no longer id (B52). */
const MAX_CALL_ID_CHARS = 40;

/** A model behind OpenAI's Chat Completions, as most servers speak them. Nothing is sent before the first request. */
export function openChatModel(modelId: string, options: ChatOptions): Model {
  const { provider, settings, apiKey } = options;
  const baseUrl = versionedBaseUrl(options.baseUrl, "v1");
  return createAiSdkModel({
    ref: `${provider}/${modelId}`,
    adapter: adapterName(`@ai-sdk/openai-compatible@${VERSION}`, settings),
    capabilities: withSettings(UNKNOWN_MODEL, settings),
    protocol: "OpenAI Chat Completions",
    baseUrl: shownUrl(baseUrl),
    createModel: (fetch) => {
      const key = apiKey === undefined ? {} : { apiKey };
      return createOpenAICompatible({ name: provider, baseURL: baseUrl, includeUsage: true, fetch, ...key }).chatModel(modelId);
    },
    namespace: { own: provider, wire: provider },
    lowering: {
      keepsReasoning: (metadata) => settings.returnsReasoning === true && metadata[provider]?.["reasoning"] === true,
      maxCallIdChars: MAX_CALL_ID_CHARS,
      joinsUserTexts: true,
      strictRoles: settings.strictRoles === true,
    },
    answers: settings.returnsReasoning === true ? { reasoningMark: { [provider]: { reasoning: true } } } : {},
    // Some servers give no reason, or an empty one with every event: then the mark at the end decides (B64, B73).
    isWhole: ({ raw }, tail) => (raw !== undefined && raw !== "") || END_MARK.test(tail),
    failureOf: (reason) => (reason === "error" || reason === "network_error" ? "server_error" : undefined),
    refusesEmpty: true,
    // What an unknown model can write is for its server to say; some refuse a limit that does not fit behind the prompt.
    outputLimit: settings.maxOutputTokens === undefined ? "when_set" : "always",
    isUnknownEvent,
  });
}

/** What the adapter could not read and has neither content nor an error in it says nothing to us. */
function isUnknownEvent(event: unknown): boolean {
  return isJsonObject(event) && ["choices", "error", "message", "detail"].every((key) => event[key] === undefined);
}
