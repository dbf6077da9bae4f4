const NAME_CHARS = 64;

/**
 * A tool name as every provider accepts it (`^[a-zA-Z0-9_-]{1,64}$`), the same for the same name always. A model may call tools
 * that do not exist (B76); such a call must still be sendable as history.
 */
export function wireToolName(name: string): string {
  const clean = cleanName(name, NAME_CHARS);
  if (clean === "") return "unnamed";
  // Adapters look names up in plain objects, where these find something that is no tool.
  return clean in Object.prototype ? `tool-${clean}` : clean;
}

/**
 * Gives every tool call of a conversation an id that providers accept (`^[a-zA-Z0-9_-]+$`, unique in the request, as long as they take),
 * in order of appearance (B52): an id that is fine stays, any other is rewritten. What was given out never changes when more calls follow.
 */
export class CallIdMap {
  readonly #used = new Set<string>();
  readonly #maxChars: number;

  /** `maxChars`: longest id the provider takes, at least 16. */
  constructor(maxChars = 64) {
    this.#maxChars = maxChars;
  }

  /** The id on the wire for the next call that calls itself `callId`. */
  allocate(callId: string): string {
    const short = this.#maxChars - 8; // leaves room for a counter
    const isFine = callId.length <= this.#maxChars && /^[a-zA-Z0-9_-]+$/.test(callId);
    const clean = isFine ? callId : cleanName(callId, short) || "call";
    let wireId = clean;
    for (let n = 2; this.#used.has(wireId); n++) wireId = `${clean.slice(0, short)}_${n}`;
    this.#used.add(wireId);
    return wireId;
  }
}

function cleanName(text: string, maxChars: number): string {
  return text.slice(0, maxChars).replace(/[^a-zA-Z0-9_-]/g, "_");
}
