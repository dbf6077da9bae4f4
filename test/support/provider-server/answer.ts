/** One thing the server does while it answers. Wire-independent: the wire turns it into its own events. */
export type Step =
  /** `signature`: on its last chunk, which may be empty (Gemini). */
  | { readonly kind: "text"; readonly chunks: readonly string[]; readonly signature?: string }
  /** Without a signature the block is never ended: what a stream cut within it looks like. */
  | { readonly kind: "thinking"; readonly chunks: readonly string[]; readonly signature?: string }
  | { readonly kind: "redacted_thinking"; readonly data: string }
  | {
      readonly kind: "tool_call";
      readonly id?: string;
      readonly name: string;
      readonly chunks: readonly string[];
      readonly signature?: string;
    }
  /** The beginning of a text or call block and no end of it. */
  | { readonly kind: "open_text"; readonly chunks: readonly string[] }
  | { readonly kind: "open_tool_call"; readonly id?: string; readonly name: string; readonly chunks: readonly string[] }
  /**
   * The last events. Stands at the end of every answer that has no other end. `max_tokens`, `refusal` and `content_filter` are said in each
   * wire's own way, any other reason as it is.
   */
  | { readonly kind: "stop"; readonly reason: string; readonly details?: Readonly<Record<string, unknown>> }
  /** An error event within the stream. */
  | { readonly kind: "error"; readonly type: string; readonly message: string }
  /** An event as it is, one JSON text. */
  | { readonly kind: "event"; readonly json: string }
  | { readonly kind: "raw"; readonly text: string }
  | { readonly kind: "ping" }
  /** Sends the head of the answer now, without a first event. */
  | { readonly kind: "headers" }
  | { readonly kind: "wait"; readonly until: PromiseLike<unknown> }
  | { readonly kind: "pause"; readonly ms: number }
  /** Pings for ever. */
  | { readonly kind: "ping_forever"; readonly everyMs: number }
  /** The bytes of a text, one at a time, so many milliseconds apart. */
  | { readonly kind: "drip"; readonly text: string; readonly everyMs: number }
  /** Nothing any more, until the client goes. */
  | { readonly kind: "stall" }
  /** Ends the answer tidily, whatever is missing. */
  | { readonly kind: "end" }
  /** Destroys the connection. */
  | { readonly kind: "close" };

/** A streamed answer. `pieceBytes`: so many bytes a write (1 = a byte at a time); absent = an event a write. */
export interface StreamAnswer {
  readonly kind: "stream";
  readonly steps: readonly Step[];
  readonly pieceBytes?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An answer that is no stream: an HTTP error, a login page, nothing at all. */
export interface HttpAnswer {
  readonly kind: "http";
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

export type Answer = StreamAnswer | HttpAnswer;

/** A streamed answer of these steps. */
export function stream(...steps: readonly Step[]): StreamAnswer {
  return { kind: "stream", steps };
}

/** A streamed answer, written in pieces of `pieceBytes` bytes. */
export function streamInPieces(pieceBytes: number, ...steps: readonly Step[]): StreamAnswer {
  return { kind: "stream", steps, pieceBytes };
}

/** Text in one or more chunks. */
export function text(...chunks: readonly string[]): Step {
  return { kind: "text", chunks };
}

/** Text whose last chunk carries a signature (Gemini). */
export function signedText(signature: string, ...chunks: readonly string[]): Step {
  return { kind: "text", chunks, signature };
}

/** A signed thinking block. */
export function thinking(signature: string, ...chunks: readonly string[]): Step {
  return { kind: "thinking", chunks, signature };
}

/** A complete tool call; `input` is sent as JSON in one chunk. */
export function toolCall(name: string, input: unknown, id?: string): Step {
  return { kind: "tool_call", name, chunks: [JSON.stringify(input)], ...(id === undefined ? {} : { id }) };
}

/** A recorded stream: one JSON event a line. */
export function replay(recording: string): StreamAnswer {
  const lines = recording.split("\n").filter((line) => line.trim() !== "");
  return stream(...lines.map((json): Step => ({ kind: "event", json })), { kind: "end" });
}

/** An HTTP answer with a JSON body. */
export function httpJson(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  return { kind: "http", status, headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) };
}
