import * as http from "node:http";
import * as https from "node:https";

/** An HTTP request whose body is complete. */
export interface OutgoingRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Ends the request and its answer at once and closes the socket. */
  readonly signal: AbortSignal;
  /** Sees every piece of the answer's body, in order. */
  readonly onBody?: (chunk: Uint8Array) => void;
  /** Learns that the answer broke off after its head had arrived. Not called for an abort. */
  readonly onBroken?: (thrown: unknown) => void;
}

const STATUS_WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

/**
 * POSTs a request; resolves with the answer's head, its body streaming. Not the global `fetch`: that one gives up after 300 s without a byte,
 * follows redirects with the key in its headers, and cannot be told otherwise without a second HTTP library. No time limit of its own: the
 * caller watches. Rejects with Node's own error (`ECONNREFUSED`, ...) or the reason of `signal`; after that the body stream fails likewise.
 */
export function sendRequest(request: OutgoingRequest): Promise<Response> {
  const { signal } = request;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const url = new URL(request.url);
    const outgoing = (url.protocol === "https:" ? https : http).request(url, { method: "POST", headers: request.headers });
    const onAbort = () => {
      reject(signal.reason);
      outgoing.destroy(signal.reason instanceof Error ? signal.reason : new Error("cancelled"));
    };
    signal.addEventListener("abort", onAbort, { once: true });
    outgoing.on("close", () => signal.removeEventListener("abort", onAbort));
    outgoing.on("error", reject);
    outgoing.on("response", (incoming) => {
      try {
        resolve(toResponse(incoming, request));
      } catch (thrown) {
        incoming.destroy();
        reject(thrown);
      }
    });
    outgoing.end(request.body);
  });
}

function toResponse(incoming: http.IncomingMessage, request: OutgoingRequest): Response {
  const status = incoming.statusCode ?? 0;
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  // Response refuses what no status line should hold; the text is for people only.
  const statusText = (incoming.statusMessage ?? "").replace(/[^ -~]/g, "?");
  if (STATUS_WITHOUT_BODY.has(status)) {
    incoming.on("error", () => undefined); // there is no body that could be cut
    incoming.resume();
    return new Response(null, { status, statusText, headers });
  }
  return new Response(toBody(incoming, request), { status, statusText, headers });
}

function toBody(incoming: http.IncomingMessage, request: OutgoingRequest): ReadableStream<Uint8Array> {
  // Also set by cancel(): Node may still tell of an end that nobody waits for, and a cancelled controller takes no more.
  let isOver = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const fail = (thrown: unknown) => {
        if (isOver) return;
        isOver = true;
        if (!request.signal.aborted) request.onBroken?.(thrown);
        controller.error(request.signal.aborted ? request.signal.reason : thrown);
      };
      incoming.on("data", (chunk: Buffer) => {
        if (isOver) return;
        request.onBody?.(chunk);
        controller.enqueue(chunk);
        if ((controller.desiredSize ?? 0) <= 0) incoming.pause();
      });
      incoming.on("end", () => {
        if (isOver) return;
        isOver = true;
        controller.close();
      });
      incoming.on("error", fail);
      // Node has no error of its own where a proxy or server ends the connection before the announced length.
      incoming.on("close", () => fail(new Error("the connection was closed in the middle of the answer")));
    },
    pull() {
      incoming.resume();
    },
    cancel() {
      isOver = true;
      incoming.destroy();
    },
  });
}
