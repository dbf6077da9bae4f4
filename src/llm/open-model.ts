import * as path from "node:path";
import { AppError } from "../base/errors.ts";
import type { Model } from "./model.ts";

/** Environment variables by name, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface OpenModelOptions {
  /** Where keys and base URLs come from. */
  readonly env: Environment;
  /** Directory that the file of a `script:` model is relative to; absent = the working directory. */
  readonly baseDir?: string;
}

type ModelRef =
  | { readonly kind: "anthropic"; readonly modelId: string; readonly apiKey: string; readonly baseUrl: string | undefined }
  | { readonly kind: "script"; readonly file: string };

const KEY_VARIABLE = "ANTHROPIC_API_KEY";
const URL_VARIABLE = "ANTHROPIC_BASE_URL";

/**
 * Opens the model that a reference names: `anthropic/<model>` or `script:<file>`. Only what this model needs is loaded.
 * Throws `configuration` for an unknown provider and for a missing key, naming the variable, never its content.
 */
export async function openModel(ref: string, options: OpenModelOptions): Promise<Model> {
  const parsed = parseModelRef(ref, options.env);
  switch (parsed.kind) {
    case "anthropic": {
      const { openAnthropicModel } = await import("./anthropic.ts");
      const { modelId, apiKey, baseUrl } = parsed;
      return openAnthropicModel(modelId, { apiKey, ...(baseUrl === undefined ? {} : { baseUrl }) });
    }
    case "script": {
      const { openScriptedModel } = await import("./scripted/scripted-model.ts");
      return openScriptedModel(path.resolve(options.baseDir ?? ".", parsed.file));
    }
  }
}

/** What is wrong with a model reference, without loading or sending anything; undefined if nothing is. */
export function checkModelRef(ref: string, env: Environment): AppError | undefined {
  try {
    parseModelRef(ref, env);
    return undefined;
  } catch (thrown) {
    if (thrown instanceof AppError) return thrown;
    throw thrown;
  }
}

function parseModelRef(ref: string, env: Environment): ModelRef {
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
  if (provider !== "anthropic") {
    throw new AppError("configuration", `model "${ref}": unknown provider "${provider}"`, {
      hint: "Known are anthropic/<model> and script:<file>.",
    });
  }
  return { kind: "anthropic", modelId, apiKey: readKey(ref, env), baseUrl: readBaseUrl(ref, env) };
}

function readKey(ref: string, env: Environment): string {
  const apiKey = env[KEY_VARIABLE]?.trim() ?? "";
  if (apiKey === "") {
    throw new AppError("configuration", `model "${ref}" needs ${KEY_VARIABLE}, which is not set`, {
      hint: `Set ${KEY_VARIABLE} to your key, or try a scripted model (script:<file>), which needs none.`,
    });
  }
  // It travels in a header; the check must not print it.
  if (!/^[!-~]+$/.test(apiKey)) {
    throw new AppError("configuration", `${KEY_VARIABLE} holds characters that no key has (blanks, line breaks or others)`, {
      hint: "Copy the key again.",
    });
  }
  return apiKey;
}

function readBaseUrl(ref: string, env: Environment): string | undefined {
  const text = env[URL_VARIABLE]?.trim() ?? "";
  if (text === "") return undefined;
  const url = URL.parse(text);
  if (url !== null && (url.protocol === "http:" || url.protocol === "https:") && url.search === "" && url.hash === "")
    return text;
  // A URL can hold a password: only the name of the variable is shown.
  throw new AppError("configuration", `model "${ref}": ${URL_VARIABLE} is no http or https URL`, {
    hint: "Write for example http://127.0.0.1:8080; a trailing /v1 may stand or not.",
  });
}
