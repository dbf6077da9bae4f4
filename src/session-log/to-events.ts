import { assertNever } from "../base/assert-never.ts";
import type { AssistantItem, CommittedEvent, Event } from "../protocol/event.ts";
import type { EntryType, LogEntry } from "./entry.ts";
import type { LoggedAnswerItem } from "./logged-item.ts";

/** The committed events of an entry, in order: what clients see of it, live and after a restore alike (I4). */
export function toEvents(entry: LogEntry): CommittedEvent[] {
  const { seq, ts } = entry;
  const place = { seq, index: 0, ts };
  switch (entry.type) {
    case "session_started": {
      if (entry.continues) return []; // A new file is nothing that happened to the session.
      const { session, pod, cwd, config } = entry;
      return [{ type: "session_started", ...place, session, pod, model: config.model, cwd }];
    }
    case "turn_started":
      return [{ type: "turn_started", ...place, turn: entry.turn, trigger: entry.trigger, chain: entry.chain }];
    case "turn_paused":
      return [{ type: "turn_paused", ...place, turn: entry.turn }];
    case "turn_resumed":
      return [{ type: "turn_resumed", ...place, turn: entry.turn }];
    case "turn_ended":
      return [
        {
          type: "turn_ended",
          ...place,
          turn: entry.turn,
          outcome: entry.outcome,
          ...(entry.error ? { error: entry.error } : {}),
        },
      ];
    case "user_input": {
      const { id, segments, waits_for, origin, submission } = entry;
      return [
        { type: "user_message", ...place, id, segments, waits_for, origin, ...(submission === undefined ? {} : { submission }) },
      ];
    }
    case "system_items":
    case "hook_injected_items":
      return entry.items.map((item, index) => ({ type: "system_item", seq, index, ts, item })); // S1
    case "llm_request":
      return [{ type: "request_started", ...place, n: entry.n, turn: entry.turn, model: entry.model, takes: entry.takes }]; // N13
    case "assistant_items": {
      const items = entry.items.map(
        (item, index): CommittedEvent => ({ type: "assistant_item", seq, index, ts, item: toAssistantItem(item) }),
      );
      return [...items, { type: "request_ended", seq, index: items.length, ts, stop: entry.stop, usage: entry.usage }];
    }
    case "tool_started":
      return [{ type: "tool_started", ...place, call_id: entry.call_id }];
    case "tool_results":
      return entry.items.map(({ call_id, summary, content, is_error }, index) => ({
        type: "tool_result",
        seq,
        index,
        ts,
        call_id,
        summary,
        ...(content === undefined ? {} : { content }),
        is_error,
      }));
    case "config_changed":
      return [{ type: "config_changed", ...place, changes: entry.changes }];
    case "closed":
      return [{ type: "closed", ...place, reason: entry.reason }];
    default:
      return assertNever(entry, "log entry");
  }
}

function toAssistantItem(item: LoggedAnswerItem): AssistantItem {
  switch (item.kind) {
    case "message":
      return { kind: "text", text: item.content.map((part) => part.text).join("") };
    case "reasoning":
      return { kind: "reasoning", text: item.text };
    case "tool_call":
      return { kind: "tool_call", call_id: item.call_id, name: item.name, arguments: item.arguments };
    default:
      return assertNever(item, "answer item");
  }
}

/** Whether an event is kept on disk, and as which entry: an explicit decision for every type (session-log.md, Entries). */
export const KEPT_AS: Readonly<Record<Event["type"], EntryType | "never">> = {
  session_started: "session_started",
  turn_started: "turn_started",
  turn_paused: "turn_paused",
  turn_resumed: "turn_resumed",
  turn_ended: "turn_ended",
  user_message: "user_input",
  system_item: "system_items",
  request_started: "llm_request",
  assistant_item: "assistant_items",
  request_ended: "assistant_items",
  tool_started: "tool_started",
  tool_result: "tool_results",
  config_changed: "config_changed",
  closed: "closed",
  text_delta: "never",
  thinking_delta: "never",
  tool_call_delta: "never",
  tool_progress: "never",
  retry: "never",
  live_reset: "never",
  status: "never",
  alert: "never",
  lagged: "never",
  shutdown: "never",
};
