import * as z from "zod";

const Event = z.looseObject({
  type: z.string(),
  index: z.number().optional(),
  content_block: z.looseObject({ type: z.string() }).optional(),
  delta: z.looseObject({}).optional(),
});
interface OpenBlock {
  readonly type: string;
  readonly id: string;
  readonly data: string;
  text: string;
  signature: string;
}

/** What the server has said so far, as far as it must come back unchanged. Fed with every event that is written, recorded ones too. */
export class AnthropicMemory {
  /** Text of each thinking block by its signature. */
  readonly thinking = new Map<string, string>();
  /** Every piece of redacted thinking. */
  readonly redacted = new Set<string>();
  /** For each tool call: signatures and redacted data that stood before it in its answer. */
  readonly beforeCall = new Map<string, readonly string[]>();
  readonly #open = new Map<number, OpenBlock>();
  #proofs: string[] = [];

  /** Takes note of an event the server writes. */
  note(json: string): void {
    const event = Event.safeParse(JSON.parse(json)).data;
    const index = event?.index ?? 0;
    const block = this.#open.get(index);
    switch (event?.type) {
      case "message_start":
        this.#open.clear();
        this.#proofs = [];
        return;
      case "content_block_start": {
        const start = event.content_block;
        const id = start?.["id"];
        const data = start?.["data"];
        this.#open.set(index, {
          type: start?.type ?? "",
          id: String(id ?? ""),
          data: String(data ?? ""),
          text: "",
          signature: "",
        });
        return;
      }
      case "content_block_delta": {
        const { thinking, signature } = event.delta ?? {};
        if (block === undefined) return;
        if (typeof thinking === "string") block.text += thinking;
        if (typeof signature === "string") block.signature = signature;
        return;
      }
      case "content_block_stop":
        if (block !== undefined) this.#complete(block);
        this.#open.delete(index);
        return;
    }
  }

  #complete(block: OpenBlock): void {
    if (block.type === "thinking" && block.signature !== "") {
      this.thinking.set(block.signature, block.text);
      this.#proofs.push(block.signature);
    } else if (block.type === "redacted_thinking") {
      this.redacted.add(block.data);
      this.#proofs.push(block.data);
    } else if (block.type === "tool_use") this.beforeCall.set(block.id, [...this.#proofs]);
  }
}
