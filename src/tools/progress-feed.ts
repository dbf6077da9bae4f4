import { Buffer } from "node:buffer";
import { toSafeText } from "../base/text.ts";
import { withoutCutEnd, withoutCutStart } from "./output-collector.ts";

/** Fast enough to look live, slow enough to cost nothing beside the command. */
const INTERVAL_MS = 100;
/** A screenful: who watches live output that runs faster cannot read more. */
const MAX_BYTES = 4096;

/** Passes live output on at intervals: what comes faster than it can be read is dropped, oldest first. For people only. */
export class ProgressFeed {
  readonly #publish: (text: string) => void;
  #pending: Buffer = Buffer.alloc(0);
  #timer: NodeJS.Timeout | undefined;

  constructor(publish: (text: string) => void) {
    this.#publish = publish;
  }

  add(chunk: Buffer): void {
    const newest = chunk.length > MAX_BYTES ? chunk.subarray(chunk.length - MAX_BYTES) : chunk;
    if (newest.length === MAX_BYTES) {
      // A flood: nothing is copied, the newest part of the newest chunk stands for all.
      this.#pending = withoutCutStart(newest);
    } else {
      const joined = Buffer.concat([this.#pending, newest]);
      this.#pending = joined.length > MAX_BYTES ? withoutCutStart(joined.subarray(joined.length - MAX_BYTES)) : joined;
    }
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
    }, INTERVAL_MS);
  }

  /** Passes on what waits and stops. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending.length > 0) this.#send(this.#pending);
    this.#pending = Buffer.alloc(0);
  }

  #flush(): void {
    const whole = withoutCutEnd(this.#pending);
    this.#pending = Buffer.from(this.#pending.subarray(whole.length));
    if (whole.length > 0) this.#send(whole);
  }

  #send(bytes: Buffer): void {
    this.#publish(toSafeText(bytes.toString("utf8")));
  }
}
