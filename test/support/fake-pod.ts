import type { Socket } from "node:net";
import { refusalToWire, type WireErrorCode } from "../../src/protocol/error-code.ts";
import type { Event } from "../../src/protocol/event.ts";
import { errorLine, eventLine, type RequestId, readRequest, resultLine } from "../../src/protocol/json-rpc.ts";
import { MAX_LINE_BYTES } from "../../src/protocol/limits.ts";
import type { MethodCall, MethodName, MethodResult, Snapshot } from "../../src/protocol/method.ts";
import { NO_USAGE, type Status } from "../../src/protocol/status.ts";
import { LineDecoder } from "../../src/transport/line-decoder.ts";
import { listenUnix, type UnixListener } from "../../src/transport/unix-socket.ts";

/** What a handler of the fake answers: a result, a refusal, silence, or the end of the connection before any answer. */
export type FakeAnswer<M extends MethodName> =
  | { readonly result: MethodResult<M> }
  | { readonly refuse: WireErrorCode; readonly message?: string }
  | "silence"
  | "drop";

type Handlers = { [M in MethodName]?: (call: Extract<MethodCall, { name: M }>, pod: FakePod) => FakeAnswer<M> };

export const IDLE: Status = {
  state: "idle",
  turn: 0,
  trigger: null,
  last_outcome: null,
  pending: 0,
  wake_held: null,
  model: "script:fake",
  usage: NO_USAGE,
  scope_enforcement: "tools_only",
};

/** A Pod that is only its socket: answers what a test tells it, keeps what it was sent, sends what it is told. */
export class FakePod implements AsyncDisposable {
  readonly received: MethodCall[] = [];
  status: Status = IDLE;
  snapshot: Omit<Snapshot, "status"> = {
    pod: { name: "fake", session: "s_fake" },
    cursor: { seq: 1, index: 0 },
    more: false,
    events: [],
    live: [],
    alerts: [],
  };
  readonly #handlers: Handlers;
  readonly #sockets = new Set<Socket>();
  readonly #attached = new Set<Socket>();
  #listener: UnixListener | undefined;

  private constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  static async start(path: string, handlers: Handlers = {}): Promise<FakePod> {
    const pod = new FakePod(handlers);
    pod.#listener = await listenUnix(path, (socket) => pod.#serve(socket));
    return pod;
  }

  get address(): string {
    return this.#listener?.address ?? "";
  }

  /** Sends events to every attached client. */
  send(...events: readonly Event[]): void {
    this.write(events.map((event) => `${eventLine(event)}\n`).join(""));
  }

  /** Sends bytes to every attached client. */
  write(text: string | Uint8Array): void {
    for (const socket of this.#attached) socket.write(text);
  }

  /** Cuts every connection. */
  drop(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.drop();
    await this.#listener?.close();
  }

  #serve(socket: Socket): void {
    const decoder = new LineDecoder({ maxBytes: MAX_LINE_BYTES });
    this.#sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("end", () => socket.end());
    socket.on("close", () => {
      this.#sockets.delete(socket);
      this.#attached.delete(socket);
    });
    socket.on("data", (chunk: Buffer) => {
      for (const line of decoder.push(chunk).lines) {
        const request = readRequest(line);
        if (request.kind === "call") this.#answer(socket, request.id, request.call);
        else socket.write(`${errorLine(request.id ?? null, request.error)}\n`);
      }
    });
  }

  #answer(socket: Socket, id: RequestId | undefined, call: MethodCall): void {
    this.received.push(call);
    const answer = this.#decide(call);
    if (answer === "drop") socket.destroy();
    if (call.name === "attach") this.#attached.add(socket);
    if (id === undefined || typeof answer === "string") return;
    const line =
      "result" in answer
        ? resultLine(id, answer.result)
        : errorLine(id, refusalToWire({ code: answer.refuse, message: answer.message ?? answer.refuse }));
    if (!socket.destroyed) socket.write(`${line}\n`);
  }

  #decide(call: MethodCall): FakeAnswer<MethodName> {
    switch (call.name) {
      case "attach":
        return this.#handlers.attach?.(call, this) ?? { result: { ...this.snapshot, status: this.status } };
      case "status":
        return this.#handlers.status?.(call, this) ?? { result: this.status };
      case "run":
        return this.#handlers.run?.(call, this) ?? { result: { turn: 1, seq: 2 } };
      case "notify":
        return this.#handlers.notify?.(call, this) ?? { result: { item: "item_1", seq: 2, state: "woke" } };
      case "cancel":
        return this.#handlers.cancel?.(call, this) ?? { result: {} };
      case "shutdown":
        return this.#handlers.shutdown?.(call, this) ?? { result: {} };
      case "read_output":
        return (
          this.#handlers.read_output?.(call, this) ?? {
            result: { text: "", status: "idle", cursor: { seq: 1, index: 0 }, turns: 0 },
          }
        );
      case "pause":
        return this.#handlers.pause?.(call, this) ?? { result: {} };
      default:
        return { refuse: "internal", message: `the fake does not know ${call.name}` };
    }
  }
}
