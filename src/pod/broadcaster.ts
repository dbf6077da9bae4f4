import type { Cursor } from "../protocol/cursor.ts";
import { type CommittedEvent, cursorOf, type LiveEvent, type StateEvent } from "../protocol/event.ts";
import { eventLine } from "../protocol/json-rpc.ts";
import { mergeLive } from "./live-buffer.ts";

/**
 * Sends events to attached clients (docs/protocol.md, "A client that does not read"). It never waits for one:
 *
 * B1 A client that keeps up gets each line as it comes. One that does not gets a backlog: live deltas in it are merged.
 * B2 A backlog over its bound is thrown away; the client gets `lagged` with the place to attach again from, and no more events (I6).
 */

/** The writing end of a client's connection. */
export interface EventSink {
  /** Sends a line; false when the connection's buffer is full and the next line should wait for a drain. */
  send(line: string): boolean;
}

/** A client behind by more than this is cut off, bytes. */
const MAX_BACKLOG_BYTES = 4 * 1024 * 1024;

type Waiting =
  | { readonly kind: "live"; event: LiveEvent }
  | { readonly kind: "line"; readonly line: string; readonly cursor: Cursor | undefined };

interface Subscriber {
  readonly sink: EventSink;
  /** The newest committed place handed to the connection. */
  sent: Cursor;
  backlog: Waiting[];
  backlogBytes: number;
  flowing: boolean;
}

export class Broadcaster {
  readonly #subscribers = new Map<EventSink, Subscriber>();

  /** Number of attached clients. */
  get size(): number {
    return this.#subscribers.size;
  }

  /** Attaches a client: from now on it gets what comes behind `cursor`. */
  attach(sink: EventSink, cursor: Cursor): void {
    this.#subscribers.set(sink, { sink, sent: cursor, backlog: [], backlogBytes: 0, flowing: true });
  }

  detach(sink: EventSink): void {
    this.#subscribers.delete(sink);
  }

  committed(event: CommittedEvent): void {
    if (this.#subscribers.size > 0) this.#toAll({ kind: "line", line: eventLine(event), cursor: cursorOf(event) });
  }

  state(event: StateEvent): void {
    if (this.#subscribers.size > 0) this.#toAll({ kind: "line", line: eventLine(event), cursor: undefined });
  }

  live(event: LiveEvent): void {
    if (this.#subscribers.size === 0) return;
    let line: string | undefined;
    for (const subscriber of this.#subscribers.values()) {
      if (subscriber.flowing) {
        line ??= eventLine(event);
        subscriber.flowing = subscriber.sink.send(line); // B1
      } else this.#queueLive(subscriber, event);
    }
  }

  /** The connection can take more: sends what waited. */
  drained(sink: EventSink): void {
    const subscriber = this.#subscribers.get(sink);
    if (!subscriber) return;
    subscriber.flowing = true;
    const { backlog } = subscriber;
    subscriber.backlog = [];
    subscriber.backlogBytes = 0;
    for (const waiting of backlog) {
      if (subscriber.flowing) this.#send(subscriber, waiting);
      else this.#queue(subscriber, waiting);
    }
  }

  #toAll(waiting: Waiting): void {
    for (const subscriber of this.#subscribers.values()) {
      if (subscriber.flowing) this.#send(subscriber, waiting);
      else this.#queue(subscriber, waiting);
    }
  }

  #send(subscriber: Subscriber, waiting: Waiting): void {
    const line = waiting.kind === "live" ? eventLine(waiting.event) : waiting.line;
    if (waiting.kind === "line" && waiting.cursor) subscriber.sent = waiting.cursor;
    subscriber.flowing = subscriber.sink.send(line);
  }

  #queueLive(subscriber: Subscriber, event: LiveEvent): void {
    const last = subscriber.backlog.at(-1);
    const merged = last?.kind === "live" ? mergeLive(last.event, event) : undefined;
    if (last?.kind === "live" && merged) {
      last.event = merged; // B1
      subscriber.backlogBytes += sizeOfDelta(event);
      this.#cutOffIfBehind(subscriber);
    } else this.#queue(subscriber, { kind: "live", event });
  }

  #queue(subscriber: Subscriber, waiting: Waiting): void {
    subscriber.backlog.push(waiting);
    subscriber.backlogBytes += waiting.kind === "live" ? sizeOfDelta(waiting.event) + 64 : waiting.line.length;
    this.#cutOffIfBehind(subscriber);
  }

  // B2
  #cutOffIfBehind(subscriber: Subscriber): void {
    if (subscriber.backlogBytes <= MAX_BACKLOG_BYTES) return;
    this.#subscribers.delete(subscriber.sink);
    subscriber.sink.send(eventLine({ type: "lagged", cursor: subscriber.sent } satisfies StateEvent));
  }
}

function sizeOfDelta(event: LiveEvent): number {
  switch (event.type) {
    case "text_delta":
    case "thinking_delta":
    case "tool_progress":
      return event.text.length;
    case "tool_call_delta":
      return event.arguments.length;
    case "retry":
    case "live_reset":
      return 0;
  }
}
