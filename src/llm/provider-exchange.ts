import { messageOf, systemCode } from "../base/errors.ts";
import { IdleWatchdog } from "./idle-watchdog.ts";
import type { ModelFailure, ModelRequest } from "./model.ts";
import { quote, readErrorBody, toFailure, toReportedFailure } from "./provider-failure.ts";
import { sendRequest } from "./send-request.ts";

/** Most of an answer that is not a stream, kept for a message, bytes. */
const MAX_ERROR_BODY_BYTES = 64 * 1024;
const HEAD_BYTES = 2048;
const TAIL_BYTES = 256;

/** Why an exchange ended before its answer did. */
export type ExchangeEnd =
  /** The gate threw: it goes on to the caller unchanged, it is no failure of the model. */
  { readonly kind: "gate"; readonly thrown: unknown } | { readonly kind: "failure"; readonly failure: ModelFailure };

/**
 * One request to a provider on its way: the gate in front of the network, the connection, and the watch over its silence. The adapter gets
 * {@link fetch}; what went wrong beneath it is asked here ({@link end}), not read out of what the adapter made of it.
 */
export class ProviderExchange implements Disposable {
  readonly #request: ModelRequest;
  readonly #baseUrl: string;
  readonly #abort = new AbortController();
  readonly #watchdog: IdleWatchdog;
  readonly #onCallerAbort = () => this.#abort.abort(this.#request.signal.reason);
  #gate: Promise<void> | undefined;
  #gateError: { readonly thrown: unknown } | undefined;
  #failure: ModelFailure | undefined;
  #answered = false;
  #receivedBytes = 0;
  #head: Uint8Array[] = [];
  #tail: Uint8Array = new Uint8Array();

  /** `baseUrl` names the provider in messages. */
  constructor(request: ModelRequest, baseUrl: string) {
    this.#request = request;
    this.#baseUrl = baseUrl;
    this.#watchdog = new IdleWatchdog(request.idleTimeoutMs, () => this.#onSilence());
    if (request.signal.aborted) this.#onCallerAbort();
    request.signal.addEventListener("abort", this.#onCallerAbort, { once: true });
  }

  /** Aborts when the caller does, when the provider is silent for too long, and when the exchange is over. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The `fetch` of the adapter: passes the gate (I1), sends, and takes only what can be a streamed answer for one. */
  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const url = typeof input === "string" ? input : input instanceof URL ? input.href : input.url;
    const body = bodyBytes(init?.body);
    await this.#passGate(body);
    this.#abort.signal.throwIfAborted();
    this.#watchdog.alive();
    const headers = Object.fromEntries(new Headers(init?.headers));
    try {
      const response = await sendRequest({
        url,
        headers,
        body,
        signal: this.#abort.signal,
        onBody: (chunk) => this.#onBody(chunk),
        onBroken: (thrown) => {
          this.#failure ??= this.#toBrokenFailure(thrown);
        },
      });
      this.#answered = true;
      if (response.ok && isStream(response)) return response;
      this.#failure = await this.#readRefusal(response);
    } catch (thrown) {
      this.#failure ??= this.#toConnectionFailure(thrown);
      throw thrown;
    }
    throw new Error(this.#failure.message);
  };

  /** The provider said something that counts. */
  alive(): void {
    this.#watchdog.alive();
  }

  /** Nobody listens to the provider for the time being. */
  pause(): void {
    this.#watchdog.pause();
  }

  /** Somebody listens again. */
  resume(): void {
    this.#watchdog.resume();
  }

  /** `work`, but rejecting as soon as {@link signal} aborts, even if the adapter does not notice. */
  untilAborted<T>(work: PromiseLike<T>): Promise<T> {
    const { signal } = this;
    return new Promise<T>((resolve, reject) => {
      const onAbort = () => reject(signal.reason);
      if (signal.aborted) onAbort();
      else signal.addEventListener("abort", onAbort, { once: true });
      const settle = () => signal.removeEventListener("abort", onAbort);
      work.then(
        (value) => {
          settle();
          resolve(value);
        },
        (thrown: unknown) => {
          settle();
          reject(thrown);
        },
      );
    });
  }

  /**
   * Why the exchange ended early, after the adapter threw `thrown`; undefined if the adapter itself is to blame. Waits for a gate that is still
   * passed: whoever writes the log must not lose its error, and the log must not gain a request after the stream ended.
   */
  async end(thrown: unknown): Promise<ExchangeEnd | undefined> {
    await this.#gate?.then(undefined, () => undefined); // its error is in #gateError
    if (this.#gateError !== undefined) return { kind: "gate", thrown: this.#gateError.thrown };
    if (this.#request.signal.aborted) return { kind: "failure", failure: toFailure("cancelled", "the request was cancelled") };
    if (this.#failure !== undefined) return { kind: "failure", failure: this.#failure };
    if (this.#gate === undefined) {
      const failure = toFailure("unsupported", `the request could not be built: ${quote(messageOf(thrown))}`);
      return { kind: "failure", failure };
    }
    return undefined;
  }

  /** The last bytes of the answer so far, as text. */
  get tail(): string {
    return new TextDecoder().decode(this.#tail);
  }

  /** What to say of an answer that ended tidily without its last event (B64, B67). */
  cutFailure(what: string): ModelFailure {
    if (this.#receivedBytes === 0) return toFailure("empty_answer", `${this.#baseUrl} sent an empty answer`);
    return toFailure("stream_cut", `${this.#baseUrl} ${what}; the answer began: ${quote(this.#headText())}`);
  }

  [Symbol.dispose](): void {
    this.#watchdog.stop();
    this.#request.signal.removeEventListener("abort", this.#onCallerAbort);
    this.#abort.abort(new Error("the exchange is over"));
  }

  async #passGate(body: Uint8Array): Promise<void> {
    if (this.#gate !== undefined) throw new Error("the adapter sent a second request for one answer");
    this.#abort.signal.throwIfAborted();
    // An async function: a gate that throws at once is caught like one that rejects.
    this.#gate = (async () => this.#request.beforeSend(body))();
    try {
      await this.#gate;
    } catch (thrown) {
      this.#gateError = { thrown };
      throw thrown;
    }
  }

  #onBody(chunk: Uint8Array): void {
    if (this.#receivedBytes < HEAD_BYTES) this.#head.push(chunk.subarray(0, HEAD_BYTES - this.#receivedBytes));
    this.#receivedBytes += chunk.length;
    this.#tail = chunk.length >= TAIL_BYTES ? chunk.slice(-TAIL_BYTES) : Buffer.concat([this.#tail, chunk]).subarray(-TAIL_BYTES);
  }

  #headText(): string {
    return new TextDecoder().decode(Buffer.concat(this.#head));
  }

  #onSilence(): void {
    const seconds = Math.round(this.#request.idleTimeoutMs / 100) / 10;
    const where = this.#answered ? "in the middle of its answer" : "before its answer began";
    this.#failure ??= toFailure("timeout", `${this.#baseUrl} was silent for ${seconds} s ${where}`);
    this.#abort.abort(new Error("the provider is silent"));
  }

  // An error by status, or a 200 that is no stream: a login page, an error as JSON, nothing at all (B67).
  async #readRefusal(response: Response): Promise<ModelFailure> {
    const headers = Object.fromEntries(response.headers);
    const { status } = response;
    const body = await readText(response);
    if (status >= 300 && status < 400) {
      const target = headers["location"] ?? "elsewhere";
      return toFailure("invalid_request", `${this.#baseUrl} redirects to ${quote(target)}: set the base URL to that place`);
    }
    const { type, text, retryAfterMs } = readErrorBody(body);
    const reported = {
      ...(type === undefined ? {} : { type }),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      text: text.trim() === "" ? response.statusText : text,
      headers,
    };
    if (!response.ok) {
      return toReportedFailure({ ...reported, status, subject: `${this.#baseUrl} answered ${status}` }, Date.now());
    }
    if (body.trim() === "") return toFailure("empty_answer", `${this.#baseUrl} sent an empty answer`);
    const subject = `${this.#baseUrl} answered ${status} with ${headers["content-type"] ?? "no content type"} in place of a stream`;
    const failure = toReportedFailure({ ...reported, subject }, Date.now());
    // A page for people stays one however often it is asked for.
    return type === undefined ? { ...failure, retryable: false, status } : { ...failure, status };
  }

  #toBrokenFailure(thrown: unknown): ModelFailure {
    return toFailure(
      "stream_cut",
      `the connection to ${this.#baseUrl} broke in the middle of the answer: ${quote(messageOf(thrown))}`,
    );
  }

  #toConnectionFailure(thrown: unknown): ModelFailure {
    if (this.#answered) return this.#toBrokenFailure(thrown);
    const code = systemCode(thrown);
    const text =
      thrown instanceof AggregateError && thrown.message === "" ? thrown.errors.map(messageOf).join("; ") : messageOf(thrown);
    const failure = toFailure("connection", `cannot reach ${this.#baseUrl}: ${quote(text === "" ? (code ?? "") : text)}`);
    // A certificate that is refused now is refused in a second, too.
    return code !== undefined && /CERT|SSL|TLS|UNABLE_TO_/.test(code) ? { ...failure, retryable: false } : failure;
  }
}

/** True for what can be a stream of events. A missing or vague content type gets the benefit of the doubt. */
function isStream(response: Response): boolean {
  const type = response.headers.get("content-type")?.toLowerCase() ?? "";
  return response.body !== null && !/^\s*(text\/html|application\/(xhtml|xml|problem\+json|json)|text\/xml)/.test(type);
}

async function readText(response: Response): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of response.body ?? []) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes >= MAX_ERROR_BODY_BYTES) break;
  }
  return new TextDecoder().decode(Buffer.concat(pieces));
}

/** The bytes of a request body as an adapter gives it to `fetch`. */
export function bodyBytes(body: unknown): Uint8Array {
  if (typeof body === "string") return new TextEncoder().encode(body);
  if (body instanceof Uint8Array) return body;
  throw new TypeError("the adapter gave fetch a body that is neither text nor bytes");
}
