import { checkChat } from "./chat-rules.ts";
import type { ContentStep, Wire, WireStep, WireWriter } from "./wire.ts";

/**
 * OpenAI's Chat Completions, as many servers speak them: below `/v1` like most of them, below `/strict/v1` like the strictest. Each server
 * has wires of its own: they remember what was said on them.
 */
export function createChatWire(base: "/v1" | "/strict/v1"): Wire {
  const memory = { reasoning: new Set<string>() };
  return {
    name: "chat",
    matches: (path) => path === `${base}/chat/completions`,
    check: (body, headers) => checkChat(body, headers, memory, { alternates: base === "/strict/v1" }),
    openWriter: () => new ChatWriter(memory.reasoning),
    errorBody: (type, message) => JSON.stringify({ error: { type, message, param: null, code: null } }),
  };
}

let nextNumber = 1;

class ChatWriter implements WireWriter {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly #reasoning: Set<string>;
  readonly #id = `chatcmpl-${nextNumber++}`;
  #thought = "";
  #calls = 0;

  constructor(reasoning: Set<string>) {
    this.#reasoning = reasoning;
  }

  get defaultStop(): string {
    return this.#calls > 0 ? "tool_calls" : "stop";
  }

  write(step: WireStep): string[] {
    switch (step.kind) {
      case "event":
        return [`data: ${step.json}\n\n`];
      case "error":
        return [`data: ${JSON.stringify({ error: { type: step.type, message: step.message, code: null } })}\n\n`];
      case "ping":
        return [": ping\n\n"];
      default:
        return this.#content(step);
    }
  }

  #content(step: ContentStep): string[] {
    switch (step.kind) {
      case "text":
      case "open_text":
        return step.chunks.map((content) => this.#delta({ content }));
      case "thinking":
        this.#thought += step.chunks.join("");
        this.#reasoning.add(this.#thought);
        return step.chunks.map((reasoning_content) => this.#delta({ reasoning_content }));
      case "redacted_thinking":
        return [];
      case "tool_call":
      case "open_tool_call":
        return this.#call(step.id ?? `call_${nextNumber++}`, step.name, step.chunks);
      case "stop":
        return this.#stop(step.reason);
    }
  }

  #call(id: string, name: string, chunks: readonly string[]): string[] {
    const index = this.#calls++;
    return [
      this.#delta({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
      ...chunks.map((text) => this.#delta({ tool_calls: [{ index, function: { arguments: text } }] })),
    ];
  }

  // `missing`: the mark at the end and no reason; `""`: an empty one.
  #stop(reason: string): string[] {
    const usage = {
      prompt_tokens: 13,
      prompt_tokens_details: { cached_tokens: 3 },
      completion_tokens: 7,
      completion_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 20,
    };
    const refusal = reason === "refusal" ? [this.#delta({ refusal: "I cannot help with that." })] : [];
    const finish = { max_tokens: "length", refusal: "stop", "empty reason": "" }[reason] ?? reason;
    return [
      ...refusal,
      ...(reason === "missing" ? [] : [this.#chunk({ choices: [{ index: 0, delta: {}, finish_reason: finish }] })]),
      this.#chunk({ choices: [], usage }),
      "data: [DONE]\n\n",
    ];
  }

  #delta(delta: object): string {
    return this.#chunk({ choices: [{ index: 0, delta, finish_reason: null }] });
  }

  #chunk(chunk: object): string {
    const common = { id: this.#id, object: "chat.completion.chunk", created: 1_700_000_000, model: "fake" };
    return `data: ${JSON.stringify({ ...common, ...chunk })}\n\n`;
  }
}
