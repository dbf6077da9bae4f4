import type { ModelFailure } from "../model.ts";
import { toFailure, toReportedFailure } from "../provider-failure.ts";
import type { Step } from "./script-format.ts";

/** What keeps an attempt from being answered: after so many characters it hangs until the idle limit, or fails. */
interface Trouble {
  readonly afterCharacters: number;
  readonly end: { readonly kind: "hang" } | { readonly kind: "failure"; readonly failure: ModelFailure };
}

/**
 * The trouble of attempt `attempt` (1 = first), or undefined if it is answered. `fail` comes first, then `stall`, then `drop`, each for its
 * `times` attempts (default 1). A step that holds no answer has nothing to go on with: its last trouble stays.
 */
export function troubleOf(step: Step, attempt: number): Trouble | undefined {
  let left = attempt;
  let last: Trouble | undefined;
  for (const { trouble, times } of troublesOf(step)) {
    if (left <= times) return trouble;
    left -= times;
    last = trouble;
  }
  return hasAnswer(step) ? undefined : last;
}

function hasAnswer(step: Step): boolean {
  return step.think !== undefined || step.say !== undefined || step.call !== undefined || step.stop !== undefined;
}

interface Lasting {
  readonly trouble: Trouble;
  readonly times: number;
}

function troublesOf({ fail, stall, drop }: Step): readonly Lasting[] {
  const found: Lasting[] = [];
  const add = ({ after = 0, times = 1 }: { after?: number | undefined; times?: number | undefined }, end: Trouble["end"]) =>
    found.push({ trouble: { afterCharacters: after, end }, times });
  if (fail !== undefined) add(fail, { kind: "failure", failure: failFailure(fail) });
  if (stall !== undefined) add(stall, { kind: "hang" });
  if (drop !== undefined) {
    add(drop, { kind: "failure", failure: toFailure("stream_cut", "the script cut the stream before its final event") });
  }
  return found;
}

function failFailure({ code, status, message = "the script says so", retry_after }: NonNullable<Step["fail"]>): ModelFailure {
  const subject = `the script answered ${status ?? code}`;
  const reported = toReportedFailure({ ...(status === undefined ? {} : { status }), text: message, subject }, 0);
  return {
    ...reported,
    // A status alone means what it means from any provider.
    ...(code === undefined ? {} : { code, retryable: toFailure(code, message).retryable }),
    ...(retry_after === undefined ? {} : { retryAfterMs: retry_after }),
  };
}
