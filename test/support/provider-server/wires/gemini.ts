import { GeminiMemory } from "./gemini-memory.ts";
import { checkGemini } from "./gemini-rules.ts";
import type { ContentStep, Wire, WireStep, WireWriter } from "./wire.ts";

/** The Gemini API. Each server has a wire of its own: it remembers what was said on it. */
export function createGeminiWire(): Wire {
  const memory = new GeminiMemory();
  return {
    name: "gemini",
    matches: (path) => /^\/v1beta\/models\/[^/:]+:streamGenerateContent$/.test(path),
    check: (body, headers) => checkGemini(body, headers, memory),
    openWriter: () => new GeminiWriter(memory),
    errorBody: (_type, message) => JSON.stringify({ error: { code: 400, message, status: "INVALID_ARGUMENT" } }),
  };
}

let nextNumber = 1;

class GeminiWriter implements WireWriter {
  readonly contentType = "text/event-stream";
  readonly defaultStop = "STOP";
  readonly #memory: GeminiMemory;
  readonly #responseId = `resp-${nextNumber++}`;

  constructor(memory: GeminiMemory) {
    this.#memory = memory;
  }

  write(step: WireStep): string[] {
    switch (step.kind) {
      case "event":
        return [this.#json(step.json)];
      case "error":
        return [this.#chunk({ error: { code: null, message: step.message, status: step.type } })];
      case "ping":
        return [": ping\n\n"];
      default:
        return this.#content(step);
    }
  }

  #content(step: ContentStep): string[] {
    switch (step.kind) {
      case "text":
        return this.#texts(step.chunks, step.signature, {});
      case "open_text":
        return this.#texts(step.chunks, undefined, {});
      case "thinking":
        return this.#texts(step.chunks, step.signature, { thought: true });
      case "redacted_thinking":
        return this.#texts([""], step.data, {});
      case "tool_call":
      case "open_tool_call": {
        const id = step.id ?? `call-${nextNumber++}`;
        const signature = step.kind === "tool_call" && step.signature !== undefined ? { thoughtSignature: step.signature } : {};
        return [this.#parts([{ functionCall: { id, name: step.name, args: toArgs(step.chunks.join("")) }, ...signature }])];
      }
      case "stop":
        return this.#stop(step.reason);
    }
  }

  #texts(chunks: readonly string[], signature: string | undefined, more: object): string[] {
    return chunks.map((text, index) => {
      const isLast = index === chunks.length - 1;
      return this.#parts([{ text, ...more, ...(isLast && signature !== undefined ? { thoughtSignature: signature } : {}) }]);
    });
  }

  // `blocked`: the prompt itself was refused; `no content`: a candidate that has none.
  #stop(reason: string): string[] {
    const usageMetadata = {
      promptTokenCount: 13,
      cachedContentTokenCount: 3,
      candidatesTokenCount: 5,
      thoughtsTokenCount: 2,
      totalTokenCount: 20,
    };
    if (reason === "blocked") return [this.#chunk({ promptFeedback: { blockReason: "PROHIBITED_CONTENT" }, usageMetadata })];
    if (reason === "no content") return [this.#chunk({ candidates: [{ index: 0, finishReason: "STOP" }], usageMetadata })];
    const finishReason = { max_tokens: "MAX_TOKENS", refusal: "SAFETY", content_filter: "SAFETY" }[reason] ?? reason;
    const content = { parts: [{ text: "" }], role: "model" };
    return [this.#chunk({ candidates: [{ index: 0, content, finishReason }], usageMetadata })];
  }

  #parts(parts: readonly object[]): string {
    return this.#chunk({ candidates: [{ index: 0, content: { parts, role: "model" } }] });
  }

  #chunk(chunk: object): string {
    return this.#json(JSON.stringify({ ...chunk, modelVersion: "fake", responseId: this.#responseId }));
  }

  #json(json: string): string {
    this.#memory.note(json);
    return `data: ${json}\n\n`;
  }
}

// What is no JSON is sent as the text it is: a server that does that exists.
function toArgs(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
