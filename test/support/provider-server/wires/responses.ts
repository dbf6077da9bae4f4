import { ResponsesMemory } from "./responses-memory.ts";
import { checkResponses } from "./responses-rules.ts";
import type { ContentStep, Wire, WireStep, WireWriter } from "./wire.ts";

/** OpenAI's Responses API. Each server has a wire of its own: it remembers what was said on it. */
export function createResponsesWire(): Wire {
  const memory = new ResponsesMemory();
  return {
    name: "responses",
    matches: (path) => path === "/v1/responses",
    check: (body, headers) => checkResponses(body, headers, memory),
    openWriter: () => new ResponsesWriter(memory),
    errorBody: (type, message) => JSON.stringify({ error: { type, message, param: null, code: null } }),
  };
}

let nextNumber = 1;

class ResponsesWriter implements WireWriter {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly defaultStop = "completed";
  readonly #memory: ResponsesMemory;
  readonly #response = { id: `resp_${nextNumber++}`, object: "response", created_at: 1_700_000_000, model: "fake", output: [] };
  #sequence = 0;
  #index = -1;
  #isStarted = false;

  constructor(memory: ResponsesMemory) {
    this.#memory = memory;
  }

  write(step: WireStep): string[] {
    switch (step.kind) {
      case "event":
        this.#isStarted = true;
        return [this.#json(step.json)];
      case "error":
        this.#isStarted = true;
        return [this.#event({ type: "error", code: step.type, message: step.message, param: null })];
      case "ping":
        return [this.#event({ type: "keepalive" })];
      default:
        return [...this.#start(), ...this.#content(step)];
    }
  }

  #start(): string[] {
    if (this.#isStarted) return [];
    this.#isStarted = true;
    const response = { ...this.#response, status: "in_progress" };
    return [this.#event({ type: "response.created", response }), this.#event({ type: "response.in_progress", response })];
  }

  #content(step: ContentStep): string[] {
    switch (step.kind) {
      case "text":
      case "open_text":
        return this.#message(step.chunks, step.kind === "open_text");
      case "thinking":
        return this.#reasoning(step.chunks, step.signature);
      case "redacted_thinking":
        return this.#reasoning([], step.data);
      case "tool_call":
      case "open_tool_call":
        return this.#call(step.id ?? `call_${nextNumber++}`, step.name, step.chunks, step.kind === "open_tool_call");
      case "stop":
        return this.#stop(step.reason);
    }
  }

  #message(chunks: readonly string[], staysOpen: boolean): string[] {
    const id = `msg_${nextNumber++}`;
    const item = { id, type: "message", role: "assistant", status: "in_progress", content: [] };
    const at = { item_id: id, output_index: ++this.#index, content_index: 0 };
    const events = [
      this.#event({ type: "response.output_item.added", output_index: this.#index, item }),
      ...chunks.map((delta) => this.#event({ type: "response.output_text.delta", ...at, delta, logprobs: [] })),
    ];
    if (staysOpen) return events;
    const content = [{ type: "output_text", text: chunks.join(""), annotations: [], logprobs: [] }];
    const done = { ...item, status: "completed", content };
    return [...events, this.#event({ type: "response.output_item.done", output_index: this.#index, item: done })];
  }

  // Without encrypted content the item is never ended.
  #reasoning(chunks: readonly string[], encrypted: string | undefined): string[] {
    const id = `rs_${nextNumber++}`;
    const item = { id, type: "reasoning", summary: [], encrypted_content: "" };
    const at = { item_id: id, output_index: ++this.#index, summary_index: 0 };
    const summary = chunks.map((delta) => this.#event({ type: "response.reasoning_summary_text.delta", ...at, delta }));
    const events = [
      this.#event({ type: "response.output_item.added", output_index: this.#index, item }),
      ...(summary.length === 0
        ? []
        : [
            this.#event({ type: "response.reasoning_summary_part.added", ...at, part: { type: "summary_text", text: "" } }),
            ...summary,
            this.#event({
              type: "response.reasoning_summary_part.done",
              ...at,
              part: { type: "summary_text", text: chunks.join("") },
            }),
          ]),
    ];
    if (encrypted === undefined) return events;
    const done = {
      ...item,
      summary: chunks.length === 0 ? [] : [{ type: "summary_text", text: chunks.join("") }],
      encrypted_content: encrypted,
    };
    return [...events, this.#event({ type: "response.output_item.done", output_index: this.#index, item: done })];
  }

  #call(callId: string, name: string, chunks: readonly string[], staysOpen: boolean): string[] {
    const id = `fc_${nextNumber++}`;
    const item = { id, type: "function_call", call_id: callId, name, arguments: "", status: "in_progress" };
    const at = { item_id: id, output_index: ++this.#index };
    const events = [
      this.#event({ type: "response.output_item.added", output_index: this.#index, item }),
      ...chunks.map((delta) => this.#event({ type: "response.function_call_arguments.delta", ...at, delta })),
    ];
    if (staysOpen) return events;
    const done = { ...item, arguments: chunks.join(""), status: "completed" };
    return [...events, this.#event({ type: "response.output_item.done", output_index: this.#index, item: done })];
  }

  #stop(reason: string): string[] {
    const usage = {
      input_tokens: 15,
      input_tokens_details: { cached_tokens: 3, cache_write_tokens: 2 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 22,
    };
    if (reason === "completed") {
      return [this.#event({ type: "response.completed", response: { ...this.#response, status: "completed", usage } })];
    }
    if (reason === "refusal") {
      const id = `msg_${nextNumber++}`;
      const at = { item_id: id, output_index: ++this.#index };
      const item = { id, type: "message", role: "assistant", status: "in_progress", content: [] };
      const content = [{ type: "refusal", refusal: "I cannot help with that." }];
      return [
        this.#event({ type: "response.output_item.added", output_index: this.#index, item }),
        this.#event({ type: "response.refusal.delta", ...at, content_index: 0, delta: "I cannot help with that." }),
        this.#event({ type: "response.output_item.done", output_index: this.#index, item: { ...item, content } }),
        ...this.#stop("completed"),
      ];
    }
    const details = { reason: reason === "max_tokens" ? "max_output_tokens" : reason };
    const response = { ...this.#response, status: "incomplete", incomplete_details: details, usage };
    return [this.#event({ type: "response.incomplete", response })];
  }

  #event(event: object): string {
    return this.#json(JSON.stringify({ ...event, sequence_number: this.#sequence++ }));
  }

  #json(json: string): string {
    this.#memory.note(json);
    const type: unknown = JSON.parse(json)?.type;
    return `event: ${String(type)}\ndata: ${json}\n\n`;
  }
}
