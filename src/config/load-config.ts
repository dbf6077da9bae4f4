import { dirname, isAbsolute, join, resolve } from "node:path";
import { AppError } from "../base/errors.ts";
import { isJsonObject } from "../base/json.ts";
import { BUILT_IN_PROVIDERS, type ProviderDirectory, type ProviderSettings } from "../protocol/provider-settings.ts";
import type { Limits, ReasoningEffort } from "../protocol/session-config.ts";
import { checkOption, checkValue, readConfigFile } from "./config-file.ts";
import { CONFIG_KEYS, ConfigValues, DEFAULT_MODELS, NamedProvider } from "./config-keys.ts";
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
  /** Size from which on a session's log may go on in a new file. */
  readonly log: { readonly rotateBytes: number };
  readonly providers: {
    /** `baseUrl` ends in a version (`/v1`) and no slash. `apiKey` never appears in `entries`, a log or a message. */
    readonly anthropic: { readonly baseUrl: string; readonly apiKey: string | undefined };
    /** Every provider, built in or named by the user, with its base URL: what a model is opened with. */
    readonly all: ProviderDirectory;
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
 * Throws `configuration`: file, line, key, and what would be right; `invalid_input` for an override.
 */
export function loadConfig(options: LoadConfigOptions): Config {
  const { cwd, env, places, overrides = {} } = options;
  const notes: string[] = [];
  const keys = readKeys(env);
  const merged = new Map<string, ConfigEntry>();
  const set = (key: string, value: unknown, source: string) => merged.set(key, { key, value, source });

  for (const [key, known] of CONFIG_KEYS) set(key, known.builtIn, "built-in");
  const [first] = keys;
  if (first !== undefined) set("model.default", DEFAULT_MODELS[first.provider], `built-in, as ${first.variable} is set`);
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
  const setText = (key: string, value: string | undefined, source: string, check = checkValue) => {
    if (!value) return;
    const checked = check(key, value, source);
    set(key, absolute(key, checked, { source, base: cwd, home: places.home, isRelativeAllowed: true }), source);
  };
  setText("model.default", env["WAKEFUL_MODEL"], "WAKEFUL_MODEL");
  for (const [name, { urlVariables }] of Object.entries(BUILT_IN_PROVIDERS)) {
    for (const variable of urlVariables.toReversed()) setText(`providers.${name}.base_url`, env[variable]?.trim(), variable);
  }
  setText("model.default", overrides.model, "--model", checkOption);
  setText("model.reasoning", overrides.reasoning, "--reasoning", checkOption);

  return toConfig(merged, { keys, notes });
}

/** Every key with its value and source; the key for a provider is told by presence only. */
export function configEntries(config: Config): readonly ConfigEntry[] {
  return config.entries;
}

function toConfig(
  merged: ReadonlyMap<string, ConfigEntry>,
  rest: { readonly keys: readonly FoundKey[]; readonly notes: readonly string[] },
): Config {
  refuseProvidersWithoutUrl(merged);
  const values = ConfigValues.parse(unflatten(merged));
  const baseUrl = withVersion(values.providers.anthropic.base_url);
  const entries = [...merged.values()].map((entry) =>
    entry.key === "providers.anthropic.base_url" ? { ...entry, value: baseUrl } : entry,
  );
  for (const name of Object.keys(BUILT_IN_PROVIDERS)) {
    const found = rest.keys.find((key) => key.provider === name);
    const key = `providers.${name}.api_key`;
    entries.push({ key, value: found === undefined ? undefined : "(set)", source: found?.variable ?? "built-in" });
  }
  return {
    model: {
      default: values.model.default,
      reasoning: values.model.reasoning,
      maxOutputTokens: values.model.max_output_tokens,
    },
    scope: { deny: values.scope.deny },
    limits: values.limits,
    log: { rotateBytes: values.log.rotate_mib * 1024 * 1024 },
    providers: {
      anthropic: { baseUrl, apiKey: rest.keys.find((key) => key.provider === "anthropic")?.key },
      all: toDirectory(values, merged),
    },
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

/** A key that the environment holds for a built-in provider. */
interface FoundKey {
  readonly provider: keyof typeof BUILT_IN_PROVIDERS;
  readonly variable: string;
  readonly key: string;
}

function readKeys(env: LoadConfigOptions["env"]): readonly FoundKey[] {
  const providers = ["anthropic", "openai", "google"] as const;
  return providers.flatMap((provider): FoundKey[] => {
    const variable = BUILT_IN_PROVIDERS[provider].keyVariables.find((name) => env[name]?.trim());
    const key = variable === undefined ? undefined : env[variable]?.trim();
    if (variable === undefined || key === undefined) return [];
    if (/^[\x21-\x7e]+$/.test(key)) return [{ provider, variable, key }];
    // It goes into a header: better one line here than a failure at the first request. The key itself is not shown.
    throw new AppError("configuration", `${variable} holds white space or characters that no key has`, {
      hint: "Set it again, without quotes and line breaks.",
    });
  });
}

/** A provider without an address is of no use: said here with its place, not at the first request. */
function refuseProvidersWithoutUrl(merged: ReadonlyMap<string, ConfigEntry>): void {
  for (const { key, source } of merged.values()) {
    const name = /^providers\.([^.]+)\./.exec(key)?.[1];
    if (name === undefined || Object.hasOwn(BUILT_IN_PROVIDERS, name) || merged.has(`providers.${name}.base_url`)) continue;
    throw new AppError("configuration", `${source}: [providers.${name}] has no base_url`, {
      hint: `Write for example base_url = "http://127.0.0.1:11434/v1".`,
    });
  }
}

function toDirectory(values: ConfigValues, merged: ReadonlyMap<string, ConfigEntry>): ProviderDirectory {
  const directory = new Map<string, ProviderSettings>();
  for (const [name, settings] of Object.entries(values.providers)) {
    const { base_url: baseUrl } = settings ?? {};
    const source = merged.get(`providers.${name}.base_url`)?.source;
    const place = baseUrl === undefined || source === undefined ? {} : { baseUrl, baseUrlSource: source };
    const named = NamedProvider.safeParse(settings);
    const builtIn = Object.entries(BUILT_IN_PROVIDERS).find(([known]) => known === name)?.[1];
    if (builtIn !== undefined) directory.set(name, { api: builtIn.api, keyVariables: builtIn.keyVariables, ...place });
    else if (named.success) directory.set(name, { ...toSettings(named.data), ...place });
  }
  for (const [name, { api, keyVariables }] of Object.entries(BUILT_IN_PROVIDERS)) {
    if (!directory.has(name)) directory.set(name, { api, keyVariables });
  }
  return directory;
}

function toSettings(named: NamedProvider): ProviderSettings {
  return {
    api: named.api,
    keyVariables: named.api_key_env === undefined ? [] : [named.api_key_env],
    ...(named.system_in_place === undefined ? {} : { systemInPlace: named.system_in_place }),
    ...(named.strict_roles === undefined ? {} : { strictRoles: named.strict_roles }),
    ...(named.reasoning === undefined ? {} : { reasoning: named.reasoning }),
    ...(named.return_reasoning === undefined ? {} : { returnsReasoning: named.return_reasoning }),
    ...(named.context_window === undefined ? {} : { contextWindow: named.context_window }),
    ...(named.max_output_tokens === undefined ? {} : { maxOutputTokens: named.max_output_tokens }),
  };
}
