import type { Socket } from "node:net";
import { assertNever } from "../base/assert-never.ts";
import { runDetached } from "../base/detach.ts";
import { type AppError, toAppError } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { RPC_CODE, refusalToWire, toRefusal } from "../protocol/error-code.ts";
import { errorLine, type IncomingRequest, type RequestId, readRequest, resultLine } from "../protocol/json-rpc.ts";
import { MAX_LINE_BYTES, MAX_OPEN_REQUESTS } from "../protocol/limits.ts";
import type { MethodCall } from "../protocol/method.ts";
import { LineDecoder } from "../transport/line-decoder.ts";
import type { EventSink } from "./broadcaster.ts";
import type { Controller } from "./controller.ts";
import type { Outcome } from "./pod.ts";

/**
 * One client's connection: bytes to methods, answers and events back.
 *
 * S1 A bad line hurts its own connection only: an answer where that is possible, and the end of the connection where framing is lost.
 * S2 Every request with an id is answered; one without is carried out in silence. A client may close right after writing.
 * S3 While too many requests of this connection are unanswered, or while the client does not take its answers, no further one is begun,
 *    not even of the lines that one read brought: a short line can ask for a long answer. What it sends then waits in the socket.
 */
export class ClientConnection implements EventSink {
  readonly #socket: Socket;
  readonly #controller: Controller;
  readonly #logger: Logger;
  readonly #decoder = new LineDecoder({ maxBytes: MAX_LINE_BYTES });
  /** Lines that were read and not begun yet (S3): those of one read at most. */
  #lines: string[] = [];
  /** Why nothing behind `#lines` can be read. */
  #lineError: AppError | undefined;
  #isGivenUp = false;
  #open = 0;
  #ended = false;

  constructor(socket: Socket, controller: Controller, logger: Logger) {
    this.#socket = socket;
    this.#controller = controller;
    this.#logger = logger;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("drain", () => {
      controller.drained(this);
      this.#goOn();
    });
    // A vanished client is a normal day; `close` follows.
    socket.on("error", () => {});
    socket.on("end", () => {
      this.#ended = true;
      this.#endIfAnswered();
    });
    socket.on("close", () => {
      controller.detached(this);
      this.#goOn(); // What it had sent counts, also when it is gone.
    });
  }

  /** Sends an event line; false when the client is behind. */
  send(line: string): boolean {
    return this.#write(line);
  }

  #write(line: string): boolean {
    return this.#socket.writable && this.#socket.write(`${line}\n`);
  }

  #read(chunk: Buffer): void {
    if (this.#isGivenUp) return;
    const { lines, error } = this.#decoder.push(chunk);
    this.#lines.push(...lines);
    this.#lineError ??= error;
    this.#goOn();
  }

  /** Begins what may begin now, and reads on once nothing is left. */
  #goOn(): void {
    for (let line = this.#nextLine(); line !== undefined; line = this.#nextLine()) {
      this.#handle(readRequest(line));
    }
    if (this.#lines.length === 0 && this.#lineError) {
      const { code, message } = toRefusal(this.#lineError);
      this.#giveUp(errorLine(null, { code: RPC_CODE.parse, message, data: { code } }));
    }
    if (this.#isBusy || this.#lines.length > 0) this.#socket.pause();
    else if (this.#socket.isPaused()) this.#socket.resume();
    this.#endIfAnswered();
  }

  // S3
  get #isBusy(): boolean {
    return this.#open >= MAX_OPEN_REQUESTS || (this.#socket.writableNeedDrain && !this.#socket.destroyed);
  }

  #nextLine(): string | undefined {
    return this.#isBusy ? undefined : this.#lines.shift();
  }

  /** S1: what follows cannot be trusted. */
  #giveUp(line: string | undefined): void {
    this.#isGivenUp = true;
    this.#lines = [];
    this.#lineError = undefined;
    if (line !== undefined) this.#write(line);
    this.#socket.destroySoon();
  }

  #handle(request: IncomingRequest): void {
    switch (request.kind) {
      case "error": {
        const line = request.id === undefined ? undefined : errorLine(request.id, request.error);
        if (request.fatal) this.#giveUp(line);
        else if (line !== undefined) this.#write(line);
        return;
      }
      case "call":
        this.#begin(request.id, request.call);
        return;
      default:
        assertNever(request, "request");
    }
  }

  #begin(id: RequestId | undefined, call: MethodCall): void {
    if (call.name === "attach" && this.#socket.destroyed) return; // Nobody would ever detach it.
    try {
      const outcome = this.#controller.handle(call, this);
      if (!(outcome instanceof Promise)) {
        this.#answer(id, outcome);
        return;
      }
      this.#open += 1;
      const late = outcome.catch((thrown: unknown) => this.#failed(call, thrown));
      runDetached(
        late.then((answered) => {
          this.#open -= 1;
          this.#answer(id, answered);
          this.#goOn();
        }),
        (thrown) => this.#logger.warn(`answering ${call.name} failed: ${toAppError(thrown).stack}`),
      );
    } catch (thrown) {
      this.#answer(id, this.#failed(call, thrown));
    }
  }

  #failed(call: MethodCall, thrown: unknown): Outcome<never> {
    this.#logger.warn(`${call.name} failed: ${toAppError(thrown).stack}`);
    return { ok: false, refusal: { code: "internal", message: `${call.name} failed: ${toAppError(thrown).message}` } };
  }

  // S2
  #answer(id: RequestId | undefined, outcome: Outcome<unknown>): void {
    if (id === undefined) return;
    this.#write(outcome.ok ? resultLine(id, outcome.result) : errorLine(id, refusalToWire(outcome.refusal)));
  }

  // The client closed its side: it gets the answers it is owed, then the connection ends.
  #endIfAnswered(): void {
    const isAnswered = this.#open === 0 && this.#lines.length === 0;
    if (this.#ended && isAnswered && !this.#controller.isAttached(this)) this.#socket.end();
  }

  /** Ends the connection after what was written. */
  close(): void {
    this.#socket.destroySoon();
  }
}
