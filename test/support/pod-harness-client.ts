import { createConnection, type Socket } from "node:net";
import { type Answer, connect, type PodConnection, type ReceivedEvent } from "../../src/client/connection.ts";
import type { Cursor } from "../../src/protocol/cursor.ts";
import type { Event } from "../../src/protocol/event.ts";
import type { MethodInput, MethodName, MethodResult, Snapshot } from "../../src/protocol/method.ts";
import { reduceRead, type View, viewOfSnapshot } from "../../src/protocol/view.ts";

/** Deadline of a wait that is expected to succeed, milliseconds: far above what it takes, so that a slow machine fails no test. */
export const DEADLINE_MS = 15_000;

/** An attached client that keeps everything it was sent and folds it as every client does. */
export class TestClient implements AsyncDisposable {
  readonly connection: PodConnection;
  readonly snapshot: Snapshot;
  /** Every event since the snapshot, in order. */
  readonly events: Event[] = [];
  /** The fold of snapshot and events. */
  view: View;
  /** Resolves when the connection ended, in whatever way. */
  readonly ended: Promise<void>;
  #isEnded = false;
  readonly #waiting = new Set<() => void>();

  private constructor(connection: PodConnection, snapshot: Snapshot) {
    this.connection = connection;
    this.snapshot = snapshot;
    this.view = viewOfSnapshot(snapshot);
    this.ended = this.#pump();
  }

  static async attach(address: string, since?: Cursor): Promise<TestClient> {
    const connection = await connect(address);
    const answer = await connection.request("attach", since === undefined ? {} : { since }, { deadlineMs: DEADLINE_MS });
    return new TestClient(connection, resultOf(answer));
  }

  async #pump(): Promise<void> {
    try {
      for await (const received of this.connection.events()) this.#take(received);
    } catch {
      // The Pod is gone: whoever waits is told below.
    } finally {
      this.#isEnded = true;
      for (const look of this.#waiting) look();
    }
  }

  #take(received: ReceivedEvent): void {
    if (received.kind === "malformed") throw new Error(`the Pod sent a malformed event: ${received.reason}`);
    this.view = reduceRead(this.view, received);
    if (received.kind === "known") this.events.push(received.event);
    for (const look of this.#waiting) look();
  }

  /** The first event that fits, past or to come. `from`: index in `events` to look from. */
  waitFor<E extends Event>(
    fits: ((event: Event) => event is E) | ((event: Event) => boolean),
    options: { readonly deadlineMs?: number; readonly from?: number; readonly what?: string } = {},
  ): Promise<E> {
    const { deadlineMs = DEADLINE_MS, what = fits.toString() } = options;
    let next = options.from ?? 0;
    return new Promise((resolve, reject) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(look);
      };
      const fail = (why: string) => {
        done();
        const seen = this.events.slice(-12).map((event) => JSON.stringify(event).slice(0, 200));
        reject(new Error(`${why} while waiting for ${what}; the last events:\n${seen.join("\n")}`));
      };
      const look = () => {
        for (; next < this.events.length; next++) {
          const event = this.events[next];
          if (event === undefined || !fits(event)) continue;
          done();
          // The guard, where there is one, has just said so.
          resolve(event as E);
          return;
        }
        if (this.#isEnded) fail("the connection ended");
      };
      const timer = setTimeout(() => fail(`nothing within ${deadlineMs} ms`), deadlineMs);
      this.#waiting.add(look);
      look();
    });
  }

  /** The next event of a type, past or to come. */
  event<T extends Event["type"]>(
    type: T,
    fits: (event: Extract<Event, { type: T }>) => boolean = () => true,
    options: { readonly from?: number; readonly deadlineMs?: number } = {},
  ): Promise<Extract<Event, { type: T }>> {
    const isIt = (event: Event): event is Extract<Event, { type: T }> =>
      event.type === type && fits(event as Extract<Event, { type: T }>);
    return this.waitFor(isIt, { ...options, what: `${type} ${fits}` });
  }

  /** Calls a method; a refusal is an error. */
  async request<M extends MethodName>(method: M, params: MethodInput<M>): Promise<MethodResult<M>> {
    return resultOf(await this.connection.request(method, params, { deadlineMs: DEADLINE_MS }));
  }

  /** Calls a method that must be refused, and gives the code. */
  async refusal<M extends MethodName>(method: M, params: MethodInput<M>): Promise<string> {
    return refusalOf(await this.connection.request(method, params, { deadlineMs: DEADLINE_MS }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.connection.close();
    await this.ended;
  }
}

/** The result of an answer that must not be a refusal. */
export function resultOf<M extends MethodName>(answer: Answer<M>): MethodResult<M> {
  if (answer.ok) return answer.result;
  throw new Error(`refused with ${answer.refusal.code}: ${answer.refusal.message}`);
}

/** The code of an answer that must be a refusal. */
export function refusalOf<M extends MethodName>(answer: Answer<M>): string {
  if (!answer.ok) return answer.refusal.code;
  throw new Error(`not refused: ${JSON.stringify(answer.result)}`);
}

/** A bare connection: bytes out, lines in. For what no well-behaved client does. */
export class RawClient implements AsyncDisposable {
  readonly socket: Socket;
  /** Complete lines received, parsed. */
  readonly lines: unknown[] = [];
  /** Resolves when the Pod ended the connection. */
  readonly closed: Promise<void>;
  #rest = "";
  #isClosed = false;
  readonly #waiting = new Set<() => void>();

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      const parts = (this.#rest + chunk).split("\n");
      this.#rest = parts.pop() ?? "";
      for (const part of parts) this.lines.push(JSON.parse(part));
      this.#tell();
    });
    socket.on("error", () => undefined);
    // The Pod has said all it will; a half-open connection ends when both sides have.
    socket.on("end", () => socket.end());
    this.closed = new Promise((resolve) =>
      socket.once("close", () => {
        this.#isClosed = true;
        this.#tell();
        resolve();
      }),
    );
  }

  static async open(address: string): Promise<RawClient> {
    const socket = createConnection({ path: address.replace(/^unix:/, ""), allowHalfOpen: true });
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new RawClient(socket);
  }

  #tell(): void {
    for (const look of this.#waiting) look();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Writes bytes or text as they are; resolves when the system took them, or the connection is gone. */
  write(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      if (this.socket.destroyed) return resolve();
      this.socket.write(data, () => resolve());
    });
  }

  /** Writes one request line. */
  send(method: string, params: unknown, id?: string | number): Promise<void> {
    return this.write(`${JSON.stringify({ jsonrpc: "2.0", ...(id === undefined ? {} : { id }), method, params })}\n`);
  }

  /** The answer to a request of that id. */
  async answer(id: string | number | null, deadlineMs = DEADLINE_MS): Promise<RawAnswer> {
    return this.line((line): line is RawAnswer => isAnswer(line) && line.id === id, deadlineMs);
  }

  /** The first line that fits. */
  line<T>(fits: (line: unknown) => line is T, deadlineMs = DEADLINE_MS): Promise<T> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.lines.find(fits);
        if (found === undefined && !this.#isClosed) return;
        clearTimeout(timer);
        this.#waiting.delete(look);
        if (found === undefined) reject(new Error(`the connection ended; it had brought ${JSON.stringify(this.lines)}`));
        else resolve(found);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`no such line within ${deadlineMs} ms, but ${JSON.stringify(this.lines).slice(0, 2000)}`));
      }, deadlineMs);
      this.#waiting.add(look);
      look();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed;
  }
}

/** An answer line as a stranger sees it. */
export interface RawAnswer {
  readonly id: string | number | null;
  readonly result?: unknown;
  readonly error?: {
    readonly code: number;
    readonly message: string;
    readonly data?: { readonly code?: string; readonly path?: string };
  };
}

function isAnswer(line: unknown): line is RawAnswer {
  return typeof line === "object" && line !== null && "id" in line;
}
