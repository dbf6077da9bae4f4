import * as z from "zod";

const Item = z.looseObject({
  type: z.string(),
  id: z.string().optional(),
  call_id: z.string().optional(),
  encrypted_content: z.string().nullish(),
  content: z.array(z.looseObject({ text: z.string().optional() })).optional(),
});
const Event = z.looseObject({ type: z.string(), item: Item.optional() });

/** What followed a piece of reasoning in the answer it was part of. */
export type Follower = { readonly kind: "call"; readonly callId: string } | { readonly kind: "text"; readonly text: string };

/** What the server has said so far, as far as it must come back unchanged. Fed with every event that is written, recorded ones too. */
export class ResponsesMemory {
  /** For each encrypted reasoning: what was produced with it; undefined if nothing was. */
  readonly reasoning = new Map<string, Follower | undefined>();
  #waiting: string[] = [];

  /** Takes note of an event the server writes. */
  note(json: string): void {
    const event = Event.safeParse(JSON.parse(json)).data;
    if (event?.type === "response.created") this.#waiting = [];
    const { item } = event ?? {};
    if (event?.type !== "response.output_item.done" || item === undefined) return;
    if (item.type === "reasoning") {
      if (typeof item.encrypted_content !== "string" || item.encrypted_content === "") return;
      this.reasoning.set(item.encrypted_content, undefined);
      this.#waiting.push(item.encrypted_content);
      return;
    }
    const follower: Follower | undefined =
      item.type === "function_call"
        ? { kind: "call", callId: item.call_id ?? "" }
        : item.type === "message"
          ? { kind: "text", text: (item.content ?? []).map((part) => part.text ?? "").join("") }
          : undefined;
    if (follower === undefined) return;
    for (const encrypted of this.#waiting) this.reasoning.set(encrypted, follower);
    this.#waiting = [];
  }
}
