import { AppError } from "../base/errors.ts";
import { suffixOf } from "../base/text.ts";
import type { Cursor } from "../protocol/cursor.ts";
import { compareCursors } from "../protocol/cursor.ts";
import { type CommittedEvent, cursorOf } from "../protocol/event.ts";
import { SNAPSHOT_MAX_BYTES, SNAPSHOT_MAX_EVENTS } from "../protocol/limits.ts";
import type { MethodParams, MethodResult } from "../protocol/method.ts";
import type { LogEntry } from "../session-log/entry.ts";
import type { LogFile } from "../session-log/log-file.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { toEvents } from "../session-log/to-events.ts";

/** What clients read of a session's past: always from the log itself, always bounded, whatever the session's age. */

/** Entries read back at a time while looking for enough events. */
const STEP = 64;

/** The place of the newest committed event. An entry without events (what a file of the log begins with) is none. */
export function headCursor(log: LogFile): Cursor {
  for (let seq = log.head.seq; seq >= 1; seq--) {
    const { entries, problem } = readStep(log, seq, seq);
    const event = entries.flatMap(toEvents).at(-1);
    if (event) return cursorOf(event);
    if (problem) break;
  }
  return { seq: log.head.seq, index: 0 };
}

/**
 * Committed events behind `since`, or the newest part: bounded by count and bytes, at least one. `more` tells that older ones exist. Where
 * an older file cannot be read they end there: whoever attaches gets what there is, and whoever asks for more (`history`) is told.
 */
export function newestEvents(
  log: LogFile,
  since: Cursor | undefined,
): { readonly events: CommittedEvent[]; readonly more: boolean } {
  const oldest = since && since.seq <= log.head.seq ? since : undefined; // a place that does not exist (power loss): everything anew
  const { events, more } = collectBackwards(log, log.head.seq, {
    maxEvents: SNAPSHOT_MAX_EVENTS,
    keep: (event) => oldest === undefined || compareCursors(cursorOf(event), oldest) > 0,
    downTo: oldest?.seq ?? 1,
  });
  return { events, more };
}

/** A page of committed events in front of `before`. Throws `damaged` where the log's file cannot be read right there. */
export function eventsBefore(log: LogFile, params: MethodParams<"history">): MethodResult<"history"> {
  const { events, more, problem } = collectBackwards(log, Math.min(params.before.seq, log.head.seq), {
    maxEvents: params.limit,
    keep: (event) => compareCursors(cursorOf(event), params.before) < 0,
    downTo: 1,
  });
  if (problem && events.length === 0) throw problem;
  return { events, more };
}

interface Window {
  readonly maxEvents: number;
  readonly keep: (event: CommittedEvent) => boolean;
  /** Oldest `seq` of interest. */
  readonly downTo: number;
}

interface Collected {
  readonly events: CommittedEvent[];
  readonly more: boolean;
  /** Why they end before the window does. */
  readonly problem?: AppError;
}

function collectBackwards(log: LogFile, fromSeq: number, window: Window): Collected {
  const reversed: CommittedEvent[] = [];
  let bytes = 0;
  for (let high = fromSeq; high >= window.downTo; high -= STEP) {
    const { entries, problem } = readStep(log, Math.max(window.downTo, high - STEP + 1), high);
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
    if (problem) return { events: reversed.reverse(), more: true, problem };
  }
  return { events: reversed.reverse(), more: false };
}

/** The entries from `low` to `high`; where some cannot be read, those behind them, and why. */
function readStep(log: LogFile, low: number, high: number): { readonly entries: LogEntry[]; readonly problem?: AppError } {
  try {
    return { entries: log.read(low, high) };
  } catch (thrown) {
    if (!(thrown instanceof AppError) || thrown.code === "internal") throw thrown;
    const entries = low < high ? readStep(log, low + 1, high).entries : [];
    return { entries, problem: thrown };
  }
}

/** Events of what is still pending although it is older than the window: a client must see what waits. Bounded like the window. */
export function olderPendingEvents(state: Readonly<SessionState>, windowStart: number): CommittedEvent[] {
  const events: CommittedEvent[] = [];
  let bytes = 0;
  for (const pending of state.pending.values()) {
    const { seq, ts } = pending;
    if (seq >= windowStart) continue;
    bytes += pending.bytes;
    if (bytes > SNAPSHOT_MAX_BYTES) break;
    if (pending.kind === "input") events.push(...toEvents({ ...pending.input, seq, ts }));
    else events.push({ type: "system_item", seq, index: pending.index, ts, item: pending.item });
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
    const { entries, problem } = readStep(log, Math.max(1, high - STEP + 1), high);
    for (const entry of entries.reverse()) {
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
    if (problem) {
      reversed.push("[earlier output cannot be read: a file of the log is damaged or missing]");
      break;
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
