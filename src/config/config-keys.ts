import * as z from "zod";
import { BUILT_IN_PROVIDERS, type BuiltInProvider, ProviderApi } from "../protocol/provider-settings.ts";
import { Limits, ReasoningEffort } from "../protocol/session-config.ts";

/** Where a key may stand: everywhere, or in the user's own file only (a project's file comes with whatever was cloned). */
export type KeyPlace = "everywhere" | "user_only";

/** One key of the configuration: what it takes, and what it is when nobody says. `undefined` = no value. */
export interface ConfigKey {
  readonly schema: z.ZodType;
  readonly builtIn: unknown;
  readonly place: KeyPlace;
}

/** Base URL of Anthropic's own API. */
export const ANTHROPIC_BASE_URL = "https://api.anthropic.com/v1";

/** The model when nothing names one and there is a key for its provider; the first provider with a key wins. */
export const DEFAULT_MODELS: Readonly<Record<BuiltInProvider, string>> = {
  anthropic: "anthropic/claude-sonnet-5-5",
  openai: "openai/gpt-5.5",
  google: "google/gemini-3.5-flash",
};

/** Limits of a session when nothing says otherwise. */
export const DEFAULT_LIMITS: Limits = {
  requests_per_turn: 200,
  attempts_per_request: 8,
  retry_base_ms: 1000,
  parallel_tool_calls: 8,
  bash_timeout_s: 600,
  stream_idle_s: 300,
  tool_output_chars: 30_000,
};

/** Size from which on a session's log goes on in a new file, MiB. */
const DEFAULT_ROTATE_MIB = 8;

/** Private keys and credential files: closed to every Pod unless the user's own configuration says otherwise. */
export const DEFAULT_DENY: readonly string[] = [
  "~/.ssh",
  "~/.gnupg",
  "~/.aws",
  "~/.azure",
  "~/.config/gcloud",
  "~/.config/gh",
  "~/.config/op",
  "~/.kube",
  "~/.docker/config.json",
  "~/.netrc",
  "~/.npmrc",
  "~/.pypirc",
  "~/.pgpass",
  "~/.my.cnf",
  "~/.git-credentials",
  "~/.config/git/credentials",
  "~/.cargo/credentials",
  "~/.cargo/credentials.toml",
  "~/.gem/credentials",
  "~/.terraform.d/credentials.tfrc.json",
  "~/.vault-token",
  "~/.password-store",
  "~/.local/share/keyrings",
  "~/.claude/.credentials.json",
  "~/.codex/auth.json",
  "~/Library/Keychains",
  "/etc/shadow",
  "/etc/gshadow",
];

/** What kind of model name can be meant at all; whether the model exists is for its adapter to say. */
const ModelName = z.string().regex(/^(script:.+|[A-Za-z0-9][A-Za-z0-9._-]*\/\S+)$/s, "must be PROVIDER/MODEL or script:FILE");

const BaseUrl = z.string().refine(isHttpUrl, "must be an http or https URL");

/** A fraction is fine: a small file is for whoever wants to see a new one begin. */
const RotateMib = z.number().min(0.001).max(1024);

const EnvironmentName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of an environment variable");

/** What `[providers.NAME]` can say of a provider that is not built in. */
export const NamedProvider = z.strictObject({
  base_url: BaseUrl,
  api: ProviderApi.default("chat"),
  api_key_env: EnvironmentName.optional(),
  system_in_place: z.boolean().optional(),
  strict_roles: z.boolean().optional(),
  reasoning: z.boolean().optional(),
  return_reasoning: z.boolean().optional(),
  context_window: z.int().min(1000).max(100_000_000).optional(),
  max_output_tokens: z.int().min(1).max(10_000_000).optional(),
});
export type NamedProvider = z.infer<typeof NamedProvider>;

const OwnProvider = z.strictObject({ base_url: BaseUrl.optional() });

/** All values together, checked and typed. */
export const ConfigValues = z.strictObject({
  model: z.strictObject({
    default: ModelName.optional(),
    reasoning: ReasoningEffort,
    max_output_tokens: z.int().min(1).max(10_000_000).optional(),
  }),
  scope: z.strictObject({ deny: z.array(z.string().min(1)) }),
  limits: Limits,
  log: z.strictObject({ rotate_mib: RotateMib }),
  providers: z
    .object({ anthropic: z.strictObject({ base_url: BaseUrl }), openai: OwnProvider.optional(), google: OwnProvider.optional() })
    .catchall(NamedProvider),
});
export type ConfigValues = z.infer<typeof ConfigValues>;

/** Every key there is, by its dotted path. A key that does nothing is not here. */
export const CONFIG_KEYS: ReadonlyMap<string, ConfigKey> = new Map<string, ConfigKey>([
  ["model.default", everywhere(ConfigValues.shape.model.shape.default, undefined)],
  ["model.reasoning", everywhere(ReasoningEffort, "default")],
  ["model.max_output_tokens", everywhere(ConfigValues.shape.model.shape.max_output_tokens, undefined)],
  ["scope.deny", everywhere(ConfigValues.shape.scope.shape.deny, DEFAULT_DENY)],
  ...Object.entries(Limits.shape).map(([name, schema]): [string, ConfigKey] => [
    `limits.${name}`,
    everywhere(schema, DEFAULT_LIMITS[Limits.keyof().parse(name)]),
  ]),
  // Only how the user's own disk is used.
  ["log.rotate_mib", { schema: RotateMib, builtIn: DEFAULT_ROTATE_MIB, place: "user_only" }],
  // A project must not decide where the user's API key is sent.
  ["providers.anthropic.base_url", { schema: BaseUrl, builtIn: ANTHROPIC_BASE_URL, place: "user_only" }],
  ["providers.openai.base_url", { schema: BaseUrl, builtIn: undefined, place: "user_only" }],
  ["providers.google.base_url", { schema: BaseUrl, builtIn: undefined, place: "user_only" }],
]);

/** The key at a dotted path: one of {@link CONFIG_KEYS}, or one of a provider that the user named. */
export function findKey(path: string): ConfigKey | undefined {
  const known = CONFIG_KEYS.get(path);
  if (known !== undefined) return known;
  const field = providerField(path);
  if (field === undefined || !Object.hasOwn(NamedProvider.shape, field)) return undefined;
  return { schema: NamedProvider.shape[NamedProvider.keyof().parse(field)], builtIn: undefined, place: "user_only" };
}

/** Whether keys stand below `path`. */
export function isTablePath(path: string): boolean {
  return providerField(`${path}.base_url`) !== undefined || [...CONFIG_KEYS.keys()].some((key) => key.startsWith(`${path}.`));
}

/** `base_url` in `providers.NAME.base_url`, for a NAME that is not built in. */
function providerField(path: string): string | undefined {
  const [, name, field] = /^providers\.([A-Za-z0-9][A-Za-z0-9_-]*)\.([^.]+)$/.exec(path) ?? [];
  return name === undefined || name in BUILT_IN_PROVIDERS || name in Object.prototype ? undefined : field;
}

/** The known key or table that looks most like `path`. */
export function nearestKey(path: string): string {
  const tables = [...CONFIG_KEYS.keys()].map((key) => key.slice(0, key.lastIndexOf(".")));
  const table = path.slice(0, path.lastIndexOf("."));
  const ofProvider =
    providerField(path) === undefined ? [] : Object.keys(NamedProvider.shape).map((field) => `${table}.${field}`);
  const known = [...ofProvider, ...CONFIG_KEYS.keys(), ...new Set(tables)];
  // A provider's table is chosen on purpose: what stands in it is nearer than what looks alike elsewhere.
  const inTable = table.startsWith("providers.") ? known.filter((key) => key.startsWith(`${table}.`)) : [];
  const distances = (inTable.length > 0 ? inTable : known).map((key) => ({
    key,
    distance: Math.min(editDistance(path, key), 1 + editDistance(lastPart(path), lastPart(key))),
  }));
  return distances.reduce((best, next) => (next.distance < best.distance ? next : best)).key;
}

function everywhere(schema: z.ZodType, builtIn: unknown): ConfigKey {
  return { schema, builtIn, place: "everywhere" };
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1);
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === "https:" || url.protocol === "http:") && url.search === "" && url.hash === "";
}

/** Levenshtein's distance. Keys are short; a long foreign one is cut so that it costs nothing. */
function editDistance(a: string, b: string): number {
  const left = a.slice(0, 100);
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 0; i < left.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (row[j] ?? 0) + (left[i] === b[j] ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
