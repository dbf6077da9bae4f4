import * as z from "zod";

/** Protocol a provider is spoken to in: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions, Gemini streamGenerateContent. */
export const ProviderApi = z.enum(["messages", "responses", "chat", "gemini"]);
export type ProviderApi = z.infer<typeof ProviderApi>;

/** How one provider is reached and what its models can do beyond what the capability table says. Holds names of keys, never a key. */
export interface ProviderSettings {
  readonly api: ProviderApi;
  /** With or without a version at its end; absent = the provider's own. */
  readonly baseUrl?: string;
  /** Where the base URL was set, for messages. */
  readonly baseUrlSource?: string;
  /** Environment variables that may hold the key: the first that is set counts. Empty = no key is sent. */
  readonly keyVariables: readonly string[];
  /** Items of trust `operator` may go in place as role `system`; absent = the capability table, else no. */
  readonly systemInPlace?: boolean;
  /** The server wants user and assistant to alternate even behind tool results (field report B44). */
  readonly strictRoles?: boolean;
  /** A reasoning effort may be asked for; absent = the capability table, else no. */
  readonly reasoning?: boolean;
  /** The server wants its models' reasoning back as `reasoning_content` (`api = "chat"`). */
  readonly returnsReasoning?: boolean;
  /** Tokens. */
  readonly contextWindow?: number;
  /** Tokens of one answer; absent = the server decides, where it can. */
  readonly maxOutputTokens?: number;
}

/** Every provider there is, by the name that stands before the slash of a model reference. */
export type ProviderDirectory = ReadonlyMap<string, ProviderSettings>;

/** The providers that need no configuration but a key, with the variables that are usual for them, the first one first. */
export const BUILT_IN_PROVIDERS = {
  anthropic: { api: "messages", keyVariables: ["ANTHROPIC_API_KEY"], urlVariables: ["ANTHROPIC_BASE_URL"] },
  openai: { api: "responses", keyVariables: ["OPENAI_API_KEY"], urlVariables: ["OPENAI_BASE_URL"] },
  google: {
    api: "gemini",
    keyVariables: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    urlVariables: ["GEMINI_BASE_URL", "GOOGLE_BASE_URL"],
  },
} as const satisfies Record<
  string,
  { readonly api: ProviderApi; readonly keyVariables: readonly string[]; readonly urlVariables: readonly string[] }
>;
export type BuiltInProvider = keyof typeof BUILT_IN_PROVIDERS;

/** The built-in providers with the base URLs that the environment names. `env`: variables by name, as in `process.env`. */
export function builtInProviders(env: Readonly<Record<string, string | undefined>>): ProviderDirectory {
  return new Map(
    Object.entries(BUILT_IN_PROVIDERS).map(([name, { api, keyVariables, urlVariables }]) => {
      const baseUrlSource = urlVariables.find((variable) => env[variable]?.trim());
      const baseUrl = baseUrlSource === undefined ? undefined : env[baseUrlSource]?.trim();
      return [
        name,
        { api, keyVariables, ...(baseUrl === undefined || baseUrlSource === undefined ? {} : { baseUrl, baseUrlSource }) },
      ];
    }),
  );
}
