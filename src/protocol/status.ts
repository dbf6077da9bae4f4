import * as z from "zod";
import { ScopeEnforcement } from "./scope-rule.ts";

/** What started a turn. A turn is `user` if it took any human input. */
export const TurnTrigger = z.enum(["user", "notification", "resume"]);
export type TurnTrigger = z.infer<typeof TurnTrigger>;

/** How a turn ended. Only `completed` means that the model finished. */
export const TurnOutcome = z.enum(["completed", "failed", "cancelled", "interrupted", "abandoned"]);
export type TurnOutcome = z.infer<typeof TurnOutcome>;

/** Tokens as the provider counted them; `cost` is not guessed. `context` = size of the last request. */
export const Usage = z.object({
  input: z.int().min(0),
  output: z.int().min(0),
  cache_read: z.int().min(0),
  cache_write: z.int().min(0),
});
export type Usage = z.infer<typeof Usage>;

export const NO_USAGE: Usage = { input: 0, output: 0, cache_read: 0, cache_write: 0 };

/** Sum of two usages. */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cache_read: a.cache_read + b.cache_read,
    cache_write: a.cache_write + b.cache_write,
  };
}

/** Why a wake that is owed does not happen now (N6, N11, N12) and, where a time decides it, until when (Unix ms). */
export const WakeHeld = z.discriminatedUnion("reason", [
  z.object({ reason: z.literal("paused") }),
  z.object({ reason: z.literal("bucket_empty"), until: z.number() }),
  z.object({ reason: z.literal("after_failure"), until: z.number() }),
]);
export type WakeHeld = z.infer<typeof WakeHeld>;

export const PodState = z.enum(["idle", "running", "paused", "stopped"]);
export type PodState = z.infer<typeof PodState>;

export const Status = z.object({
  state: PodState,
  /** Number of the latest turn; 0 before the first. */
  turn: z.int().min(0),
  trigger: TurnTrigger.nullable(),
  last_outcome: TurnOutcome.nullable(),
  /** Committed inputs and system items that no request has taken in yet. */
  pending: z.int().min(0),
  wake_held: WakeHeld.nullable(),
  model: z.string(),
  usage: Usage,
  scope_enforcement: ScopeEnforcement,
});
export type Status = z.infer<typeof Status>;
