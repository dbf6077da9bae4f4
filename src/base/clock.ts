import { AppError } from "./errors.ts";

/** The only source of time and waiting, so that tests can drive both. Times are Unix milliseconds. */
export interface Clock {
  nowMs(): number;
  /** Resolves after `ms`; rejects with the abort reason as soon as `signal` aborts. */
  sleep(ms: number, options?: { readonly signal?: AbortSignal }): Promise<void>;
}

// setTimeout treats anything above this as 1 ms.
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The machine's clock. Its timers keep the process alive only while somebody awaits them with real work behind. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  sleep(ms, options = {}) {
    const { signal } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(abortReason(signal));
        return;
      }
      const onAbort = () => {
        clearTimeout(timer);
        reject(abortReason(signal));
      };
      const timer = setTimeout(
        () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
        Math.min(Math.max(ms, 0), MAX_TIMER_MS),
      );
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  },
};

/** The reason a signal was aborted with, as an `AppError` (`cancelled` when nobody gave one). */
export function abortReason(signal: AbortSignal | undefined): AppError {
  const reason: unknown = signal?.reason;
  return reason instanceof AppError ? reason : new AppError("cancelled", "the work was cancelled", { cause: reason });
}
