import { AnthropicMemory } from "./anthropic-memory.ts";
import { checkAnthropic } from "./anthropic-rules.ts";
import type { Wire, WireStep, WireWriter } from "./wire.ts";

/** Anthropic's Messages API. Each server has a wire of its own: it remembers what was said on it. */
export function createAnthropicWire(): Wire {
  const memory = new AnthropicMemory();
  return {
    name: "anthropic",
    matches: (path) => path === "/v1/messages",
    check: (body, headers) => checkAnthropic(body, headers, memory),
    openWriter: () => new AnthropicWriter(memory),
    errorBody: (type, message) => JSON.stringify({ type: "error", error: { type, message } }),
  };
}

let nextNumber = 1;

class AnthropicWriter implements WireWriter {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly #memory: AnthropicMemory;
  #isStarted = false;
  #index = -1;
  #hasCalls = false;

  constructor(memory: AnthropicMemory) {
    this.#memory = memory;
  }

  get defaultStop(): string {
    return this.#hasCalls ? "tool_use" : "end_turn";
  }

  write(step: WireStep): string[] {
    switch (step.kind) {
      case "event":
        this.#isStarted = true;
        return [this.#json(step.json)];
      case "error":
        this.#isStarted = true;
        return [this.#event({ type: "error", error: { type: step.type, message: step.message } })];
      case "ping":
        return [this.#event({ type: "ping" })];
      default:
        return [...this.#start(), ...this.#content(step)];
    }
  }

  #start(): string[] {
    if (this.#isStarted) return [];
    this.#isStarted = true;
    const message = {
      id: `msg_${nextNumber++}`,
      type: "message",
      role: "assistant",
      model: "fake",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 10, cache_read_input_tokens: 3, cache_creation_input_tokens: 2, output_tokens: 1 },
    };
    return [this.#event({ type: "message_start", message })];
  }

  #content(step: Exclude<WireStep, { kind: "event" | "error" | "ping" }>): string[] {
    switch (step.kind) {
      case "text":
      case "open_text":
        return this.#block(
          { type: "text", text: "" },
          step.chunks.map((text) => ({ type: "text_delta", text })),
          step.kind === "open_text",
        );
      case "thinking": {
        const deltas: object[] = step.chunks.map((thinking) => ({ type: "thinking_delta", thinking }));
        if (step.signature !== undefined) deltas.push({ type: "signature_delta", signature: step.signature });
        return this.#block({ type: "thinking", thinking: "", signature: "" }, deltas, step.signature === undefined);
      }
      case "redacted_thinking":
        return this.#block({ type: "redacted_thinking", data: step.data }, [], false);
      case "tool_call":
      case "open_tool_call": {
        this.#hasCalls = true;
        const start = { type: "tool_use", id: step.id ?? `toolu_${nextNumber++}`, name: step.name, input: {} };
        const deltas = step.chunks.map((partial_json) => ({ type: "input_json_delta", partial_json }));
        return this.#block(start, deltas, step.kind === "open_tool_call");
      }
      case "stop": {
        const delta = { stop_reason: step.reason, stop_sequence: null, ...step.details };
        return [
          this.#event({ type: "message_delta", delta, usage: { output_tokens: 7 } }),
          this.#event({ type: "message_stop" }),
        ];
      }
    }
  }

  #block(start: object, deltas: readonly object[], staysOpen: boolean): string[] {
    this.#index += 1;
    const index = this.#index;
    const events = [
      this.#event({ type: "content_block_start", index, content_block: start }),
      ...deltas.map((delta) => this.#event({ type: "content_block_delta", index, delta })),
    ];
    return staysOpen ? events : [...events, this.#event({ type: "content_block_stop", index })];
  }

  #event(event: object): string {
    return this.#json(JSON.stringify(event));
  }

  #json(json: string): string {
    this.#memory.note(json);
    const type: unknown = JSON.parse(json)?.type;
    return `event: ${String(type)}\ndata: ${json}\n\n`;
  }
}
