import { isDeepStrictEqual } from "node:util";
import { assertNever } from "../base/assert-never.ts";
import { MAX_ANSWERED_IDS, WAKE_BUCKET_SIZE } from "../protocol/limits.ts";
import { addUsage } from "../protocol/status.ts";
import { fromCarried } from "./carried.ts";
import type { EntryOf, LogEntry } from "./entry.ts";
import type { LoggedAnswerItem, LoggedItem } from "./logged-item.ts";
import { fromLoggedItem } from "./logged-item-conversion.ts";
import { pendingOfInput, pendingOfItem, toHistoryItem } from "./pending.ts";
import { type Answered, digestOfPrefix, emptyState, extendDigest, type OpenBatch, type SessionState } from "./session-state.ts";
import { bucketAt } from "./wake-rule.ts";

/**
 * The fold: what each entry does to a session. Deterministic, so that live state, restored state and every rebuilt request agree (I4).
 * `checkEntry` says beforehand whether an entry is legal here; `applyEntry` assumes that it is.
 *
 * F1 An item is pending from its entry on, and leaves for the history only by the `takes` of an `llm_request`: so it cannot be lost
 *    and cannot be injected twice.
 * F2 Tool results join the history in call order when the last call of their batch has one: nothing stands between call and result.
 * F3 A waking item stays owed until a request that showed it was answered, or the turn that took it was cancelled (N6). What a stopped
 *    answer left behind is no answer: a Pod that is shut down in the middle of one still owes it.
 * F4 The entry that a later file begins with carries the state in front of it: applied to that state it changes nothing but `lastSeq`,
 *    and applied to none it makes that very state.
 */
export function applyEntry(state: SessionState, entry: LogEntry): void {
  const isFirst = state.lastSeq === 0;
  state.lastSeq = entry.seq;
  if (entry.type === "session_started" && entry.continues && !isFirst) return; // F4
  state.closed = undefined;
  switch (entry.type) {
    case "session_started":
      begin(state, entry);
      return;
    case "turn_started":
      state.turns = entry.turn;
      state.lastTurnStartSeq = entry.seq;
      state.takenInTurn.clear();
      state.turn = {
        turn: entry.turn,
        trigger: entry.trigger,
        chain: entry.chain,
        phase: "running",
        requests: 0,
        finished: false,
      };
      if (entry.trigger === "notification") state.bucket = { tokens: bucketAt(state, entry.ts) - 1, ts: entry.ts }; // N11
      if (entry.trigger === "resume") fillBucket(state, entry.ts);
      return;
    case "turn_paused":
      if (state.turn) state.turn.phase = "paused";
      return;
    case "turn_resumed":
      if (state.turn) state.turn.phase = "running";
      fillBucket(state, entry.ts);
      return;
    case "turn_ended":
      state.turn = undefined;
      state.requestOpen = false;
      state.lastOutcome = entry.outcome;
      if (entry.outcome === "cancelled") for (const id of state.takenInTurn) state.owed.delete(id); // F3
      if (entry.outcome === "failed") {
        state.failures += 1;
        state.lastFailure = { ts: entry.ts, retryAfterMs: entry.error?.retry_after_ms };
      } else if (entry.outcome === "completed") {
        // Only this proves that the next automatic turn would get through.
        state.failures = 0;
        state.lastFailure = undefined;
      }
      return;
    case "user_input": {
      if (entry.origin.by === "client") fillBucket(state, entry.ts);
      if (entry.submission !== undefined) {
        const result =
          state.turn === undefined ? { turn: state.turns + 1, seq: entry.seq } : { queued: true as const, seq: entry.seq };
        remember(state, entry.submission, { kind: "run", result });
      }
      const { seq, ts, ...input } = entry;
      state.pending.set(entry.id, pendingOfInput(input, { seq, ts })); // F1
      return;
    }
    case "system_items": {
      const { seq, ts } = entry;
      for (const [index, item] of entry.items.entries()) {
        state.pending.set(item.id, pendingOfItem(item, { seq, ts, index })); // F1
        if (item.wake) state.owed.set(item.id, "pending"); // F3
      }
      const [first] = entry.items;
      if (entry.answers && first) {
        const result = { item: first.id, seq: entry.seq, state: entry.answers.state };
        remember(state, entry.answers.id, { kind: "notify", result });
      }
      return;
    }
    case "hook_injected_items":
      for (const item of entry.items) {
        const logged: LoggedItem = { kind: "system", item };
        if (state.batch) state.batch.after.push(logged);
        else pushHistory(state, logged);
      }
      return;
    case "llm_request":
      state.requests = entry.n;
      state.requestOpen = true;
      if (state.turn) {
        state.turn.requests += 1;
        state.turn.finished = false;
      }
      for (const id of entry.takes) take(state, id);
      return;
    case "assistant_items":
      state.requestOpen = false;
      state.answers += 1;
      state.usage = addUsage(state.usage, entry.usage);
      state.lastUsage = entry.usage;
      if (entry.stop !== "cancelled") settleTaken(state); // F3
      for (const item of entry.items) pushHistory(state, item);
      state.batch = batchOf(entry.items);
      if (state.turn) state.turn.finished = state.batch === undefined;
      return;
    case "tool_started": {
      const call = state.batch?.calls.get(entry.call_id);
      if (call) call.started = true;
      return;
    }
    case "tool_results":
      for (const item of entry.items) {
        const call = state.batch?.calls.get(item.call_id);
        if (call) call.result = item;
      }
      closeBatch(state);
      return;
    case "config_changed":
      state.config = { ...state.config, ...entry.changes };
      return;
    case "closed":
      state.closed = entry.reason;
      return;
    default:
      assertNever(entry, "log entry");
  }
}

/** Why an entry may not stand behind the present state, or undefined if it may. Guards the log against our own bugs and edited logs. */
export function checkEntry(state: SessionState, entry: LogEntry): string | undefined {
  if (entry.type === "session_started") return checkStart(state, entry);
  if (state.lastSeq === 0) return "the first entry is not session_started";
  switch (entry.type) {
    case "turn_started":
      if (state.turn) return `turn ${state.turn.turn} is still open`;
      return entry.turn === state.turns + 1 ? undefined : `turn ${entry.turn} follows turn ${state.turns}`;
    case "turn_paused":
    case "turn_resumed":
      return state.turn?.turn === entry.turn ? undefined : `turn ${entry.turn} is not open`;
    case "turn_ended":
      if (state.batch) return "a call has no result yet"; // I5
      return state.turn?.turn === entry.turn ? undefined : `turn ${entry.turn} is not open`;
    case "llm_request":
      if (state.turn?.phase !== "running") return "a request outside a running turn";
      if (state.batch) return "a request before every call has its result"; // F2
      if (entry.n !== state.requests + 1) return `request ${entry.n} follows request ${state.requests}`;
      return entry.takes.find((id) => !state.pending.has(id)) === undefined ? undefined : "it takes what is not pending";
    case "assistant_items":
      return state.requestOpen ? undefined : "an answer without a request";
    case "tool_started":
      return state.batch?.calls.get(entry.call_id)?.result === undefined && state.batch?.calls.has(entry.call_id)
        ? undefined
        : `call ${entry.call_id} is not open`;
    case "tool_results":
      return entry.items.every((item) => state.batch?.calls.has(item.call_id) && !state.batch.calls.get(item.call_id)?.result)
        ? undefined
        : "a result without an open call";
    case "user_input":
      return state.pending.has(entry.id) ? `id ${entry.id} is taken` : undefined;
    case "system_items":
      return entry.items.some((item) => state.pending.has(item.id)) ? "an item's id is taken" : undefined;
    case "hook_injected_items":
    case "config_changed":
    case "closed":
      return undefined;
    default:
      return assertNever(entry, "log entry");
  }
}

type StartEntry = LogEntry & EntryOf<"session_started">;

function begin(state: SessionState, entry: StartEntry): void {
  state.session = entry.session;
  state.pod = entry.pod;
  state.cwd = entry.cwd;
  state.config = entry.config;
  state.system = entry.system;
  state.tools = entry.tools;
  state.promptDigest = digestOfPrefix(entry.system, entry.tools);
  state.bucket = { tokens: WAKE_BUCKET_SIZE, ts: entry.ts };
  for (const item of entry.history) pushHistory(state, item);
  if (entry.carried) Object.assign(state, fromCarried(entry.carried));
}

function checkStart(state: SessionState, entry: StartEntry): string | undefined {
  if (state.lastSeq === 0) return undefined;
  if (!entry.continues) return "a session starts only once";
  if (entry.continues.seq !== state.lastSeq)
    return `it continues entry ${entry.continues.seq} and stands behind ${state.lastSeq}`;
  const carried = emptyState();
  begin(carried, entry);
  const differs = firstDifference(state, carried);
  return differs && `the state it carries is not the one that the entries before it make (${differs})`;
}

/** The first part of the session in which two states differ. The history is compared by its digest, so it need not be kept. */
function firstDifference(mine: SessionState, other: SessionState): string | undefined {
  const { lastSeq: _, history, items, ...parts } = mine;
  const theirs = new Map<string, unknown>(Object.entries(other));
  return Object.entries(parts).find(([name, value]) => !isDeepStrictEqual(value, theirs.get(name)))?.[0];
}

/**
 * Why a list of entries may not be appended in one go, or undefined if it may. Each is checked against the state that those before it
 * make, in a rehearsal that leaves the real state alone: an illegal entry must never reach the disk.
 */
export function checkEntries(state: SessionState, entries: readonly LogEntry[]): string | undefined {
  const [first] = entries;
  if (entries.length === 1 && first) return objection(state, first);
  const rehearsal = rehearsalOf(state);
  for (const entry of entries) {
    const problem = objection(rehearsal, entry);
    if (problem !== undefined) return problem;
    applyEntry(rehearsal, entry);
  }
  return undefined;
}

function objection(state: SessionState, entry: LogEntry): string | undefined {
  const problem = checkEntry(state, entry);
  return problem === undefined ? undefined : `${entry.type} is illegal here: ${problem}`;
}

/** A copy of what `checkEntry` looks at, bounded like what is pending; the history is left out. */
function rehearsalOf(state: SessionState): SessionState {
  const { turn, batch } = state;
  const calls = [...(batch?.calls ?? [])].map(([id, call]) => [id, { ...call }] as const);
  return {
    ...state,
    history: [],
    items: [],
    pending: new Map(state.pending),
    owed: new Map(state.owed),
    answered: new Map(),
    callIds: new Set(),
    turn: turn && { ...turn },
    batch: batch && { calls: new Map(calls), after: [] },
  };
}

function pushHistory(state: SessionState, item: LoggedItem): void {
  state.history.push(item);
  state.items.push(fromLoggedItem(item));
  state.promptDigest = extendDigest(state.promptDigest, item);
  if (item.kind === "tool_call") state.callIds.add(item.call_id);
}

function take(state: SessionState, id: string): void {
  const pending = state.pending.get(id);
  if (!pending) return;
  state.pending.delete(id);
  pushHistory(state, toHistoryItem(pending)); // F1
  if (state.owed.has(id)) {
    state.owed.set(id, "taken");
    state.takenInTurn.add(id);
  }
  if (pending.kind === "input" && state.turn) state.turn.trigger = "user";
}

function settleTaken(state: SessionState): void {
  for (const [id, where] of state.owed) if (where === "taken") state.owed.delete(id);
}

function batchOf(items: readonly LoggedAnswerItem[]): OpenBatch | undefined {
  const calls: OpenBatch["calls"] = new Map();
  for (const item of items) {
    if (item.kind !== "tool_call") continue;
    const { call_id, name } = item;
    calls.set(call_id, { callId: call_id, name, arguments: item.arguments, started: false, result: undefined });
  }
  return calls.size === 0 ? undefined : { calls, after: [] };
}

// F2
function closeBatch(state: SessionState): void {
  const { batch } = state;
  if (!batch) return;
  const results: LoggedItem[] = [];
  for (const call of batch.calls.values()) {
    if (!call.result) return;
    results.push(call.result);
  }
  state.batch = undefined;
  for (const item of [...results, ...batch.after]) pushHistory(state, item);
}

function fillBucket(state: SessionState, ts: number): void {
  state.bucket = { tokens: WAKE_BUCKET_SIZE, ts };
}

function remember(state: SessionState, id: string, answered: Answered): void {
  state.answered.set(id, answered);
  if (state.answered.size <= MAX_ANSWERED_IDS) return;
  const [oldest] = state.answered.keys();
  if (oldest !== undefined) state.answered.delete(oldest);
}
