import { suffixOf } from "../base/text.ts";
import type { Cursor } from "../protocol/cursor.ts";
import { compareCursors } from "../protocol/cursor.ts";
import { type CommittedEvent, cursorOf } from "../protocol/event.ts";
import { SNAPSHOT_MAX_BYTES, SNAPSHOT_MAX_EVENTS } from "../protocol/limits.ts";
import type { MethodParams, MethodResult } from "../protocol/method.ts";
import type { LogFile } from "../session-log/log-file.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { toEvents } from "../session-log/to-events.ts";

/** What clients read of a session's past: always from the log itself, always bounded, whatever the session's age. */

/** Entries read back at a time while looking for enough events. */
const STEP = 64;

/** The newest committed place. */
export function headCursor(log: LogFile): Cursor {
  const [last] = log.read(log.head.seq, log.head.seq);
  const event = last ? toEvents(last).at(-1) : undefined;
  return event ? cursorOf(event) : { seq: log.head.seq, index: 0 };
}

/** Committed events behind `since`, or the newest part: bounded by count and bytes, at least one. `more` tells that older ones exist. */
export function newestEvents(
  log: LogFile,
  since: Cursor | undefined,
): { readonly events: CommittedEvent[]; readonly more: boolean } {
  const oldest = since && since.seq <= log.head.seq ? since : undefined; // a place that does not exist (power loss): everything anew
  return collectBackwards(log, log.head.seq, {
    maxEvents: SNAPSHOT_MAX_EVENTS,
    keep: (event) => oldest === undefined || compareCursors(cursorOf(event), oldest) > 0,
    downTo: oldest?.seq ?? 1,
  });
}

/** A page of committed events in front of `before`. */
export function eventsBefore(log: LogFile, params: MethodParams<"history">): MethodResult<"history"> {
  return collectBackwards(log, Math.min(params.before.seq, log.head.seq), {
    maxEvents: params.limit,
    keep: (event) => compareCursors(cursorOf(event), params.before) < 0,
    downTo: 1,
  });
}

interface Window {
  readonly maxEvents: number;
  readonly keep: (event: CommittedEvent) => boolean;
  /** Oldest `seq` of interest. */
  readonly downTo: number;
}

function collectBackwards(log: LogFile, fromSeq: number, window: Window): { events: CommittedEvent[]; more: boolean } {
  const reversed: CommittedEvent[] = [];
  let bytes = 0;
  for (let high = fromSeq; high >= window.downTo; high -= STEP) {
    const entries = log.read(Math.max(window.downTo, high - STEP + 1), high);
    for (const entry of entries.reverse()) {
      for (const event of toEvents(entry).reverse()) {
        if (!window.keep(event)) continue;
        bytes += JSON.stringify(event).length;
        if (reversed.length > 0 && (reversed.length >= window.maxEvents || bytes > SNAPSHOT_MAX_BYTES)) {
          return { events: reversed.reverse(), more: true };
        }
        reversed.push(event);
      }
    }
  }
  return { events: reversed.reverse(), more: false };
}

/** Events of what is still pending although it is older than the window: a client must see what waits. Bounded like the window. */
export function olderPendingEvents(log: LogFile, state: Readonly<SessionState>, windowStart: number): CommittedEvent[] {
  const events: CommittedEvent[] = [];
  let bytes = 0;
  for (const pending of state.pending.values()) {
    if (pending.seq >= windowStart) continue;
    const [entry] = log.read(pending.seq, pending.seq);
    for (const event of entry ? toEvents(entry) : []) {
      const id = event.type === "system_item" ? event.item.id : event.type === "user_message" ? event.id : undefined;
      if (id !== pending.id) continue;
      bytes += pending.bytes;
      if (bytes > SNAPSHOT_MAX_BYTES) return events;
      events.push(event);
    }
  }
  return events;
}

/** What the model has answered: its texts behind `since`, or the newest that fit; a cut is said (I10). */
export function readOutput(
  log: LogFile,
  params: MethodParams<"read_output">,
): { readonly text: string; readonly cursor: Cursor } {
  const { since, max_chars: maxChars } = params;
  return since && since.seq <= log.head.seq ? outputForward(log, since, maxChars) : newestOutput(log, maxChars);
}

function outputForward(log: LogFile, since: Cursor, maxChars: number): { text: string; cursor: Cursor } {
  const texts: string[] = [];
  let chars = 0;
  let cursor = since;
  for (let low = since.seq; low <= log.head.seq; low += STEP) {
    for (const entry of log.read(low, low + STEP - 1)) {
      for (const event of toEvents(entry)) {
        if (compareCursors(cursorOf(event), since) <= 0) continue;
        const text = answerText(event);
        if (text !== undefined) {
          if (chars + text.length > maxChars && texts.length > 0) return { text: texts.join("\n\n"), cursor };
          chars += text.length;
          texts.push(text.length > maxChars ? cutStart(text, maxChars) : text);
        }
        cursor = cursorOf(event);
      }
    }
  }
  return { text: texts.join("\n\n"), cursor };
}

function newestOutput(log: LogFile, maxChars: number): { text: string; cursor: Cursor } {
  const reversed: string[] = [];
  let chars = 0;
  const cursor = headCursor(log);
  for (let high = log.head.seq; high >= 1; high -= STEP) {
    for (const entry of log.read(Math.max(1, high - STEP + 1), high).reverse()) {
      for (const event of toEvents(entry).reverse()) {
        const text = answerText(event);
        if (text === undefined) continue;
        if (chars + text.length > maxChars) {
          if (reversed.length === 0) reversed.push(cutStart(text, maxChars));
          else reversed.push("[earlier output left out; read it with history]");
          return { text: reversed.reverse().join("\n\n"), cursor };
        }
        chars += text.length;
        reversed.push(text);
      }
    }
  }
  return { text: reversed.reverse().join("\n\n"), cursor };
}

function answerText(event: CommittedEvent): string | undefined {
  return event.type === "assistant_item" && event.item.kind === "text" ? event.item.text : undefined;
}

function cutStart(text: string, maxChars: number): string {
  const kept = suffixOf(text, maxChars);
  return `[${text.length - kept.length} characters left out]\n${kept}`;
}
