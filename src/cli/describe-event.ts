import type { Event } from "../protocol/event.ts";
import { toInertLine } from "./inert.ts";

/**
 * One line for people about an event, or undefined for what needs none (answers are streamed elsewhere). Decided by type and kind,
 * never by the text (S3); control characters are made inert.
 */
export function describeEvent(event: Event): string | undefined {
  switch (event.type) {
    case "assistant_item":
      return event.item.kind === "tool_call" ? `> ${event.item.name} ${toInertLine(event.item.arguments, 140)}` : undefined;
    case "tool_result":
      return `  ${event.is_error ? "failed: " : ""}${toInertLine(event.summary)}`;
    case "system_item":
      return describeItem(event.item);
    case "turn_paused":
      return `turn ${event.turn} is paused`;
    case "turn_resumed":
      return `turn ${event.turn} goes on`;
    case "turn_ended":
      if (event.outcome === "completed") return undefined;
      return `turn ${event.turn} ${WORDS[event.outcome]}${event.error === undefined ? "" : `: ${toInertLine(event.error.message, 400)}`}`;
    case "config_changed":
      return `settings changed: ${toInertLine(JSON.stringify(event.changes))}`;
    case "retry":
      return `attempt ${event.attempt} failed (${toInertLine(event.error.message)}); the next one in ${(event.wait_ms / 1000).toFixed(1)} s`;
    case "alert":
      return event.alert.active ? `${event.alert.level}: ${toInertLine(event.alert.message, 400)}` : undefined;
    case "shutdown":
      return `the Pod shuts down: ${toInertLine(event.reason)}`;
    case "closed":
      return `session closed: ${toInertLine(event.reason)}`;
    default:
      return undefined;
  }
}

const WORDS = {
  completed: "completed",
  failed: "failed",
  cancelled: "was cancelled",
  interrupted: "was interrupted",
  abandoned: "was abandoned",
};

function describeItem(item: Extract<Event, { type: "system_item" }>["item"]): string {
  if (item.kind === "notification" && "payload" in item && isNotification(item.payload)) {
    return `[${toInertLine(item.payload.source, 128)}] ${toInertLine(item.payload.message)}`;
  }
  return `[${toInertLine(item.kind, 64)}] ${toInertLine(item.body)}`;
}

function isNotification(payload: unknown): payload is { readonly source: string; readonly message: string } {
  return typeof payload === "object" && payload !== null && "source" in payload && "message" in payload;
}
