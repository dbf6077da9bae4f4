// A timer this late means that the process itself stood still (SIGSTOP, a sleeping laptop, a blocked event loop), not the peer (B70).
const STOOD_STILL_MS = 1000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Tells when a peer has been silent for too long. What counts as a sign of life is the caller's business: pings do not (B71). Time during
 * which the caller itself is busy does not count either ({@link pause}), nor does time during which this process stood still.
 */
export class IdleWatchdog {
  readonly #limitMs: number;
  readonly #onSilence: () => void;
  #timer: NodeJS.Timeout | undefined;
  #deadlineMs = Number.POSITIVE_INFINITY;
  #firesAtMs = 0;
  #remainingMs = 0;
  #isPaused = false;
  #isOver = false;

  /** `limitMs`: the longest silence, milliseconds. `onSilence` is called at most once, and only after {@link alive}. */
  constructor(limitMs: number, onSilence: () => void) {
    this.#limitMs = limitMs;
    this.#onSilence = onSilence;
  }

  /** A sign of life: the silence begins anew. */
  alive(): void {
    this.#deadlineMs = performance.now() + this.#limitMs;
    if (this.#timer === undefined) this.#arm();
  }

  /** The caller is busy and does not listen: the time stands still until {@link resume}. */
  pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#remainingMs = this.#deadlineMs - performance.now();
    this.#deadlineMs = Number.POSITIVE_INFINITY;
  }

  /** The caller listens again: the silence goes on where it was paused, it does not begin anew. */
  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#deadlineMs = performance.now() + this.#remainingMs;
    if (this.#timer === undefined) this.#arm();
  }

  /** Ends the watch for good. */
  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  // One timer that looks when it is due, not one for each event: a stream has thousands.
  #arm(): void {
    if (this.#isOver) return;
    const waitMs = Math.min(Math.max(this.#deadlineMs - performance.now(), 0), this.#limitMs, MAX_TIMER_MS);
    this.#firesAtMs = performance.now() + waitMs;
    this.#timer = setTimeout(() => this.#look(), waitMs);
  }

  #look(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    if (this.#deadlineMs === Number.POSITIVE_INFINITY) return;
    if (nowMs - this.#firesAtMs > STOOD_STILL_MS) this.#deadlineMs = nowMs + this.#limitMs;
    if (nowMs < this.#deadlineMs) this.#arm();
    else {
      this.#isOver = true;
      this.#onSilence();
    }
  }
}
