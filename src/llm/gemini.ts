import { createGoogle, VERSION } from "@ai-sdk/google";
import { isJsonObject } from "../base/json.ts";
import type { ProviderSettings } from "../protocol/provider-settings.ts";
import { createAiSdkModel } from "./ai-sdk-model.ts";
import { shownUrl, versionedBaseUrl } from "./base-url.ts";
import { adapterName, geminiCapabilities, withSettings } from "./capabilities.ts";
import { geminiAnswers, geminiPieces, isSigned } from "./gemini-pieces.ts";
import type { Model, ModelFailureCode } from "./model.ts";

/** Where a provider is and who we are there. */
export interface GeminiOptions {
  /** Stands before the slash of the model's reference. */
  readonly provider: string;
  readonly settings: ProviderSettings;
  readonly apiKey: string;
  /** With or without a trailing slash or version; absent = Google's own. */
  readonly baseUrl?: string;
}

const OWN_BASE_URL = "https://generativelanguage.googleapis.com/v1beta";

/** Reasons that tell of a mishap of the model: the next attempt can be fine (B80). */
const MISHAPS: ReadonlySet<string> = new Set([
  "MALFORMED_FUNCTION_CALL",
  "UNEXPECTED_TOOL_CALL",
  "MALFORMED_RESPONSE",
  "MISSING_THOUGHT_SIGNATURE",
]);

/** A model behind the Gemini API. Nothing is sent before the first request. */
export function openGeminiModel(modelId: string, options: GeminiOptions): Model {
  const { provider, settings, apiKey } = options;
  const baseUrl = versionedBaseUrl(options.baseUrl ?? OWN_BASE_URL, "v1beta");
  // The adapter refuses a system message anywhere but at the beginning.
  const capabilities = { ...withSettings(geminiCapabilities(modelId), settings), systemInPlace: false };
  return createAiSdkModel({
    ref: `${provider}/${modelId}`,
    adapter: adapterName(`@ai-sdk/google@${VERSION}`, settings),
    capabilities,
    protocol: "Gemini",
    baseUrl: shownUrl(baseUrl),
    createModel: (fetch) => createGoogle({ apiKey, baseURL: baseUrl, fetch })(modelId),
    namespace: { own: provider, wire: "google" },
    lowering: {
      keepsReasoning: (metadata) => isSigned(metadata, provider),
      piecesOf: (text, metadata, kind) => geminiPieces(text, metadata, { own: provider, kind }),
    },
    answers: geminiAnswers,
    failureOf: (reason): ModelFailureCode | undefined => (MISHAPS.has(reason) ? "server_error" : undefined),
    refusesEmpty: true,
    outputLimit: settings.maxOutputTokens === undefined ? "when_set" : "always",
    ...(capabilities.reasoning ? { providerOptions: { google: { thinkingConfig: { includeThoughts: true } } } } : {}),
    isUnknownEvent,
  });
}

/** An event without a candidate and without an error says nothing to us. */
function isUnknownEvent(event: unknown): boolean {
  return isJsonObject(event) && event["candidates"] === undefined && event["error"] === undefined;
}
