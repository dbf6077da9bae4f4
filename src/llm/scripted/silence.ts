import { stat } from "node:fs/promises";
import type { Clock } from "../../base/clock.ts";
import { messageOf, systemCode } from "../../base/errors.ts";
import type { ModelFailure } from "../model.ts";
import { toFailure } from "../provider-failure.ts";

const POLL_MS = 20;

/**
 * The waits of one request. Each returns undefined when it is over, or the failure it ends the request with: `cancelled` as soon as the
 * signal aborts, `timeout` when the silence since the last event exceeds the idle limit. Silence is the sum of what was waited for, not
 * a difference of wall-clock times, so that a process that was stopped or slept does not time out (field report B70).
 */
export class Silence {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #idleTimeoutMs: number;
  #silentMs = 0;

  constructor(clock: Clock, options: { readonly signal: AbortSignal; readonly idleTimeoutMs: number }) {
    this.#clock = clock;
    this.#signal = options.signal;
    this.#idleTimeoutMs = options.idleTimeoutMs;
  }

  /** An event is about to be produced: the silence is over. Tells whether it may still be. */
  break(): ModelFailure | undefined {
    this.#silentMs = 0;
    return this.#signal.aborted ? toFailure("cancelled", "the request was cancelled") : undefined;
  }

  /** Waits `ms`; `Infinity` waits for the abort or the idle limit. */
  async wait(ms: number): Promise<ModelFailure | undefined> {
    const left = Math.max(0, this.#idleTimeoutMs - this.#silentMs);
    try {
      await this.#clock.sleep(Math.min(ms, left), { signal: this.#signal });
    } catch (thrown) {
      if (!this.#signal.aborted) throw thrown;
    }
    if (this.#signal.aborted) return toFailure("cancelled", "the request was cancelled");
    if (ms > left)
      return toFailure("timeout", `the script was silent for ${this.#idleTimeoutMs} ms, the longest a provider may be`);
    this.#silentMs += ms;
    return undefined;
  }

  /** Waits until there is something at `file`; when that takes longer than `withinMs` the script is at fault. */
  async waitForFile(file: string, withinMs: number): Promise<ModelFailure | undefined> {
    for (let waitedMs = 0; ; waitedMs += POLL_MS) {
      const found = await exists(file);
      if (this.#signal.aborted) return toFailure("cancelled", "the request was cancelled");
      if (found === true) return undefined;
      if (found !== false) return toFailure("script", `the script cannot look for ${file}: ${found.problem}`);
      if (waitedMs >= withinMs) return toFailure("script", `${file} did not appear within ${withinMs} ms (wait_for)`);
      const failure = await this.wait(Math.min(POLL_MS, withinMs - waitedMs));
      if (failure !== undefined) return failure;
    }
  }
}

async function exists(file: string): Promise<boolean | { readonly problem: string }> {
  try {
    await stat(file);
    return true;
  } catch (thrown) {
    const code = systemCode(thrown);
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    return { problem: messageOf(thrown) };
  }
}
