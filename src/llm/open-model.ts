import * as path from "node:path";
import { AppError } from "../base/errors.ts";
import {
  BUILT_IN_PROVIDERS,
  builtInProviders,
  type ProviderDirectory,
  type ProviderSettings,
} from "../protocol/provider-settings.ts";
import type { Model } from "./model.ts";

/** Environment variables by name, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface OpenModelOptions {
  /** Where keys come from. */
  readonly env: Environment;
  /** The providers there are; absent = the built-in ones, with the base URLs that `env` names. */
  readonly providers?: ProviderDirectory;
  /** Directory that the file of a `script:` model is relative to; absent = the working directory. */
  readonly baseDir?: string;
  /** Only bodies are rendered, nothing is ever sent: no key is needed. */
  readonly rendersOnly?: boolean;
}

type ModelRef =
  | {
      readonly kind: "provider";
      readonly provider: string;
      readonly modelId: string;
      readonly settings: ProviderSettings;
      readonly apiKey: string | undefined;
      readonly baseUrl: string | undefined;
    }
  | { readonly kind: "script"; readonly file: string };

/** Sent where a protocol cannot do without a key and the server wants none. */
const NO_KEY = "none";

/**
 * Opens the model that a reference names: `<provider>/<model>` or `script:<file>`. Only what this model needs is loaded.
 * Throws `configuration` for an unknown provider and for a missing key, naming the variable, never its content.
 */
export async function openModel(ref: string, options: OpenModelOptions): Promise<Model> {
  const parsed = parseModelRef(ref, options);
  if (parsed.kind === "script") {
    const { openScriptedModel } = await import("./scripted/scripted-model.ts");
    return openScriptedModel(path.resolve(options.baseDir ?? ".", parsed.file));
  }
  const { provider, modelId, settings, apiKey } = parsed;
  const place = parsed.baseUrl === undefined ? {} : { baseUrl: parsed.baseUrl };
  const common = { provider, settings, apiKey: apiKey ?? NO_KEY, ...place };
  switch (settings.api) {
    case "messages": {
      const { openAnthropicModel } = await import("./anthropic.ts");
      return openAnthropicModel(modelId, common);
    }
    case "responses": {
      const { openResponsesModel } = await import("./openai-responses.ts");
      return openResponsesModel(modelId, common);
    }
    case "gemini": {
      const { openGeminiModel } = await import("./gemini.ts");
      return openGeminiModel(modelId, common);
    }
    case "chat": {
      if (parsed.baseUrl === undefined) throw new AppError("configuration", `the provider ${provider} has no base_url`);
      const { openChatModel } = await import("./openai-chat.ts");
      const key = apiKey === undefined ? {} : { apiKey };
      return openChatModel(modelId, { provider, settings, baseUrl: parsed.baseUrl, ...key });
    }
  }
}

/** What is wrong with a model reference, without loading or sending anything; undefined if nothing is. */
export function checkModelRef(ref: string, env: Environment, providers?: ProviderDirectory): AppError | undefined {
  try {
    parseModelRef(ref, { env, ...(providers === undefined ? {} : { providers }) });
    return undefined;
  } catch (thrown) {
    if (thrown instanceof AppError) return thrown;
    throw thrown;
  }
}

function parseModelRef(ref: string, options: OpenModelOptions): ModelRef {
  if (ref.startsWith("script:")) {
    const file = ref.slice("script:".length);
    if (file !== "") return { kind: "script", file };
    throw new AppError("configuration", `model "${ref}" names no script file`, { hint: "Write script:<file>." });
  }
  const slash = ref.indexOf("/");
  const provider = slash < 0 ? "" : ref.slice(0, slash);
  const modelId = ref.slice(slash + 1);
  if (provider === "" || modelId === "" || /\s/.test(ref)) {
    throw new AppError("configuration", `model "${ref}" is not of the form <provider>/<model>`, {
      hint: "Write for example anthropic/claude-opus-5, or script:<file> for a scripted model.",
    });
  }
  const providers = options.providers ?? builtInProviders(options.env);
  const settings = providers.get(provider);
  if (settings === undefined) {
    const known = [...new Set([...Object.keys(BUILT_IN_PROVIDERS), ...providers.keys()])].map((name) => `${name}/<model>`);
    throw new AppError("configuration", `model "${ref}": unknown provider "${provider}"`, {
      hint: `Known are ${known.join(", ")} and script:<file>; any other server is a [providers.${provider}] with a base_url in your configuration.`,
    });
  }
  const apiKey = options.rendersOnly === true ? undefined : readKey(ref, settings, options.env);
  return { kind: "provider", provider, modelId, settings, apiKey, baseUrl: readBaseUrl(ref, provider, settings) };
}

function readKey(ref: string, settings: ProviderSettings, env: Environment): string | undefined {
  const [usual] = settings.keyVariables;
  if (usual === undefined) return undefined;
  const variable = settings.keyVariables.find((name) => env[name]?.trim());
  const apiKey = variable === undefined ? "" : (env[variable]?.trim() ?? "");
  if (apiKey === "") {
    throw new AppError("configuration", `model "${ref}" needs ${settings.keyVariables.join(" or ")}, which is not set`, {
      hint: `Set ${usual} to your key, or try a scripted model (script:<file>), which needs none.`,
    });
  }
  // It travels in a header; the check must not print it.
  if (!/^[!-~]+$/.test(apiKey)) {
    throw new AppError("configuration", `${variable} holds characters that no key has (blanks, line breaks or others)`, {
      hint: "Copy the key again.",
    });
  }
  return apiKey;
}

function readBaseUrl(ref: string, provider: string, settings: ProviderSettings): string | undefined {
  const { baseUrl, baseUrlSource = `[providers.${provider}] base_url` } = settings;
  if (baseUrl === undefined) return undefined;
  const url = URL.parse(baseUrl);
  if (url !== null && (url.protocol === "http:" || url.protocol === "https:") && url.search === "" && url.hash === "")
    return baseUrl;
  // A URL can hold a password: only its place is shown.
  throw new AppError("configuration", `model "${ref}": ${baseUrlSource} is no http or https URL`, {
    hint: "Write for example http://127.0.0.1:8080; a trailing /v1 may stand or not.",
  });
}
