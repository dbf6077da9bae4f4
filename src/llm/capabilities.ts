import type { Capabilities } from "./model.ts";

/** What a Claude model can do: one row for each prefix of a model id. The first row that fits wins, so longer prefixes stand first. */
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

/** The capabilities of an Anthropic model by its id; conservative defaults for one that no row knows. */
export function anthropicCapabilities(modelId: string): Capabilities {
  return ANTHROPIC.find((row) => modelId.startsWith(row.prefix))?.capabilities ?? UNKNOWN;
}
