import { systemClock } from "../../base/clock.ts";
import { AppError } from "../../base/errors.ts";
import { connect, type PodConnection } from "../../client/connection.ts";
import { findLivingPod } from "../../client/find-pod.ts";
import { follow } from "../../client/follow.ts";
import { type Cursor, compareCursors } from "../../protocol/cursor.ts";
import { type CommittedEvent, cursorOf, type Event } from "../../protocol/event.ts";
import { toEvents } from "../../session-log/to-events.ts";
import { describeEvent } from "../describe-event.ts";
import { toInert, toInertLine } from "../inert.ts";
import { type CliIo, EXIT } from "../io.ts";
import type { ParsedArgs } from "../parse-args.ts";
import { placesOf } from "../reach.ts";
import { describeCommitted, entryHeader } from "./describe-committed.ts";
import { countOption, findSession } from "./find-session.ts";
import { inertJson } from "./log-output.ts";
import { LogTail } from "./log-tail.ts";
import { placeOfLast } from "./place-of-last.ts";

/** How often the log of a Pod that does not live is looked at. */
const POLL_MS = 200;
const DEFAULT_LAST = 10;

/**
 * `wakeful log follow`: the past from the files, then what comes; of a living Pod from the Pod itself, until it shuts down (0), else from
 * the files, until Ctrl-C (130).
 */
export async function followLog(args: ParsedArgs, io: CliIo): Promise<number> {
  const { session, directory, row } = await findSession(args, io);
  const since = countOption(args, "since");
  const last = countOption(args, "last") ?? (since === undefined ? DEFAULT_LAST : Number.POSITIVE_INFINITY);
  const { place, unreadable } = await placeOfLast(directory, { since: since ?? 0, last, signal: io.signal });
  if (unreadable !== undefined) io.stderr.write(`note: older entries cannot be shown: ${toInert(unreadable)}\n`);
  const follower = new Follower(new LogTail(directory, place), io, args.has("json"));
  follower.catchUp();
  return row?.alive ? follower.attached(() => connectTo(session, io)) : follower.tailing();
}

async function connectTo(session: string, io: CliIo): Promise<PodConnection> {
  // Asked anew each time: a Pod that was restored has another address.
  const { address } = await findLivingPod(placesOf(io), session, { signal: io.signal });
  return connect(address, { signal: io.signal });
}

/** Shows each committed event once, wherever it comes from: the file has it before anybody is told. */
class Follower {
  readonly #tail: LogTail;
  readonly #io: CliIo;
  readonly #json: boolean;
  #shown: Cursor = { seq: 0, index: 0 };

  constructor(tail: LogTail, io: CliIo, json: boolean) {
    this.#tail = tail;
    this.#io = io;
    this.#json = json;
  }

  catchUp(): void {
    for (const entry of this.#tail.next()) for (const event of toEvents(entry)) this.#committed(event, event);
  }

  /** Ends by the abort reason being thrown. */
  async tailing(): Promise<never> {
    for (;;) {
      await systemClock.sleep(POLL_MS, { signal: this.#io.signal });
      this.catchUp();
    }
  }

  async attached(connectAgain: () => Promise<PodConnection>): Promise<number> {
    const { signal } = this.#io;
    const since = this.#shown;
    for await (const followed of follow({ connect: connectAgain, since, signal })) {
      if (followed.kind === "snapshot") {
        this.catchUp(); // A snapshot is bounded, the file is not.
        const alerts = followed.snapshot.alerts.map((alert): Event => ({ type: "alert", alert }));
        for (const event of [...followed.snapshot.live, ...alerts]) this.#other(event, event);
        continue;
      }
      const { received } = followed;
      if (received.kind === "known" && "seq" in received.event) this.#committed(received.event, received.raw);
      else if (received.kind === "known") this.#other(received.event, received.raw);
      else if (received.kind === "unknown") this.#unknown(received.event.type, received.raw);
      else throw new AppError("internal", `the Pod sent an event that cannot be read: ${received.reason}`);
    }
    if (signal.aborted) return EXIT.interrupted;
    this.catchUp();
    return EXIT.done;
  }

  #committed(event: CommittedEvent, raw: unknown): void {
    const cursor = cursorOf(event);
    if (compareCursors(cursor, this.#shown) <= 0) return;
    const isNextEntry = cursor.seq !== this.#shown.seq;
    this.#shown = cursor;
    if (this.#json) this.#line(raw);
    else this.#io.stdout.write(`${isNextEntry ? entryHeader(event) : ""}${describeCommitted(event, () => undefined)}`);
  }

  #other(event: Event, raw: unknown): void {
    const isForPeople = event.type === "alert" || event.type === "retry" || event.type === "shutdown";
    const text = isForPeople ? describeEvent(event) : undefined;
    if (this.#json) this.#line(raw);
    else if (text !== undefined) this.#io.stdout.write(`${text}\n`);
  }

  #unknown(type: string, raw: unknown): void {
    if (this.#json) this.#line(raw);
    else this.#io.stdout.write(`${toInertLine(type)}\n`);
  }

  #line(raw: unknown): void {
    this.#io.stdout.write(`${inertJson(JSON.stringify(raw))}\n`);
  }
}
