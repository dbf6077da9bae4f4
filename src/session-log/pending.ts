import { utf8Bytes } from "../base/text.ts";
import type { Segment } from "../protocol/segment.ts";
import type { SystemItem } from "../protocol/system-item.ts";
import { contentOfSegments, type LoggedItem } from "./logged-item.ts";
import { extendDigest, type Pending, type SessionState } from "./session-state.ts";
import type { UserInput } from "./user-input.ts";

/** What waits, and what a request takes of it (docs/session-log.md, "One entry, one fold"). All of it derived, nothing stored twice. */

/** Size of an input in UTF-8 bytes, as N9 counts it. */
export function segmentsBytes(segments: readonly Segment[]): number {
  return segments.reduce((sum, segment) => sum + utf8Bytes(segment.text), 0);
}

/** How much waits: human inputs on one side, notifications and child events on the other (N9). */
export function pendingTotals(state: SessionState): {
  readonly inputs: { readonly count: number; readonly bytes: number };
  readonly items: { readonly count: number; readonly bytes: number };
} {
  const inputs = { count: 0, bytes: 0 };
  const items = { count: 0, bytes: 0 };
  for (const pending of state.pending.values()) {
    const side = pending.kind === "input" ? inputs : items;
    side.count += 1;
    side.bytes += pending.bytes;
  }
  return { inputs, items };
}

/** Whether a human's input waits that was accepted behind `afterSeq`. */
export function inputWaits(state: SessionState, afterSeq = 0): boolean {
  for (const pending of state.pending.values()) if (pending.kind === "input" && pending.seq > afterSeq) return true;
  return false;
}

/** Whether an input still waits that the open turn was started for: its cap left it to a later request, and the turn is not over before. */
export function turnInputWaits(state: SessionState): boolean {
  for (const pending of state.pending.values()) if (pending.kind === "input" && pending.seq < state.lastTurnStartSeq) return true;
  return false;
}

function isEligible(state: SessionState, pending: Pending): boolean {
  if (pending.kind === "input") return pending.input.waits_for === "request" || pending.seq < state.lastTurnStartSeq;
  const owner = pending.item.for === undefined ? undefined : state.pending.get(pending.item.for);
  return owner === undefined || isEligible(state, owner);
}

/** What the next request takes: ids in order of `seq`, and the items they become. */
export interface Take {
  readonly ids: readonly string[];
  readonly items: readonly LoggedItem[];
}

/**
 * Chooses what the next request takes: the eligible pending items in order of `seq` until `maxChars` is reached, at least one. What
 * does not fit waits for the next request. An item that belongs to an input stands directly behind it.
 */
export function chooseTake(state: SessionState, maxChars: number): Take {
  const ids: string[] = [];
  const items: LoggedItem[] = [];
  let chars = 0;
  for (const pending of state.pending.values()) {
    if (!isEligible(state, pending)) continue;
    chars += pending.bytes;
    if (ids.length > 0 && chars > maxChars) break;
    ids.push(pending.id);
    items.push(toHistoryItem(pending));
  }
  return { ids, items };
}

/** The history item that a pending one becomes when a request takes it. */
export function toHistoryItem(pending: Pending): LoggedItem {
  if (pending.kind === "item") return { kind: "system", item: pending.item };
  const { id, segments } = pending.input;
  return { kind: "user", id, segments, content: contentOfSegments(segments) };
}

/** Digest of the prompt that a request with this take shows the model. */
export function promptDigestWith(state: SessionState, take: Take): string {
  return take.items.reduce(extendDigest, state.promptDigest);
}

/** Where what is pending was accepted: place and time of its entry, and which of the entry's items it is. */
export interface AcceptedAt {
  readonly seq: number;
  readonly ts: number;
}

/** An input as it waits, with how much it counts against the bounds of N9. */
export function pendingOfInput(input: UserInput, { seq, ts }: AcceptedAt): Pending {
  return { kind: "input", id: input.id, seq, ts, bytes: segmentsBytes(input.segments), input };
}

/** An item as it waits, likewise. */
export function pendingOfItem(item: SystemItem, { seq, ts, index }: AcceptedAt & { readonly index: number }): Pending {
  return { kind: "item", id: item.id, seq, ts, index, bytes: utf8Bytes(item.body), item };
}
