import { isJsonObject, parseJson } from "../base/json.ts";
import type { Event } from "../protocol/event.ts";
import { fitWidth } from "./display-width.ts";
import { toInertLine } from "./inert.ts";
import type { CliIo } from "./io.ts";
import { type Look, paintFor } from "./paint.ts";

/**
 * The line for people about an event as `io`'s standard error shows it: what a Pod does on the way is dim and fits the terminal, what
 * went wrong is red and whole. Undefined as for {@link describeEvent}.
 */
export function eventLine(event: Event, io: CliIo): string | undefined {
  const line = describeEvent(event);
  if (line === undefined) return undefined;
  const look = lookOf(event);
  if (look === undefined) return line;
  const { columns } = io.stderr;
  return paintFor(io.stderr, io.env)[look](look === "dim" && columns !== undefined ? fitWidth(line, columns) : line);
}

function lookOf(event: Event): Look | undefined {
  switch (event.type) {
    case "assistant_item":
    case "tool_result":
    case "retry":
    case "config_changed":
      return "dim";
    case "turn_ended":
      return event.outcome === "failed" ? "red" : undefined;
    case "alert":
      return event.alert.level === "error" ? "red" : undefined;
    default:
      return undefined;
  }
}

/**
 * One line for people about an event, or undefined for what needs none (answers are streamed elsewhere). Decided by type and kind,
 * never by the text (S3); control characters are made inert.
 */
export function describeEvent(event: Event): string | undefined {
  switch (event.type) {
    case "assistant_item":
      return event.item.kind === "tool_call" ? describeCall(event.item.name, event.item.arguments) : undefined;
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

/** A tool call by what it is about, where its arguments say so: `> Bash npm test`. */
function describeCall(tool: string, text: string): string {
  const json = parseJson(text);
  const input = json.ok && isJsonObject(json.value) ? json.value : {};
  const about = ["command", "path"].map((key) => input[key]).find((value) => typeof value === "string");
  return `> ${toInertLine(tool, 60)} ${toInertLine(typeof about === "string" ? about : text, 140)}`;
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
