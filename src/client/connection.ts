import type { Socket } from "node:net";
import * as z from "zod";
import { abortReason } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import type { WireError } from "../protocol/error-code.ts";
import { type ReadEvent, readEvent } from "../protocol/event.ts";
import { readAnswer, requestLine } from "../protocol/json-rpc.ts";
import { MAX_POD_LINE_BYTES } from "../protocol/limits.ts";
import { METHODS, type MethodInput, type MethodName, type MethodResult } from "../protocol/method.ts";
import { LineDecoder } from "../transport/line-decoder.ts";
import { connectUnix, parseAddress } from "../transport/unix-socket.ts";
import { EventQueue } from "./event-queue.ts";

/** A Pod that said no: a value, because that is a normal day. `code` is a `WireErrorCode`, or a newer Pod's. */
export interface PodRefusal {
  readonly code: string;
  readonly message: string;
  readonly hint: string | undefined;
}

/** What a method was answered with. */
export type Answer<M extends MethodName> =
  | { readonly ok: true; readonly result: MethodResult<M> }
  | { readonly ok: false; readonly refusal: PodRefusal };

/** An event as it came: validated, and as the Pod wrote it (`raw` keeps the fields of a newer Pod). */
export type ReceivedEvent = ReadEvent & { readonly raw: unknown };

interface Waiting {
  readonly settle: (result: unknown) => void;
  readonly refuse: (error: WireError) => void;
  readonly fail: (error: AppError) => void;
}

/** A connection to one Pod. Its loss is an `unavailable` error on every open request and at the end of `events()`. */
export class PodConnection implements AsyncDisposable {
  readonly address: string;
  readonly #socket: Socket;
  readonly #decoder = new LineDecoder({ maxBytes: MAX_POD_LINE_BYTES });
  readonly #waiting = new Map<string | number, Waiting>();
  readonly #events: EventQueue<ReceivedEvent>;
  #nextId = 1;
  #ended: AppError | undefined;

  constructor(socket: Socket, address: string) {
    this.address = address;
    this.#socket = socket;
    // Bounded by not reading on: the Pod then merges, and cuts us off with `lagged`. It never drops, nor do we.
    this.#events = new EventQueue({ onFull: () => socket.pause(), onDrained: () => socket.resume() });
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (thrown) => this.#end(lost(address, thrown)));
    socket.on("close", () => this.#end(lost(address, undefined)));
  }

  /** False once the connection is lost or closed. */
  get isOpen(): boolean {
    return this.#ended === undefined;
  }

  /**
   * Calls a method. Rejects with `unavailable` (connection lost: whether the Pod did it is not known), `timed_out` (no answer within
   * `deadlineMs`; no limit without it), the abort reason, or `internal` (an answer that is none).
   */
  request<M extends MethodName>(
    method: M,
    params: MethodInput<M>,
    options: { readonly signal?: AbortSignal; readonly deadlineMs?: number } = {},
  ): Promise<Answer<M>> {
    const { signal, deadlineMs } = options;
    return new Promise((resolve, reject) => {
      const ended = this.#ended ?? (signal?.aborted ? abortReason(signal) : undefined);
      if (ended !== undefined) {
        reject(ended);
        return;
      }
      const id = this.#nextId++;
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#waiting.delete(id);
      };
      const fail = (error: AppError) => {
        done();
        reject(error);
      };
      const onAbort = () => fail(abortReason(signal));
      const timer =
        deadlineMs === undefined
          ? undefined
          : setTimeout(
              () =>
                fail(
                  new AppError("timed_out", `no answer to ${method} from ${this.address} within ${deadlineMs / 1000} s`, {
                    hint: "it may be suspended or overloaded; wakeful ps shows whether it answers",
                  }),
                ),
              deadlineMs,
            );
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(id, {
        fail,
        settle: (value) => {
          done();
          const result = METHODS[method].result.safeParse(value);
          // The schema was looked up by the same name, which the compiler cannot see through the index.
          if (result.success) resolve({ ok: true, result: result.data as MethodResult<M> });
          else reject(new AppError("internal", `the answer to ${method} cannot be read: ${z.prettifyError(result.error)}`));
        },
        refuse: (error) => {
          done();
          resolve({
            ok: false,
            refusal: { code: error.data?.code ?? "internal", message: error.message, hint: error.data?.hint },
          });
        },
      });
      this.#socket.write(`${requestLine(id, method, params)}\n`);
    });
  }

  /** Calls a method without waiting for anything: for the last word before leaving. */
  send<M extends MethodName>(method: M, params: MethodInput<M>): void {
    if (this.#ended === undefined) this.#socket.write(`${requestLine(undefined, method, params)}\n`);
  }

  /**
   * The events of this connection from its beginning, in order, for one consumer; `attach` makes them come. Ends after `close`; throws
   * `unavailable` when the connection is lost, after what arrived before. While nobody takes them, nothing else is read either.
   */
  events(): AsyncIterable<ReceivedEvent> {
    return this.#events;
  }

  /** Ends the connection; open requests are rejected. Idempotent. */
  async close(): Promise<void> {
    if (this.#ended !== undefined) return;
    this.#end(new AppError("cancelled", `the connection to ${this.address} was closed`));
    this.#socket.destroySoon(); // After what was written; half-closed, an attached client would be served on.
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #read(chunk: Buffer): void {
    if (this.#ended !== undefined) return;
    const { lines, error } = this.#decoder.push(chunk);
    for (const line of lines) this.#take(line);
    if (error !== undefined)
      this.#end(new AppError("internal", `${this.address} sent what cannot be read: ${error.message}`, { cause: error }));
  }

  #take(line: string): void {
    const answer = readAnswer(line);
    switch (answer.kind) {
      case "event":
        this.#events.push({ ...readEvent(answer.params), raw: answer.params }, line.length);
        return;
      case "result":
        this.#waiting.get(answer.id)?.settle(answer.result);
        return;
      case "error":
        // Without an id it is about the connection itself, which the Pod now ends.
        if (answer.id === null)
          this.#end(new AppError("internal", `${this.address} refused the connection: ${answer.error.message}`));
        else this.#waiting.get(answer.id)?.refuse(answer.error);
        return;
      case "malformed":
        this.#end(new AppError("internal", `${this.address} sent what is no message: ${answer.reason}`));
    }
  }

  #end(error: AppError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    if (error.code !== "cancelled") this.#socket.destroy();
    for (const waiting of [...this.#waiting.values()]) waiting.fail(error);
    this.#events.end(error.code === "cancelled" ? undefined : error);
  }
}

function lost(address: string, cause: unknown): AppError {
  return new AppError("unavailable", `the connection to ${address} was lost`, {
    cause,
    hint: "wakeful ps shows whether the Pod lives",
  });
}

/** Time to connect, milliseconds: a local socket answers at once or not at all. */
export const CONNECT_DEADLINE_MS = 5000;

/** Connects to the Pod at `address`. Throws `unavailable`, `timed_out`, `invalid_input` (an address we do not speak) or the abort reason. */
export async function connect(
  address: string,
  options: { readonly signal?: AbortSignal; readonly deadlineMs?: number } = {},
): Promise<PodConnection> {
  const { path } = parseAddress(address);
  const { deadlineMs = CONNECT_DEADLINE_MS, signal } = options;
  return new PodConnection(await connectUnix(path, signal === undefined ? { deadlineMs } : { deadlineMs, signal }), address);
}

/** The result of an answer; a refusal becomes an error with the Pod's own code, for callers to whom every refusal is a failure. */
export function resultOf<M extends MethodName>(answer: Answer<M>): MethodResult<M> {
  if (answer.ok) return answer.result;
  throw refusalError(answer.refusal);
}

/** A refusal as an error: `details.wire` keeps the Pod's code where ours are fewer. */
export function refusalError(refusal: PodRefusal): AppError {
  const { code, message, hint } = refusal;
  const ours = OUR_CODE.get(code) ?? "internal";
  return new AppError(ours, message, hint === undefined ? { details: { wire: code } } : { hint, details: { wire: code } });
}

const OUR_CODE: ReadonlyMap<string, AppError["code"]> = new Map([
  ["already_running", "busy"],
  ["not_running", "unavailable"],
  ["not_paused", "unavailable"],
  ["busy", "busy"],
  ["queue_full", "queue_full"],
  ["too_large", "too_large"],
  ["invalid_input", "invalid_input"],
  ["not_found", "not_found"],
  ["forbidden", "forbidden"],
  ["storage_failed", "storage_failed"],
  ["shutting_down", "unavailable"],
  ["internal", "internal"],
]);
