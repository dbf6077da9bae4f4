import * as z from "zod";

/** One typed piece of a human's input (L6). `text` was typed; `paste` was pasted and may be shown folded. */
export const Segment = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("text"), text: z.string() }),
  z.object({ kind: z.literal("paste"), text: z.string() }),
]);
export type Segment = z.infer<typeof Segment>;
