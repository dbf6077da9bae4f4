import * as z from "zod";
import { StopReason } from "../../protocol/event.ts";
import type { ModelFailureCode } from "../model.ts";

/**
 * The format of a script, as `docs/scripts.md` describes it. Keys are strict: a misspelt key would silently play something else.
 * Keys are snake_case as everywhere on disk, and keep that name in the code.
 */

const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m)$/;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 };
/** A day: longer is a typing error, and far below what a timer can hold. */
const MAX_DURATION_MS = 86_400_000;

/** `20ms`, `2s`, `1.5m`: a number with its unit; in the code milliseconds. */
const Duration = z.string(`a duration with its unit, such as "200ms", "2s" or "1m"`).transform((text, context) => {
  const match = DURATION.exec(text.trim());
  const ms = Number(match?.[1]) * (UNIT_MS[match?.[2] ?? ""] ?? Number.NaN);
  if (ms <= MAX_DURATION_MS) return ms;
  context.addIssue({
    code: "custom",
    message: `is ${JSON.stringify(text)}, no duration of at most a day: write "200ms", "2s" or "1m"`,
  });
  return z.NEVER;
});

const Text = z.string("a text (put it in quotes if it looks like a number)");
const NonEmptyText = Text.min(1, "a text of at least one character");

/** One text or a list of texts. */
const Texts = z.preprocess(
  (value) => (typeof value === "string" ? [value] : value),
  z.array(NonEmptyText, "a text or a list of texts").min(1, "at least one text"),
);

const count = (min: number, what: string) => z.int(what).min(min, what).max(1_000_000_000, what);
const Tokens = count(0, "a whole number of tokens");
const Times = count(1, "a whole number of attempts, at least 1").optional();
const After = count(0, "a whole number of characters").optional();

/** Every failure a provider can have; `cancelled` is never the provider's. */
const FailureCode = z.enum(
  [
    "overloaded",
    "rate_limited",
    "server_error",
    "connection",
    "stream_cut",
    "timeout",
    "authentication",
    "not_found",
    "invalid_request",
    "too_large",
    "context_too_long",
    "quota",
    "empty_answer",
    "refused",
    "unsupported",
    "script",
  ] satisfies readonly ModelFailureCode[],
  "a failure code (docs/scripts.md lists them)",
);

const Fail = z
  .strictObject(
    {
      code: FailureCode.optional(),
      status: z.int("an HTTP status, 400 to 599").min(400).max(599).optional(),
      message: NonEmptyText.optional(),
      times: Times,
      /** Characters that are streamed before it. */
      after: After,
      retry_after: Duration.optional(),
    },
    `a map such as { status: 529 }`,
  )
  .refine((fail) => fail.code !== undefined || fail.status !== undefined, `needs "code" or "status"`);

const Drop = z.strictObject({ after: After, times: Times }, `a map such as { after: 40 }`);
const Stall = z.preprocess(
  (value) => (value === true ? {} : value),
  z.strictObject({ after: After, times: Times }, `"true", or a map with "after" and "times"`),
);

/** YAML has numbers that JSON lacks; sent as arguments they would silently be `null`. */
const JsonHolds = z.unknown().refine(isJson, "holds .nan or .inf, which JSON cannot hold");

function isJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return typeof value !== "object" || value === null || Object.values(value).every(isJson);
}

const Call = z
  .strictObject(
    {
      tool: NonEmptyText,
      input: z.record(z.string(), JsonHolds, "a map: the tool's input").optional(),
      /** Raw JSON text, also cut off or malformed. */
      arguments: Text.optional(),
      id: NonEmptyText.optional(),
    },
    `a map such as { tool: Bash, input: { command: ls } }`,
  )
  .refine((call) => call.input === undefined || call.arguments === undefined, `has "input" and "arguments": give one of them`);

const Expect = z.strictObject(
  {
    contains: Texts.optional(),
    not_contains: Texts.optional(),
    last_contains: Texts.optional(),
    system_contains: Texts.optional(),
    tools: Texts.optional(),
    count: z.record(NonEmptyText, count(0, "how often, a whole number"), "a map from text to how often it occurs").optional(),
    order: z.array(NonEmptyText, "a list of texts").min(2, "at least two texts").optional(),
    results_before: Texts.optional(),
  },
  `a map such as { contains: hello }`,
);

const WaitFor = z.strictObject({ file: NonEmptyText, within: Duration.optional() }, `a map such as { file: ready.txt }`);

const Step = z.strictObject(
  {
    expect: Expect.optional(),
    wait: Duration.optional(),
    wait_for: WaitFor.optional(),
    fail: Fail.optional(),
    stall: Stall.optional(),
    drop: Drop.optional(),
    think: Text.optional(),
    say: Text.optional(),
    call: z.array(Call, "a list of calls, each with a dash").optional(),
    pace: Duration.optional(),
    chunk: count(1, "a whole number of characters, at least 1").optional(),
    stop: StopReason.exclude(["cancelled"], "one of end, tool_calls, max_tokens, content_filter, refusal, other").optional(),
    usage: z
      .strictObject(
        {
          input: Tokens.optional(),
          output: Tokens.optional(),
          cache_read: Tokens.optional(),
          cache_write: Tokens.optional(),
        },
        `a map such as { input: 100 }`,
      )
      .optional(),
  },
  `a map such as { say: hello }`,
);

/** Schema of a whole script. */
export const Script = z
  .strictObject(
    {
      context_window: count(1, "a whole number of tokens, at least 1").optional(),
      max_output_tokens: count(1, "a whole number of tokens, at least 1").optional(),
      system_in_place: z.boolean("true or false").optional(),
      pace: Duration.optional(),
      chunk: count(1, "a whole number of characters, at least 1").optional(),
      steps: z.array(Step, "a list of steps, each with a dash").default([]),
      otherwise: Step.optional(),
    },
    `a map with "steps"`,
  )
  .refine((script) => script.steps.length > 0 || script.otherwise !== undefined, `needs "steps" (at least one) or "otherwise"`);

/** A script that was read and validated. Durations are milliseconds. */
export type Script = z.infer<typeof Script>;
/** What the model does in one request. */
export type Step = z.infer<typeof Step>;
/** What a step demands of the prompt it answers. */
export type Expect = z.infer<typeof Expect>;

const STEP_KEYS = Object.keys(Step.shape);
const TROUBLE_KEYS = Object.keys(Drop.shape);
const KEYS_BY_PLACE: Readonly<Record<string, readonly string[]>> = {
  steps: STEP_KEYS,
  otherwise: STEP_KEYS,
  expect: Object.keys(Expect.shape),
  wait_for: Object.keys(WaitFor.shape),
  fail: Object.keys(Fail.shape),
  stall: TROUBLE_KEYS,
  drop: TROUBLE_KEYS,
  call: Object.keys(Call.shape),
  usage: Object.keys(Step.shape.usage.unwrap().shape),
};

/** The keys that are known at a place of a script: `path` as zod reports it, such as `["steps", 0, "call", 1]`. */
export function knownKeysAt(path: readonly PropertyKey[]): readonly string[] {
  const place = path.findLast((part) => typeof part === "string");
  return place === undefined ? Object.keys(Script.shape) : (KEYS_BY_PLACE[place] ?? []);
}
