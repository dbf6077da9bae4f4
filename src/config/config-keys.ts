import * as z from "zod";
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

/** The model when nothing names one and there is a key for Anthropic. */
export const DEFAULT_ANTHROPIC_MODEL = "anthropic/claude-sonnet-5-5";

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

/** All values together, checked and typed. */
export const ConfigValues = z.strictObject({
  model: z.strictObject({
    default: ModelName.optional(),
    reasoning: ReasoningEffort,
    max_output_tokens: z.int().min(1).max(10_000_000).optional(),
  }),
  scope: z.strictObject({ deny: z.array(z.string().min(1)) }),
  limits: Limits,
  providers: z.strictObject({ anthropic: z.strictObject({ base_url: BaseUrl }) }),
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
  // A project must not decide where the user's API key is sent.
  ["providers.anthropic.base_url", { schema: BaseUrl, builtIn: ANTHROPIC_BASE_URL, place: "user_only" }],
]);

/** The known key or table that looks most like `path`. */
export function nearestKey(path: string): string {
  const tables = [...CONFIG_KEYS.keys()].map((key) => key.slice(0, key.lastIndexOf(".")));
  const known = [...CONFIG_KEYS.keys(), ...new Set(tables)];
  const distances = known.map((key) => ({
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
