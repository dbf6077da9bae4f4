import type { TurnError } from "../protocol/event.ts";
import type { TurnOutcome } from "../protocol/status.ts";
import type { NewEntry } from "../session-log/entry.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { openCalls, syntheticResult } from "./restore.ts";
import { reminderEntries } from "./system-item-body.ts";

/**
 * The entries that end the open turn: a result for every call that has none (I5), `turn_ended`, and for an end the model should know
 * of a reminder in the next request.
 */
export function closeTurnEntries(state: Readonly<SessionState>, outcome: TurnOutcome, error?: TurnError): NewEntry[] {
  const { turn } = state;
  if (!turn) return [];
  const entries: NewEntry[] = [];
  const open = openCalls(state);
  if (open.length > 0) {
    const items = open.map((call) =>
      call.started
        ? syntheticResult(call, outcome, `The turn was ${outcome} while this call ran. It may or may not have taken effect.`)
        : syntheticResult(call, outcome, `The turn was ${outcome} before this call started. It has not run.`),
    );
    entries.push({ type: "tool_results", items });
  }
  entries.push({ type: "turn_ended", turn: turn.turn, outcome, ...(error ? { error } : {}) });
  const text = reminderText(outcome, error);
  if (text) entries.push(...reminderEntries(state, `turn_${outcome}`, text));
  return entries;
}

function reminderText(outcome: TurnOutcome, error: TurnError | undefined): string | undefined {
  switch (outcome) {
    case "failed":
      // Only our own name for the error: its message quotes servers and proxies, and a reminder speaks with the operator's trust (N14).
      return `The last turn failed before it was finished (${error?.code.replaceAll("_", " ") ?? "unknown error"}).`;
    case "interrupted":
      return "The last turn was interrupted: the Pod was stopped while it ran. What you see above is what was recorded.";
    case "completed":
    case "cancelled":
    case "abandoned":
      return undefined;
  }
}
