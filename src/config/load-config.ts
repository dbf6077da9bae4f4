import { dirname, isAbsolute, join, resolve } from "node:path";
import { AppError } from "../base/errors.ts";
import { isJsonObject } from "../base/json.ts";
import type { Limits, ReasoningEffort } from "../protocol/session-config.ts";
import { checkValue, readConfigFile } from "./config-file.ts";
import { CONFIG_KEYS, ConfigValues, DEFAULT_ANTHROPIC_MODEL } from "./config-keys.ts";
import { denyPath } from "./deny-path.ts";
import { isTrustedFile, nearestUpwards } from "./project-files.ts";

/** The configuration of one working directory, complete and checked. */
export interface Config {
  readonly model: {
    /** `<provider>/<model>` or `script:<absolute file>`; undefined when nothing names one and no key is there. */
    readonly default: string | undefined;
    readonly reasoning: ReasoningEffort;
    readonly maxOutputTokens: number | undefined;
  };
  /** Absolute paths no Pod may read. */
  readonly scope: { readonly deny: readonly string[] };
  readonly limits: Limits;
  readonly providers: {
    /** `baseUrl` ends in a version (`/v1`) and no slash. `apiKey` never appears in `entries`, a log or a message. */
    readonly anthropic: { readonly baseUrl: string; readonly apiKey: string | undefined };
  };
  /** Every key with its value and where it comes from, in a fixed order: what `wakeful config` prints. */
  readonly entries: readonly ConfigEntry[];
  /** What a person should know, such as a file that was passed over. */
  readonly notes: readonly string[];
}

/** One value and its source: `built-in`, a file's path, an environment variable's name, or a flag. */
export interface ConfigEntry {
  readonly key: string;
  /** Undefined: nothing says. */
  readonly value: unknown;
  readonly source: string;
}

/** What is read, and from where. `cwd` is absolute; `places` are the user's (`resolvePlaces`). */
export interface LoadConfigOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly places: { readonly config: string; readonly home: string | undefined };
  readonly overrides?: { readonly model?: string | undefined; readonly reasoning?: string | undefined };
}

/**
 * Reads the configuration: built-in < `<config>/config.toml` < nearest `.wakeful/config.toml` upwards < environment < flags, key by key.
 * One exception: a project's `scope.deny` adds to what is denied and takes nothing away.
 * Throws `configuration`: file, line, key, and what would be right.
 */
export function loadConfig(options: LoadConfigOptions): Config {
  const { cwd, env, places, overrides = {} } = options;
  const notes: string[] = [];
  const apiKey = readApiKey(env);
  const merged = new Map<string, ConfigEntry>();
  const set = (key: string, value: unknown, source: string) => merged.set(key, { key, value, source });

  for (const [key, known] of CONFIG_KEYS) set(key, known.builtIn, "built-in");
  if (apiKey !== undefined) set("model.default", DEFAULT_ANTHROPIC_MODEL, "built-in, as ANTHROPIC_API_KEY is set");
  set("scope.deny", builtInDeny(places.home, notes), "built-in");

  const userFile = join(places.config, "config.toml");
  for (const [key, value] of readConfigFile(userFile, "user") ?? []) {
    set(
      key,
      absolute(key, value, { source: userFile, base: places.config, home: places.home, isRelativeAllowed: false }),
      userFile,
    );
  }
  const projectFile = nearestUpwards(cwd, join(".wakeful", "config.toml"));
  if (projectFile !== undefined && projectFile !== userFile) {
    if (!isTrustedFile(projectFile, cwd)) notes.push(`${projectFile} belongs to another user: not used.`);
    else {
      const base = dirname(dirname(projectFile));
      for (const [key, value] of readConfigFile(projectFile, "project") ?? []) {
        const own = absolute(key, value, { source: projectFile, base, home: places.home, isRelativeAllowed: true });
        const former = merged.get(key);
        if (Array.isArray(own) && Array.isArray(former?.value)) {
          set(key, [...new Set([...former.value, ...own])], `${former.source}, ${projectFile}`);
        } else set(key, own, projectFile);
      }
    }
  }
  const setText = (key: string, value: string | undefined, source: string) => {
    if (!value) return;
    const checked = checkValue(key, value, source);
    set(key, absolute(key, checked, { source, base: cwd, home: places.home, isRelativeAllowed: true }), source);
  };
  setText("model.default", env["WAKEFUL_MODEL"], "WAKEFUL_MODEL");
  setText("providers.anthropic.base_url", env["ANTHROPIC_BASE_URL"]?.trim(), "ANTHROPIC_BASE_URL");
  setText("model.default", overrides.model, "--model");
  setText("model.reasoning", overrides.reasoning, "--reasoning");

  return toConfig(merged, { apiKey, notes });
}

/** Every key with its value and source; the key for a provider is told by presence only. */
export function configEntries(config: Config): readonly ConfigEntry[] {
  return config.entries;
}

function toConfig(
  merged: ReadonlyMap<string, ConfigEntry>,
  rest: { readonly apiKey: string | undefined; readonly notes: readonly string[] },
): Config {
  const values = ConfigValues.parse(unflatten(merged));
  const baseUrl = withVersion(values.providers.anthropic.base_url);
  const entries = [...merged.values()].map((entry) =>
    entry.key === "providers.anthropic.base_url" ? { ...entry, value: baseUrl } : entry,
  );
  const isSet = rest.apiKey !== undefined;
  entries.push({
    key: "providers.anthropic.api_key",
    value: isSet ? "(set)" : undefined,
    source: isSet ? "ANTHROPIC_API_KEY" : "built-in",
  });
  return {
    model: {
      default: values.model.default,
      reasoning: values.model.reasoning,
      maxOutputTokens: values.model.max_output_tokens,
    },
    scope: { deny: values.scope.deny },
    limits: values.limits,
    providers: { anthropic: { baseUrl, apiKey: rest.apiKey } },
    entries,
    notes: rest.notes,
  };
}

function unflatten(merged: ReadonlyMap<string, ConfigEntry>): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const { key, value } of merged.values()) {
    const parts = key.split(".");
    const last = parts.pop() ?? key;
    let table = root;
    for (const part of parts) {
      const below = table[part] ?? {};
      if (!isJsonObject(below)) throw new AppError("internal", `the key ${key} stands below a value`);
      table[part] = below;
      table = below;
    }
    if (value !== undefined) table[last] = value;
  }
  return root;
}

interface Origin {
  readonly source: string;
  /** What relative paths are relative to. */
  readonly base: string;
  readonly home: string | undefined;
  readonly isRelativeAllowed: boolean;
}

/** Makes the paths in a value absolute: a path means the same wherever the Pod is started. */
function absolute(key: string, value: unknown, origin: Origin): unknown {
  if (key === "scope.deny" && Array.isArray(value)) return value.map((path) => denyPath(String(path), origin));
  if (key === "model.default" && typeof value === "string" && value.startsWith("script:")) {
    const file = value.slice("script:".length);
    if (file.startsWith("~/") && origin.home !== undefined) return `script:${join(origin.home, file.slice(2))}`;
    return `script:${isAbsolute(file) ? file : resolve(origin.base, file)}`;
  }
  return value;
}

function builtInDeny(home: string | undefined, notes: string[]): readonly string[] {
  const paths = ConfigValues.shape.scope.shape.deny.parse(CONFIG_KEYS.get("scope.deny")?.builtIn);
  if (home === undefined) notes.push("There is no home directory: the built-in list of credential files in it does not apply.");
  return paths
    .filter((path) => home !== undefined || !path.startsWith("~"))
    .map((path) => denyPath(path, { source: "built-in", base: "/", home, isRelativeAllowed: false }));
}

/** A base URL with or without the version at its end, as the usual variables hold either. */
function withVersion(url: string): string {
  const bare = url.replace(/\/+$/, "");
  return /\/v\d+[a-z0-9]*$/.test(bare) ? bare : `${bare}/v1`;
}

function readApiKey(env: LoadConfigOptions["env"]): string | undefined {
  const key = env["ANTHROPIC_API_KEY"]?.trim();
  if (!key) return undefined;
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  // It goes into a header: better one line here than a failure at the first request. The key itself is not shown.
  throw new AppError("configuration", "ANTHROPIC_API_KEY holds white space or characters that no key has", {
    hint: "Set it again, without quotes and line breaks.",
  });
}
