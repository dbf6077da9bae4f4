import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { type Answer, type HttpAnswer, httpJson, type Step, type StreamAnswer } from "./answer.ts";
import { readStrictJson } from "./strict-json.ts";
import { createAnthropicWire } from "./wires/anthropic.ts";
import { createChatWire } from "./wires/chat.ts";
import { createGeminiWire } from "./wires/gemini.ts";
import { createResponsesWire } from "./wires/responses.ts";
import type { Wire, WireWriter } from "./wires/wire.ts";

/** A request as it arrived. */
export interface ReceivedRequest {
  /** 1 for the first. */
  readonly n: number;
  readonly path: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly bytes: Uint8Array;
  /** The body as text, for `includes`. */
  readonly text: string;
  /** The parsed body; undefined if it is no JSON. */
  readonly body: unknown;
  /** Rules it broke: it was answered with 400. */
  readonly violations: readonly string[];
  /** Resolves when its connection is closed or its answer complete. */
  readonly closed: Promise<void>;
}

export type AnswerFunction = (request: ReceivedRequest) => Answer | Promise<Answer>;

export interface ProviderServerOptions {
  /** 0 or absent = any free port. */
  readonly port?: number;
  /** How every request is answered that no queued answer is for. Absent = it waits for one. */
  readonly answer?: AnswerFunction;
  /** The test breaks rules on purpose: closing does not throw for them. */
  readonly expectsViolations?: boolean;
}

/** A provider for tests: strict about requests, obedient about answers. Closing it throws if any request broke a rule. */
export interface ProviderServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`. */
  readonly baseUrl: string;
  /** Everything received, in order. */
  readonly requests: readonly ReceivedRequest[];
  /** Every rule broken so far, as `R<n> <rule>`. */
  readonly violations: readonly string[];
  /** Answers the next requests that have no answer yet, in order. */
  enqueue(...answers: readonly (Answer | AnswerFunction)[]): void;
  /** The next request that this was not called for yet; throws when none comes in time. */
  nextRequest(options?: { readonly deadlineMs?: number }): Promise<ReceivedRequest>;
  /** Ends all connections. Idempotent, never throws. */
  close(): Promise<void>;
}

/** Starts the server on 127.0.0.1. */
export async function startProviderServer(options: ProviderServerOptions = {}): Promise<ProviderServer> {
  const wires: readonly Wire[] = [
    createAnthropicWire(),
    createResponsesWire(),
    createChatWire("/v1"),
    createChatWire("/strict/v1"),
    createGeminiWire(),
  ];
  const requests: ReceivedRequest[] = [];
  const violations: string[] = [];
  const queue: (Answer | AnswerFunction)[] = [];
  const waitingForAnswer: ((answer: Answer | AnswerFunction) => void)[] = [];
  const waitingForRequest = new Set<() => void>();
  let handedOut = 0;

  const takeAnswer = (): Promise<Answer | AnswerFunction> => {
    const next = queue.shift() ?? options.answer;
    return next === undefined ? new Promise((resolve) => waitingForAnswer.push(resolve)) : Promise.resolve(next);
  };

  const serve = async (incoming: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    const closed = new Promise<void>((resolve) => response.once("close", resolve));
    const bytes = await readAll(incoming);
    const path = new URL(incoming.url ?? "/", "http://server").pathname;
    const wire = incoming.method === "POST" ? wires.find((candidate) => candidate.matches(path)) : undefined;
    const read = readStrictJson(bytes);
    const body = read.problem === undefined ? read.value : undefined;
    const broken =
      read.problem !== undefined ? [read.problem] : (wire?.check(body, incoming.headers) ?? [`path: ${path} is nothing`]);
    const text = new TextDecoder().decode(bytes);
    const request = { n: requests.length + 1, path, headers: incoming.headers, bytes, text, body, violations: broken, closed };
    requests.push(request);
    violations.push(...broken.map((rule) => `R${request.n} ${rule}`));
    for (const wake of waitingForRequest) wake();
    if (wire === undefined) return sendHttp(response, httpJson(404, { error: { message: `no such path: ${path}` } }));
    if (broken.length > 0) {
      const answer = wire.errorBody("invalid_request_error", broken.join("; "));
      return sendHttp(response, { kind: "http", status: 400, headers: { "content-type": "application/json" }, body: answer });
    }
    const next = await takeAnswer();
    const answer = typeof next === "function" ? await next(request) : next;
    if (answer.kind === "http") return sendHttp(response, answer);
    return new StreamPlayer(response, wire.openWriter(), answer, closed).play();
  };

  const server = http.createServer((incoming, response) => {
    // A client that goes away while it is answered is a normal day; a mistake in a test's answer function must not hide.
    serve(incoming, response).catch((thrown: unknown) => {
      if (!response.destroyed) violations.push(`the server itself failed: ${String(thrown)}`);
      response.destroy();
    });
  });
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const { port } = addressOf(server);

  const close = async (): Promise<void> => {
    server.closeAllConnections();
    if (server.listening) await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    requests,
    violations,
    enqueue(...answers) {
      for (const answer of answers) {
        const waiting = waitingForAnswer.shift();
        if (waiting === undefined) queue.push(answer);
        else waiting(answer);
      }
    },
    nextRequest({ deadlineMs = 5000 } = {}) {
      const n = handedOut++;
      return new Promise((resolve, reject) => {
        const look = () => {
          const request = requests[n];
          if (request === undefined) return;
          clearTimeout(timer);
          waitingForRequest.delete(look);
          resolve(request);
        };
        const timer = setTimeout(() => {
          waitingForRequest.delete(look);
          reject(new Error(`no request ${n + 1} within ${deadlineMs} ms; there were ${requests.length}`));
        }, deadlineMs);
        waitingForRequest.add(look);
        look();
      });
    },
    close,
    async [Symbol.asyncDispose]() {
      await close();
      if (violations.length > 0 && options.expectsViolations !== true) {
        throw new Error(`requests broke the provider's rules:\n${violations.join("\n")}`);
      }
    },
  };
}

/** Plays the steps of one streamed answer, until it ends or the client goes. */
class StreamPlayer {
  readonly #response: http.ServerResponse;
  readonly #writer: WireWriter;
  readonly #answer: StreamAnswer;
  readonly #closed: Promise<void>;

  constructor(response: http.ServerResponse, writer: WireWriter, answer: StreamAnswer, closed: Promise<void>) {
    this.#response = response;
    this.#writer = writer;
    this.#answer = answer;
    this.#closed = closed;
  }

  async play(): Promise<void> {
    const last = this.#answer.steps.at(-1)?.kind;
    const endsByItself = last !== undefined && ["stop", "end", "close", "stall", "ping_forever"].includes(last);
    const steps: readonly Step[] = endsByItself
      ? this.#answer.steps
      : // What an answer ends with is known only when all of it was written.
        [...this.#answer.steps, { kind: "stop", reason: "" }];
    for (const step of steps) {
      if (this.#response.destroyed) return;
      await this.#perform(step);
    }
    this.#response.end();
  }

  async #perform(step: Step): Promise<void> {
    switch (step.kind) {
      case "headers":
        this.#sendHead();
        this.#response.flushHeaders();
        return;
      case "wait":
        await Promise.race([step.until, this.#closed]);
        return;
      case "pause":
        await this.#pause(step.ms);
        return;
      case "ping_forever":
        while (!this.#response.destroyed) {
          await this.#send(this.#writer.write({ kind: "ping" }));
          await this.#pause(step.everyMs);
        }
        return;
      case "drip":
        for (const byte of Buffer.from(step.text)) {
          if (this.#response.destroyed) return;
          await this.#sendBytes(Uint8Array.of(byte));
          await this.#pause(step.everyMs);
        }
        return;
      case "stall":
        await this.#closed;
        return;
      case "end":
        this.#sendHead();
        this.#response.end();
        return;
      case "close":
        this.#response.destroy();
        return;
      case "raw":
        await this.#send([step.text]);
        return;
      case "stop":
        await this.#send(this.#writer.write(step.reason === "" ? { ...step, reason: this.#writer.defaultStop } : step));
        return;
      default:
        await this.#send(this.#writer.write(step));
    }
  }

  async #send(texts: readonly string[]): Promise<void> {
    const { pieceBytes } = this.#answer;
    for (const text of texts) {
      const bytes = Buffer.from(text);
      const step = pieceBytes ?? bytes.length;
      for (let at = 0; at < bytes.length; at += step) await this.#sendBytes(bytes.subarray(at, at + step));
    }
  }

  async #sendBytes(bytes: Uint8Array): Promise<void> {
    this.#sendHead();
    if (this.#response.destroyed) return;
    const written = new Promise<void>((resolve) => this.#response.write(bytes, () => resolve()));
    await Promise.race([written, this.#closed]);
  }

  #sendHead(): void {
    if (this.#response.headersSent) return;
    this.#response.socket?.setNoDelay(true);
    this.#response.writeHead(200, { "content-type": this.#writer.contentType, ...this.#answer.headers });
  }

  async #pause(ms: number): Promise<void> {
    const done = Promise.withResolvers<void>();
    const timer = setTimeout(done.resolve, ms);
    await Promise.race([done.promise, this.#closed]);
    clearTimeout(timer);
  }
}

function sendHttp(response: http.ServerResponse, answer: HttpAnswer): void {
  response.writeHead(answer.status, { ...answer.headers });
  response.end(answer.body);
}

async function readAll(incoming: http.IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of incoming) pieces.push(piece);
  return Buffer.concat(pieces);
}

function addressOf(server: http.Server): AddressInfo {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return address;
}
