import { assertNever } from "../../base/assert-never.ts";
import { prefixOf } from "../../base/text.ts";
import type { CommittedEvent } from "../../protocol/event.ts";
import type { Segment } from "../../protocol/segment.ts";
import { KEPT_AS } from "../../session-log/to-events.ts";
import { toInert, toInertLine } from "../inert.ts";

/** Longest text that is shown whole, characters; what is cut is said. */
const MAX_SHOWN_CHARS = 4000;

/** What became of an input or item by its id: shown behind it, such as `pending`. Undefined where that is not known. */
export type Fate = (id: string) => string | undefined;

/** First line of an entry's block: place, time (UTC), type. */
export function entryHeader(event: CommittedEvent): string {
  return `#${event.seq}  ${new Date(event.ts).toISOString()}  ${KEPT_AS[event.type]}\n`;
}

/** One event of an entry as lines for people, indented under the header; control characters are made inert. */
export function describeCommitted(event: CommittedEvent, fate: Fate): string {
  return linesOf(event, fate)
    .map((text) => `${indent(text)}\n`)
    .join("");
}

function linesOf(event: CommittedEvent, fate: Fate): string[] {
  switch (event.type) {
    case "session_started":
      return [
        `Pod ${toInertLine(event.pod)}, session ${toInertLine(event.session)}, model ${toInertLine(event.model)}`,
        toInertLine(event.cwd, 4096),
      ];
    case "turn_started":
      return [`turn ${event.turn} (${event.trigger}), chain ${toInertLine(event.chain.id)}, ${event.chain.hops} hops`];
    case "turn_paused":
      return [`turn ${event.turn} is paused`];
    case "turn_resumed":
      return [`turn ${event.turn} goes on`];
    case "turn_ended": {
      const { error } = event;
      return [
        `turn ${event.turn} ${event.outcome}${error === undefined ? "" : ` (${toInertLine(error.code)}): ${toInertLine(error.message, 1000)}`}`,
      ];
    }
    case "user_message": {
      const waits = event.waits_for === "turn" ? ", waits for a turn" : "";
      return [`${withFate(event.id, fate)} from ${originText(event.origin)}${waits}`, ...event.segments.map(segmentText)];
    }
    case "system_item":
      return itemLines(event.item, fate);
    case "request_started": {
      const takes =
        event.takes.length === 0 ? "takes nothing new" : `takes ${event.takes.map((id) => toInertLine(id)).join(", ")}`;
      return [`request ${event.n} to ${toInertLine(event.model)}, ${takes}`];
    }
    case "assistant_item":
      switch (event.item.kind) {
        case "text":
          return [shown(event.item.text)];
        case "reasoning":
          return [`(reasoning) ${shown(event.item.text)}`];
        case "tool_call":
          return [`> ${toInertLine(event.item.name)} ${toInertLine(event.item.call_id)} ${shown(event.item.arguments)}`];
        default:
          return assertNever(event.item, "assistant item");
      }
    case "request_ended": {
      const { input, output, cache_read, cache_write } = event.usage;
      return [
        `ended: ${event.stop}; tokens: ${input} in, ${output} out, ${cache_read} read from and ${cache_write} written to the cache`,
      ];
    }
    case "tool_started":
      return [toInertLine(event.call_id)];
    case "tool_result":
      return [
        `${toInertLine(event.call_id)} ${event.is_error ? "failed: " : ""}${toInertLine(event.summary)}`,
        ...(event.content === undefined ? [] : [shown(event.content)]),
      ];
    case "config_changed":
      return [toInertLine(JSON.stringify(event.changes), 1000)];
    case "closed":
      return [toInertLine(event.reason)];
    default:
      return assertNever(event, "committed event");
  }
}

// By kind and never by the text; a kind of a newer Pod is shown by its body (S3).
function itemLines(item: Extract<CommittedEvent, { type: "system_item" }>["item"], fate: Fate): string[] {
  const facts: string[] = [toInertLine(item.kind, 64)];
  if ("trust" in item && typeof item.trust === "string") facts.push(`trust ${toInertLine(item.trust)}`);
  if ("wake" in item && item.wake === true) facts.push("owes a wake");
  return [`${withFate(item.id, fate)} ${facts.join(", ")}`, shown(item.body)];
}

function withFate(id: string, fate: Fate): string {
  const what = fate(id);
  return what === undefined ? toInertLine(id) : `${toInertLine(id)} [${what}]`;
}

function originText(origin: { readonly by: string; readonly name?: string | undefined }): string {
  return origin.name === undefined ? origin.by : `${origin.by} ${toInertLine(origin.name)}`;
}

function segmentText(segment: Segment): string {
  return segment.kind === "paste" ? `(pasted) ${shown(segment.text)}` : shown(segment.text);
}

function shown(text: string): string {
  const part = prefixOf(text, MAX_SHOWN_CHARS);
  const cut = text.length - part.length;
  return cut === 0 ? toInert(part) : `${toInert(part)}\n(${cut} more characters: wakeful log export shows all)`;
}

function indent(text: string): string {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => (line === "" ? "" : `    ${line}`))
    .join("\n");
}
