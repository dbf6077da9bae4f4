import type { Clock } from "../base/clock.ts";
import { newId } from "../base/ids.ts";
import type { Alert } from "../protocol/alert.ts";
import { MAX_ALERTS } from "../protocol/limits.ts";

/**
 * Messages for people only (S8): shown to whoever is attached, kept in memory for who attaches later, never in the log's history or
 * before a model. What still holds after a restore is raised again by whoever noticed it.
 */
export class Alerter {
  readonly #clock: Clock;
  readonly #publish: (alert: Alert) => void;
  /** Current alerts, oldest first. */
  readonly #current = new Map<string, Alert>();

  constructor(clock: Clock, publish: (alert: Alert) => void) {
    this.#clock = clock;
    this.#publish = publish;
  }

  /** Raises an alert. One that already stands for the same `code` and message is not raised twice. */
  raise(level: Alert["level"], code: string, message: string): void {
    for (const alert of this.#current.values()) if (alert.code === code && alert.message === message) return;
    const alert: Alert = { id: newId("alert"), level, code, message, ts: this.#clock.nowMs(), active: true };
    this.#current.set(alert.id, alert);
    if (this.#current.size > MAX_ALERTS) {
      const [oldest] = this.#current.values();
      if (oldest) this.#take(oldest);
    }
    this.#publish(alert);
  }

  /** Takes back every alert of this code: what it said no longer holds. */
  clear(code: string): void {
    for (const alert of [...this.#current.values()]) if (alert.code === code) this.#take(alert);
  }

  // Who watches is told, so that his list stays as bounded as ours (I6).
  #take(alert: Alert): void {
    this.#current.delete(alert.id);
    this.#publish({ ...alert, active: false });
  }

  /** What holds now, for a client that attaches. */
  snapshot(): Alert[] {
    return [...this.#current.values()];
  }
}
