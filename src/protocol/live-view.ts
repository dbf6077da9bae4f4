import { assertNever } from "../base/assert-never.ts";
import { suffixOf } from "../base/text.ts";
import type { AssistantItem, LiveEvent, TurnError } from "./event.ts";

/** A piece of the answer that is still being written. */
export type LivePart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "tool_call"; readonly callId: string; readonly name: string; readonly arguments: string };

/** What is not committed: replaced by what is, never kept beside it (S7). */
export interface LiveView {
  /** The answer so far, in the order in which its parts began. */
  readonly parts: readonly LivePart[];
  /** Newest output of running tools, by call id. */
  readonly progress: ReadonlyMap<string, string>;
  /** The failed attempt that is being waited out, if any. */
  readonly retry: { readonly attempt: number; readonly waitMs: number; readonly error: TurnError } | undefined;
}

export const NO_LIVE: LiveView = { parts: [], progress: new Map(), retry: undefined };

/** Characters of a running tool's output that a view keeps. */
export const PROGRESS_CHARS = 16 * 1024;

/** Live state after a live event. */
export function reduceLive(live: LiveView, event: LiveEvent): LiveView {
  switch (event.type) {
    case "text_delta":
      return withText(live, "text", event.text);
    case "thinking_delta":
      return withText(live, "reasoning", event.text);
    case "tool_call_delta":
      return withCall(live, event.call_id, event.name, event.arguments);
    case "tool_progress": {
      const text = suffixOf((live.progress.get(event.call_id) ?? "") + event.text, PROGRESS_CHARS);
      return { ...live, progress: new Map(live.progress).set(event.call_id, text) };
    }
    case "retry":
      return { ...live, parts: [], retry: { attempt: event.attempt, waitMs: event.wait_ms, error: event.error } };
    case "live_reset":
      // A running tool is not part of a failed attempt; what it printed stays true.
      return live.parts.length === 0 ? live : { ...live, parts: [] };
    default:
      return assertNever(event, "live event");
  }
}

function withText(live: LiveView, kind: "text" | "reasoning", text: string): LiveView {
  const last = live.parts.at(-1);
  const part: LivePart = { kind, text: last?.kind === kind ? last.text + text : text };
  return { ...live, retry: undefined, parts: [...(last?.kind === kind ? live.parts.slice(0, -1) : live.parts), part] };
}

function withCall(live: LiveView, callId: string, name: string, more: string): LiveView {
  const index = live.parts.findIndex((part) => part.kind === "tool_call" && part.callId === callId);
  const former = live.parts[index];
  if (former?.kind !== "tool_call") {
    return { ...live, retry: undefined, parts: [...live.parts, { kind: "tool_call", callId, name, arguments: more }] };
  }
  return { ...live, parts: live.parts.with(index, { ...former, name: name || former.name, arguments: former.arguments + more }) };
}

/** Live state after the committed form of one part arrived: the oldest partial of its kind goes. */
export function withoutPart(live: LiveView, item: AssistantItem): LiveView {
  const index = live.parts.findIndex((part) =>
    item.kind === "tool_call" ? part.kind === "tool_call" && part.callId === item.call_id : part.kind === item.kind,
  );
  return index === -1 ? live : { ...live, parts: live.parts.toSpliced(index, 1) };
}

/** Live state after a call got its result. */
export function withoutProgress(live: LiveView, callId: string): LiveView {
  if (!live.progress.has(callId)) return live;
  const progress = new Map(live.progress);
  progress.delete(callId);
  return { ...live, progress };
}
