import type { CommittedEvent, LiveEvent } from "../protocol/event.ts";

/** What of the live lane still counts: merged deltas of the answer that is being streamed and progress of running tools. */
export class LiveBuffer {
  #deltas: LiveEvent[] = [];
  readonly #progress = new Map<string, LiveEvent>();

  /** Notes a live event that was just published. */
  note(event: LiveEvent): void {
    switch (event.type) {
      case "retry":
        this.#deltas = [event];
        return;
      case "live_reset":
        // It withdraws what an attempt showed, not the wait for the next one.
        if (this.#deltas.at(-1)?.type !== "retry") this.#deltas = [];
        return;
      case "tool_progress": {
        const before = this.#progress.get(event.call_id);
        const merged = before ? mergeLive(before, event) : event;
        this.#progress.set(
          event.call_id,
          merged && merged.type === "tool_progress" ? { ...merged, text: merged.text.slice(-PROGRESS_CHARS) } : event,
        );
        return;
      }
      case "text_delta":
      case "thinking_delta":
      case "tool_call_delta": {
        const last = this.#deltas.at(-1);
        const merged = last ? mergeLive(last, event) : undefined;
        if (merged) this.#deltas[this.#deltas.length - 1] = merged;
        else this.#deltas.push(event);
      }
    }
  }

  /** Forgets what a committed event has replaced. */
  settle(event: CommittedEvent): void {
    if (event.type === "request_started" || event.type === "request_ended") this.#deltas = [];
    if (event.type === "tool_result") this.#progress.delete(event.call_id);
    if (event.type === "turn_ended" || event.type === "turn_paused") {
      // Also the wait for another attempt: nobody waits any more.
      this.#deltas = [];
      this.#progress.clear();
    }
  }

  /** The live events that bring a client to the present. */
  snapshot(): LiveEvent[] {
    return [...this.#deltas, ...this.#progress.values()];
  }
}

// A client that attaches late sees the end of a running tool's output, not all of it.
const PROGRESS_CHARS = 8192;

/** One event that says what two neighbouring ones say, or undefined where they cannot be merged. */
export function mergeLive(first: LiveEvent, second: LiveEvent): LiveEvent | undefined {
  if (first.type === "text_delta" && second.type === "text_delta") return { ...first, text: first.text + second.text };
  if (first.type === "thinking_delta" && second.type === "thinking_delta") return { ...first, text: first.text + second.text };
  if (first.type === "tool_call_delta" && second.type === "tool_call_delta" && first.call_id === second.call_id) {
    return { ...first, arguments: first.arguments + second.arguments };
  }
  if (first.type === "tool_progress" && second.type === "tool_progress" && first.call_id === second.call_id) {
    return { ...first, text: first.text + second.text };
  }
  return undefined;
}
