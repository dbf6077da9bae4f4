import { type Clock, systemClock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { type Cursor, compareCursors } from "../protocol/cursor.ts";
import type { Snapshot } from "../protocol/method.ts";
import { type PodConnection, type ReceivedEvent, resultOf } from "./connection.ts";

/** What a follower gets: first of all a snapshot, and another one each time it had to attach anew. */
export type Followed =
  | { readonly kind: "snapshot"; readonly snapshot: Snapshot; readonly connection: PodConnection }
  | { readonly kind: "event"; readonly received: ReceivedEvent };

export interface FollowOptions {
  /** Connects to the Pod, wherever it is now: asked again after a loss, because a restored Pod has a new address. */
  readonly connect: () => Promise<PodConnection>;
  /** Attach from here; absent = the newest part. */
  readonly since?: Cursor;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /** How long a lost Pod is looked for, milliseconds. */
  readonly patienceMs?: number;
}

/**
 * The events of a Pod without gap or repeat, over lost connections and `lagged`: attaches again from the newest committed place.
 * Ends when the Pod shuts down or the signal aborts. Throws `unavailable` when the Pod stays away longer than `patienceMs`, and whatever
 * the Pod refuses `attach` with. The consumer owns no connection: leaving the loop closes it.
 */
export async function* follow(options: FollowOptions): AsyncGenerator<Followed> {
  const { clock = systemClock, signal, patienceMs = 10_000 } = options;
  let since = options.since;
  let lostAtMs: number | undefined;
  let waitMs = FIRST_WAIT_MS;
  while (!signal?.aborted) {
    try {
      await using connection = await options.connect();
      const stop = () => void connection.close();
      signal?.addEventListener("abort", stop, { once: true });
      try {
        const snapshot = resultOf(
          await connection.request("attach", since === undefined ? {} : { since }, { deadlineMs: ATTACH_DEADLINE_MS }),
        );
        lostAtMs = undefined;
        waitMs = FIRST_WAIT_MS;
        since = snapshot.cursor;
        yield { kind: "snapshot", snapshot, connection };
        for await (const received of connection.events()) {
          since = newer(since, received);
          yield { kind: "event", received };
          if (received.kind !== "known") continue;
          if (received.event.type === "shutdown") return;
          if (received.event.type === "lagged") break;
        }
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    } catch (thrown) {
      if (signal?.aborted) return;
      if (!(thrown instanceof AppError) || (thrown.code !== "unavailable" && thrown.code !== "timed_out")) throw thrown;
      lostAtMs ??= clock.nowMs();
      if (clock.nowMs() - lostAtMs + waitMs > patienceMs) throw thrown;
      await clock.sleep(waitMs, signal === undefined ? {} : { signal });
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
    }
  }
}

function newer(since: Cursor, received: ReceivedEvent): Cursor {
  if (received.kind === "malformed") return since;
  const event: object = received.event;
  if (!("seq" in event && "index" in event)) return since;
  const { seq, index } = event;
  if (typeof seq !== "number" || typeof index !== "number") return since;
  const place = { seq, index };
  return compareCursors(place, since) > 0 ? place : since;
}

const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 2000;
const ATTACH_DEADLINE_MS = 10_000;
