import type { AppError } from "../base/errors.ts";

/** Events that wait for their consumer before the source is asked to stop: count ... */
const MAX_WAITING = 1000;
/** ... and characters (a single event always fits). */
const MAX_WAITING_CHARS = 8 * 1024 * 1024;

/**
 * Events between a socket and one consumer. Overflow rule: nothing is dropped; `onFull` asks the source to stop reading, `onDrained`
 * to go on. What was read already is kept, so it can exceed the bound by one read.
 */
export class EventQueue<T> implements AsyncIterable<T> {
  readonly #waiting: { readonly value: T; readonly size: number }[] = [];
  readonly #onFull: () => void;
  readonly #onDrained: () => void;
  #first = 0;
  #chars = 0;
  #full = false;
  #end: { readonly error: AppError | undefined } | undefined;
  #wake: (() => void) | undefined;

  constructor(options: { readonly onFull: () => void; readonly onDrained: () => void }) {
    this.#onFull = options.onFull;
    this.#onDrained = options.onDrained;
  }

  push(value: T, size: number): void {
    if (this.#end !== undefined) return;
    this.#waiting.push({ value, size });
    this.#chars += size;
    if (!this.#full && (this.#waiting.length - this.#first >= MAX_WAITING || this.#chars >= MAX_WAITING_CHARS)) {
      this.#full = true;
      this.#onFull();
    }
    this.#notify();
  }

  /** No more events come; the consumer gets what waits, then the end or `error`. */
  end(error: AppError | undefined): void {
    this.#end ??= { error };
    this.#notify();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    for (;;) {
      const next = this.#take();
      if (next !== undefined) {
        yield next.value;
        continue;
      }
      if (this.#end !== undefined) {
        if (this.#end.error !== undefined) throw this.#end.error;
        return;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #take(): { readonly value: T } | undefined {
    const next = this.#waiting[this.#first];
    if (next === undefined) return undefined;
    this.#first++;
    this.#chars -= next.size;
    // The taken front is cut off now and then, so that taking stays cheap.
    if (this.#first >= MAX_WAITING || this.#first === this.#waiting.length) {
      this.#waiting.splice(0, this.#first);
      this.#first = 0;
    }
    if (this.#full && this.#waiting.length - this.#first < MAX_WAITING / 2 && this.#chars < MAX_WAITING_CHARS / 2) {
      this.#full = false;
      this.#onDrained();
    }
    return next;
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}
