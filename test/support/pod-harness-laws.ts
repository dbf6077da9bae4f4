import { openModel } from "../../src/llm/open-model.ts";
import { audit } from "../../src/session-log/audit.ts";
import type { LogEntry } from "../../src/session-log/entry.ts";
import { applyEntry, checkEntry } from "../../src/session-log/fold.ts";
import { scanLines } from "../../src/session-log/log-scan.ts";
import { emptyState, type SessionState } from "../../src/session-log/session-state.ts";
import { walkSession } from "../../src/session-log/walk-session.ts";

/**
 * What must hold of every log at every moment, read from its files alone:
 *
 * 1. Each line is sound, follows the one before it, and is legal where it stands (L7): the first of a later file carries the state before it.
 * 2. An input or item is taken by one request at most, and only behind its own entry (N8, I1).
 * 3. Each call has at most one result, and none is open outside of an open turn (I5).
 * 4. Every request can be rebuilt from the entries before it, prompt and body: same entries, same bytes (I1).
 */
export async function checkLaws(directory: string): Promise<SessionState> {
  const state = emptyState();
  const entries: LogEntry[] = [];
  const takenBy = new Map<string, number>();
  const acceptedAt = new Map<string, number>();
  const results = new Map<string, number>();
  const broken: string[] = [];
  const end = scanLines(walkSession(directory), ({ entry, line }) => {
    const objection = checkEntry(state, entry);
    if (objection !== undefined) return objection;
    if (entry.type === "user_input") acceptedAt.set(entry.id, entry.seq);
    if (entry.type === "system_items") for (const item of entry.items) acceptedAt.set(item.id, entry.seq);
    if (entry.type === "llm_request") {
      for (const id of entry.takes) {
        const accepted = acceptedAt.get(id);
        if (takenBy.has(id)) broken.push(`line ${line} takes ${id}, which request ${takenBy.get(id)} took before`);
        if (accepted === undefined || accepted > entry.through) broken.push(`line ${line} takes ${id}, accepted at ${accepted}`);
        takenBy.set(id, entry.n);
      }
    }
    if (entry.type === "tool_results") {
      for (const { call_id } of entry.items) results.set(call_id, (results.get(call_id) ?? 0) + 1);
    }
    if (entry.type === "turn_ended" && state.batch !== undefined) broken.push(`line ${line} ends a turn with open calls`);
    applyEntry(state, entry);
    if (entry.type === "llm_request" && state.promptDigest !== entry.prompt_digest) {
      broken.push(`line ${line}: request ${entry.n} showed the model something else than the log makes`);
    }
    entries.push(entry);
    return undefined;
  });
  if (end.kind === "damaged") broken.push(`line ${end.line} is damaged: ${end.problem.message}`);
  for (const [call, count] of results) if (count !== 1) broken.push(`call ${call} has ${count} results`);
  for (const call of state.callIds) {
    if (!results.has(call) && state.turn === undefined) broken.push(`call ${call} has no result`);
  }
  const { ok, first_bad, damage } = await audit(directory, (ref) => openModel(ref, { env: { ANTHROPIC_API_KEY: "unused" } }));
  if (!ok) broken.push(`the audit objects: ${JSON.stringify(damage ?? first_bad)}`);
  if (broken.length > 0) throw new Error(`${directory} breaks its laws:\n${broken.join("\n")}`);
  return state;
}
