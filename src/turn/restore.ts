import type { NewEntry } from "../session-log/entry.ts";
import type { LoggedToolResult } from "../session-log/logged-item.ts";
import type { OpenCall, SessionState } from "../session-log/session-state.ts";
import { reminderEntries } from "./system-item-body.ts";

/** Result of a call that had started when its process died: it is never run again (field report B40). */
export const INTERRUPTED_CALL =
  "Interrupted: the process ended while this call ran. It may or may not have taken effect; check before you repeat it.";
/** Result of a call that had not started. */
export const NEVER_STARTED_CALL = "Interrupted: the process ended before this call started. It has not run.";

/**
 * What a restore must commit so that the session can go on (docs/session-log.md, Restore). Nothing for a session that ended in
 * order, so a second restore writes nothing.
 */
export function restoreEntries(state: SessionState): NewEntry[] {
  const { turn } = state;
  if (!turn) return [];
  const open = openCalls(state);
  if (turn.phase === "paused") {
    // Calls that never started can still run at `resume`.
    const interrupted = open.filter((call) => call.started);
    return interrupted.length === 0 ? [] : [{ type: "tool_results", items: interrupted.map(interruptedResult) }];
  }
  const entries: NewEntry[] = [];
  if (open.length > 0) entries.push({ type: "tool_results", items: open.map(interruptedResult) }); // I5
  entries.push({ type: "turn_ended", turn: turn.turn, outcome: "interrupted" });
  const text =
    "The last turn was interrupted: the process that ran it ended unexpectedly. What you see above is what was recorded. Calls marked as interrupted may or may not have taken effect.";
  entries.push(...reminderEntries(state, "turn_interrupted", text));
  return entries;
}

/** Calls of the open batch without a result, in the order the model asked. */
export function openCalls(state: SessionState): OpenCall[] {
  return [...(state.batch?.calls.values() ?? [])].filter((call) => !call.result);
}

function interruptedResult(call: OpenCall): LoggedToolResult {
  return syntheticResult(call, "interrupted", call.started ? INTERRUPTED_CALL : NEVER_STARTED_CALL);
}

/** A result that no tool gave: every call in the log still gets one (I5). */
export function syntheticResult(call: OpenCall, summary: string, content: string): LoggedToolResult {
  return { kind: "tool_result", call_id: call.callId, name: call.name, summary, content, is_error: true };
}
