import * as z from "zod";
import { Scope } from "./scope-rule.ts";

/** Effort a reasoning model spends; `default` leaves it to the provider. */
export const ReasoningEffort = z.enum(["default", "none", "minimal", "low", "medium", "high", "xhigh"]);
export type ReasoningEffort = z.infer<typeof ReasoningEffort>;

/** Limits of one session, all overridable in `[limits]` of the configuration. */
export const Limits = z.object({
  /** LLM requests of one turn. */
  requests_per_turn: z.int().min(1).max(1_000_000),
  /** Attempts for one request, the first included. */
  attempts_per_request: z.int().min(1).max(100),
  /** First wait before a request is tried again, milliseconds; doubles with each attempt, with jitter. */
  retry_base_ms: z.int().min(1).max(60_000),
  /** Tool calls that run at the same time. */
  parallel_tool_calls: z.int().min(1).max(64),
  /** Longest a Bash call may run, seconds. */
  bash_timeout_s: z.int().min(1).max(86_400),
  /** Longest silence of a provider before and during an answer, seconds. */
  stream_idle_s: z.int().min(1).max(86_400),
  /** Characters of one tool output that reach the model. */
  tool_output_chars: z.int().min(1000).max(1_000_000),
});
export type Limits = z.infer<typeof Limits>;

/**
 * What a session learned about its provider, kept in the log like any other setting: without it the same refused request would be made
 * again after each restore (field report B50).
 */
export const Adjustments = z.object({
  /**
   * The provider that refuses to take back what it encrypted or signed before (another key, another account): of the first `before` items of
   * the history such proofs are left out. Never counts as a reason to change the history itself.
   */
  refused_proofs: z.object({ provider: z.string(), before: z.int().min(1) }).optional(),
});
export type Adjustments = z.infer<typeof Adjustments>;

/**
 * Everything about a session that a request depends on besides its history. It comes from the log at a restore, not from today's
 * configuration (session-log.md, Restore).
 */
export const SessionConfig = z.object({
  /** `<provider>/<model>` or `script:<absolute file>`. */
  model: z.string().min(1),
  reasoning: ReasoningEffort,
  /** Output limit per answer, tokens; absent = what the capability table says for the model. */
  max_output_tokens: z.int().min(1).optional(),
  scope: Scope,
  limits: Limits,
  adjustments: Adjustments.optional(),
  prompts: z.object({
    /** Template of a notification's body, with `{source}` and `{message}` (N7). */
    notification: z.string(),
  }),
});
export type SessionConfig = z.infer<typeof SessionConfig>;
