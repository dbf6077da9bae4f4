import type { Socket } from "node:net";
import { assertNever } from "../base/assert-never.ts";
import { runDetached } from "../base/detach.ts";
import { toAppError } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { RPC_CODE, refusalToWire, toRefusal } from "../protocol/error-code.ts";
import { errorLine, type IncomingRequest, type RequestId, readRequest, resultLine } from "../protocol/json-rpc.ts";
import { MAX_LINE_BYTES, MAX_OPEN_REQUESTS } from "../protocol/limits.ts";
import type { MethodCall } from "../protocol/method.ts";
import { LineDecoder } from "../transport/line-decoder.ts";
import type { EventSink } from "./broadcaster.ts";
import type { Controller } from "./controller.ts";

/**
 * One client's connection: bytes to methods, answers and events back.
 *
 * S1 A bad line hurts its own connection only: an answer where that is possible, and the end of the connection where framing is lost.
 * S2 Every request with an id is answered; one without is carried out in silence. A client may close right after writing.
 * S3 Reading stops while too many requests of this connection are unanswered, or while the client does not take its answers:
 *    what it sends then waits in the socket, and our memory stays bounded.
 */
export class ClientConnection implements EventSink {
  readonly #socket: Socket;
  readonly #controller: Controller;
  readonly #logger: Logger;
  readonly #decoder = new LineDecoder({ maxBytes: MAX_LINE_BYTES });
  #open = 0;
  #ended = false;

  constructor(socket: Socket, controller: Controller, logger: Logger) {
    this.#socket = socket;
    this.#controller = controller;
    this.#logger = logger;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("drain", () => {
      controller.drained(this);
      this.#resumeReading();
    });
    // A vanished client is a normal day; `close` follows.
    socket.on("error", () => {});
    socket.on("end", () => {
      this.#ended = true;
      this.#endIfAnswered();
    });
    socket.on("close", () => controller.detached(this));
  }

  /** Sends an event line; false when the client is behind. */
  send(line: string): boolean {
    return this.#write(line);
  }

  #write(line: string): boolean {
    return this.#socket.writable && this.#socket.write(`${line}\n`);
  }

  #read(chunk: Buffer): void {
    const { lines, error } = this.#decoder.push(chunk);
    for (const line of lines) if (!this.#handle(readRequest(line))) return;
    if (error) {
      this.#write(errorLine(null, { code: RPC_CODE.parse, message: error.message, data: { code: toRefusal(error).code } })); // S1
      this.#socket.destroySoon();
      return;
    }
    if (this.#open >= MAX_OPEN_REQUESTS || this.#socket.writableNeedDrain) this.#socket.pause(); // S3
  }

  /** False when the connection is given up. */
  #handle(request: IncomingRequest): boolean {
    switch (request.kind) {
      case "error":
        if (request.id !== undefined) this.#write(errorLine(request.id, request.error));
        if (request.fatal) this.#socket.destroySoon(); // S1
        return !request.fatal;
      case "call":
        this.#open += 1;
        runDetached(this.#answer(request.id, request.call), (thrown) => {
          this.#logger.warn(`answering ${request.call.name} failed: ${toAppError(thrown).stack}`);
        });
        return true;
      default:
        return assertNever(request, "request");
    }
  }

  async #answer(id: RequestId | undefined, call: MethodCall): Promise<void> {
    let line: string;
    try {
      const outcome = await this.#controller.handle(call, this);
      line = outcome.ok ? resultLine(id ?? 0, outcome.result) : errorLine(id ?? 0, refusalToWire(outcome.refusal));
    } catch (thrown) {
      this.#logger.warn(`${call.name} failed: ${toAppError(thrown).stack}`);
      line = errorLine(
        id ?? 0,
        refusalToWire({ code: "internal", message: `${call.name} failed: ${toAppError(thrown).message}` }),
      );
    }
    if (id !== undefined) this.#write(line); // S2
    this.#open -= 1;
    this.#resumeReading();
    this.#endIfAnswered();
  }

  #resumeReading(): void {
    if (this.#socket.isPaused() && this.#open < MAX_OPEN_REQUESTS && !this.#socket.writableNeedDrain) this.#socket.resume();
  }

  // The client closed its side: it gets the answers it is owed, then the connection ends.
  #endIfAnswered(): void {
    if (this.#ended && this.#open === 0 && !this.#controller.isAttached(this)) this.#socket.end();
  }

  /** Ends the connection after what was written. */
  close(): void {
    this.#socket.destroySoon();
  }
}
