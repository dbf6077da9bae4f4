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
 * Gives every tool call of a conversation an id that providers accept (`^[a-zA-Z0-9_-]+$`, at most 64 characters, unique in the request),
 * in order of appearance (B52): an id that is fine stays, any other is rewritten. What was given out never changes when more calls follow.
 */
export class CallIdMap {
  readonly #used = new Set<string>();

  /** The id on the wire for the next call that calls itself `callId`. */
  allocate(callId: string): string {
    // 56 leaves room for a counter within 64 characters.
    const clean = /^[a-zA-Z0-9_-]{1,64}$/.test(callId) ? callId : cleanName(callId, 56) || "call";
    let wireId = clean;
    for (let n = 2; this.#used.has(wireId); n++) wireId = `${clean.slice(0, 56)}_${n}`;
    this.#used.add(wireId);
    return wireId;
  }
}

function cleanName(text: string, maxChars: number): string {
  return text.slice(0, maxChars).replace(/[^a-zA-Z0-9_-]/g, "_");
}
