import * as z from "zod";

const Part = z.looseObject({
  text: z.string().optional(),
  thought: z.boolean().optional(),
  thoughtSignature: z.string().optional(),
  functionCall: z.looseObject({ id: z.string().optional(), name: z.string().optional() }).optional(),
});
const Chunk = z.looseObject({
  candidates: z.array(z.looseObject({ content: z.looseObject({ parts: z.array(Part).optional() }).optional() })).optional(),
});

/** What a signature was given with: the name of a call, or a text as it was, of the model's thoughts or not. */
export interface SignedPart {
  readonly kind: "call" | "text" | "thought";
  readonly text: string;
}

/** What the server has said so far, as far as it must come back unchanged. Fed with every chunk that is written, recorded ones too. */
export class GeminiMemory {
  readonly signed = new Map<string, SignedPart>();
  /** The signature that was given with a call, by the call's id. */
  readonly byCall = new Map<string, string>();

  /** Takes note of a chunk the server writes. */
  note(json: string): void {
    const chunk = Chunk.safeParse(JSON.parse(json)).data;
    for (const candidate of chunk?.candidates ?? []) {
      for (const { thoughtSignature, functionCall, text = "", thought } of candidate.content?.parts ?? []) {
        if (thoughtSignature === undefined || thoughtSignature === "") continue;
        if (functionCall === undefined) this.signed.set(thoughtSignature, { kind: thought === true ? "thought" : "text", text });
        else {
          this.signed.set(thoughtSignature, { kind: "call", text: functionCall.name ?? "" });
          if (functionCall.id !== undefined) this.byCall.set(functionCall.id, thoughtSignature);
        }
      }
    }
  }
}
