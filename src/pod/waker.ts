import { setTimeout as startTimer } from "node:timers";
import { assertNever } from "../base/assert-never.ts";
import type { Clock } from "../base/clock.ts";
import { WAKE_WINDOW_MS } from "../protocol/limits.ts";
import type { WakeHeld } from "../protocol/status.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { decideWake } from "../session-log/wake-rule.ts";
import type { Alerter } from "./alerter.ts";

/** setTimeout takes no longer time; a held wake is looked at again then. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Starts the turns that nobody asked for: applies the wake rule (N6, N11, N12) now, after a burst's window, or when a hold is over. */
export class Waker {
  readonly #state: Readonly<SessionState>;
  readonly #clock: Clock;
  readonly #alerter: Alerter;
  readonly #mayStart: () => boolean;
  readonly #inputsAfter: () => number;
  readonly #start: (trigger: "user" | "notification") => void;
  readonly #onHeld: () => void;
  #timer: NodeJS.Timeout | undefined;
  #held: WakeHeld | undefined;

  constructor(options: {
    readonly state: Readonly<SessionState>;
    readonly clock: Clock;
    readonly alerter: Alerter;
    /** False while a turn runs or the Pod is on its way out. */
    readonly mayStart: () => boolean;
    /** Human inputs up to this `seq` start nothing (see `decideWake`). */
    readonly inputsAfter: () => number;
    readonly start: (trigger: "user" | "notification") => void;
    /** A wake began to be held: the status changed. */
    readonly onHeld: () => void;
  }) {
    this.#state = options.state;
    this.#clock = options.clock;
    this.#alerter = options.alerter;
    this.#mayStart = options.mayStart;
    this.#inputsAfter = options.inputsAfter;
    this.#start = options.start;
    this.#onHeld = options.onHeld;
  }

  /** Why a wake that is owed does not happen now. */
  get held(): WakeHeld | undefined {
    return this.#held;
  }

  /** Starts a turn if one is due, or says why not and looks again when that can change. */
  ifDue(): void {
    if (!this.#mayStart()) return;
    const decision = decideWake(this.#state, this.#clock.nowMs(), this.#inputsAfter());
    switch (decision.kind) {
      case "none":
        this.stop();
        return;
      case "start":
        // A burst is one wake (N5): whatever arrives within the window of the first one joins the same request.
        if (this.#timer && !this.#held) return;
        this.stop();
        this.#timer = startTimer(() => this.#now(), decision.trigger === "user" ? 0 : WAKE_WINDOW_MS);
        return;
      case "held":
        this.#hold(decision.held);
        return;
      default:
        assertNever(decision, "wake decision");
    }
  }

  #now(): void {
    this.stop();
    if (!this.#mayStart()) return;
    const decision = decideWake(this.#state, this.#clock.nowMs(), this.#inputsAfter());
    if (decision.kind === "start") this.#start(decision.trigger);
    else this.ifDue();
  }

  #hold(held: WakeHeld): void {
    if (this.#held && sameHold(this.#held, held)) return;
    this.stop();
    this.#held = held;
    if (held.reason !== "paused") {
      const why = held.reason === "bucket_empty" ? "the budget for automatic turns is used up" : "the last turn failed";
      const until = new Date(held.until).toISOString();
      this.#alerter.raise(
        "warning",
        "wake_held",
        `notifications wait: ${why}; the Pod wakes by itself at ${until}, or send resume`,
      );
      const waitMs = Math.min(Math.max(held.until - this.#clock.nowMs(), 0) + 1, MAX_TIMER_MS);
      this.#timer = startTimer(() => this.#now(), waitMs);
    }
    this.#onHeld();
  }

  /** Forgets what was planned: a turn starts, or the Pod ends. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#held) return;
    this.#held = undefined;
    this.#alerter.clear("wake_held");
  }
}

/** Whether two looks at the same hold say the same, up to the rounding of their times: then its alert and timer stay. */
function sameHold(a: WakeHeld, b: WakeHeld): boolean {
  if (a.reason !== b.reason) return false;
  return a.reason === "paused" || b.reason === "paused" || Math.abs(a.until - b.until) < 1000;
}
