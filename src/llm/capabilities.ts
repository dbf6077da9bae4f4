import type { ProviderSettings } from "../protocol/provider-settings.ts";
import type { Capabilities } from "./model.ts";

/** What a model can do: one row for each prefix of a model id. The first row that fits wins, so longer prefixes stand first. */
interface Row {
  readonly prefix: string;
  readonly capabilities: Capabilities;
}

/** 1 M tokens of context, 128 k of output (model overview pages of Claude Opus 4.6 and newer, Sonnet 4.6 and newer). */
const large = { contextWindow: 1_000_000, maxOutputTokens: 128_000, reasoning: true } as const;
/** 200 k of context, 64 k of output (model overview: Sonnet 4 and 4.5, Opus 4.5, Haiku 4.5). */
const medium = { contextWindow: 200_000, maxOutputTokens: 64_000, reasoning: true } as const;

/**
 * `systemInPlace`: platform.claude.com, "Mid-conversation system messages": Claude Opus 4.8 was the first to take `role: "system"`
 * inside `messages`; Opus 5 and the Fable line take it too, and the adapter's own documentation names Sonnet 5.5 with them. Older
 * ones, and Sonnet 5, answer 400 "role 'system' is not supported on this model". What no source confirms is `false`: the tagged
 * block in a user message works everywhere.
 *
 * `maxOutputTokens` is the model's limit; the adapter caps it at the same number. The models before 4.5 refuse a request whose prompt and
 * `max_tokens` together exceed the window, those since end with a stop reason instead.
 */
const ANTHROPIC: readonly Row[] = [
  { prefix: "claude-opus-5", capabilities: { ...large, systemInPlace: true } },
  { prefix: "claude-fable-5", capabilities: { ...large, systemInPlace: true } },
  { prefix: "claude-sonnet-5-5", capabilities: { ...large, systemInPlace: true } },
  { prefix: "claude-sonnet-5", capabilities: { ...large, systemInPlace: false } },
  { prefix: "claude-haiku-5", capabilities: { ...large, contextWindow: 200_000, systemInPlace: false } },
  { prefix: "claude-opus-4-8", capabilities: { ...large, systemInPlace: true } },
  { prefix: "claude-opus-4-7", capabilities: { ...large, systemInPlace: false } },
  { prefix: "claude-opus-4-6", capabilities: { ...large, systemInPlace: false } },
  { prefix: "claude-sonnet-4-6", capabilities: { ...large, systemInPlace: false } },
  { prefix: "claude-opus-4-5", capabilities: { ...medium, systemInPlace: false } },
  { prefix: "claude-haiku-4-5", capabilities: { ...medium, systemInPlace: false } },
  // Opus 4 and 4.1 write at most 32 k tokens (model overview).
  { prefix: "claude-opus-4", capabilities: { ...medium, maxOutputTokens: 32_000, systemInPlace: false } },
  { prefix: "claude-sonnet-4", capabilities: { ...medium, systemInPlace: false } },
  { prefix: "claude-3-7-sonnet", capabilities: { ...medium, systemInPlace: false } },
  // No extended thinking before 3.7; Claude 3 writes at most 4 k, 3.5 at most 8 k tokens (model overview).
  {
    prefix: "claude-3-5",
    capabilities: { contextWindow: 200_000, maxOutputTokens: 8192, reasoning: false, systemInPlace: false },
  },
  {
    prefix: "claude-3-",
    capabilities: { contextWindow: 200_000, maxOutputTokens: 4096, reasoning: false, systemInPlace: false },
  },
];

/** What a model nobody told us about surely can: it costs a shorter answer, never a refused request. */
const UNKNOWN: Capabilities = { contextWindow: 128_000, maxOutputTokens: 8192, reasoning: false, systemInPlace: false };

/**
 * OpenAI: the Responses API takes a message of role developer anywhere in its input. Windows and limits as they were published for each line;
 * of the newest line we know no numbers, so it has those of the one before.
 */
const OPENAI: readonly Row[] = [
  { prefix: "gpt-6", capabilities: { contextWindow: 400_000, maxOutputTokens: 128_000, reasoning: true, systemInPlace: true } },
  {
    prefix: "gpt-5-chat",
    capabilities: { contextWindow: 128_000, maxOutputTokens: 16_384, reasoning: false, systemInPlace: true },
  },
  { prefix: "gpt-5", capabilities: { contextWindow: 400_000, maxOutputTokens: 128_000, reasoning: true, systemInPlace: true } },
  {
    prefix: "gpt-4.1",
    capabilities: { contextWindow: 1_000_000, maxOutputTokens: 32_768, reasoning: false, systemInPlace: true },
  },
  { prefix: "gpt-4o", capabilities: { contextWindow: 128_000, maxOutputTokens: 16_384, reasoning: false, systemInPlace: true } },
  { prefix: "o1", capabilities: { contextWindow: 200_000, maxOutputTokens: 100_000, reasoning: true, systemInPlace: true } },
  { prefix: "o3", capabilities: { contextWindow: 200_000, maxOutputTokens: 100_000, reasoning: true, systemInPlace: true } },
  { prefix: "o4", capabilities: { contextWindow: 200_000, maxOutputTokens: 100_000, reasoning: true, systemInPlace: true } },
];

/** Gemini has no role for the system inside `contents`: never in place. Limits and thinking (2.5 and newer): its model pages. */
const GEMINI: readonly Row[] = [
  {
    prefix: "gemini-2.0",
    capabilities: { contextWindow: 1_048_576, maxOutputTokens: 8192, reasoning: false, systemInPlace: false },
  },
  {
    prefix: "gemini-",
    capabilities: { contextWindow: 1_048_576, maxOutputTokens: 65_536, reasoning: true, systemInPlace: false },
  },
];

/** The capabilities of an Anthropic model by its id; conservative defaults for one that no row knows. */
export function anthropicCapabilities(modelId: string): Capabilities {
  return find(ANTHROPIC, modelId) ?? UNKNOWN;
}

/** The capabilities of a model of OpenAI's own by its id. */
export function openaiCapabilities(modelId: string): Capabilities {
  return find(OPENAI, modelId) ?? { ...UNKNOWN, systemInPlace: true };
}

/** The capabilities of a Gemini model by its id. */
export function geminiCapabilities(modelId: string): Capabilities {
  return find(GEMINI, modelId) ?? UNKNOWN;
}

/** A line of models that the table knows: every id that begins so. */
export interface KnownModels {
  readonly prefix: string;
  readonly capabilities: Capabilities;
}

/** The lines of models that the table knows of a built-in provider; none for any other. */
export function knownModels(provider: string): readonly KnownModels[] {
  return (
    new Map<string, readonly Row[]>([
      ["anthropic", ANTHROPIC],
      ["openai", OPENAI],
      ["google", GEMINI],
    ]).get(provider) ?? []
  );
}

/** What a model nobody told us about surely can. */
export const UNKNOWN_MODEL: Capabilities = UNKNOWN;

/** Capabilities as the user's settings for the provider correct them. */
export function withSettings(capabilities: Capabilities, settings: ProviderSettings | undefined): Capabilities {
  return {
    systemInPlace: (settings?.systemInPlace ?? capabilities.systemInPlace) && settings?.strictRoles !== true,
    contextWindow: settings?.contextWindow ?? capabilities.contextWindow,
    maxOutputTokens: settings?.maxOutputTokens ?? capabilities.maxOutputTokens,
    reasoning: settings?.reasoning ?? capabilities.reasoning,
  };
}

/**
 * Name of an adapter with the user's settings that change the bodies it makes: `audit` compares bodies only where both are as they were.
 */
export function adapterName(name: string, settings: ProviderSettings | undefined): string {
  const changed = [
    settings?.systemInPlace === undefined ? undefined : `system_in_place=${settings.systemInPlace}`,
    settings?.strictRoles === true ? "strict_roles" : undefined,
    settings?.reasoning === undefined ? undefined : `reasoning=${settings.reasoning}`,
    settings?.returnsReasoning === true ? "return_reasoning" : undefined,
    settings?.maxOutputTokens === undefined ? undefined : `max_output_tokens=${settings.maxOutputTokens}`,
  ].filter((setting) => setting !== undefined);
  return changed.length === 0 ? name : `${name} (${changed.join(", ")})`;
}

function find(table: readonly Row[], modelId: string): Capabilities | undefined {
  return table.find((row) => modelId.startsWith(row.prefix))?.capabilities;
}
