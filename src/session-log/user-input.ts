import * as z from "zod";
import { Chain, Origin } from "../protocol/chain.ts";
import { Segment } from "../protocol/segment.ts";

/** A human's input, pending until an `llm_request` takes it. `waits_for: "turn"`: eligible from the next `turn_started` on. */
export const UserInput = z.object({
  type: z.literal("user_input"),
  id: z.string().min(1),
  segments: z.array(Segment).min(1),
  waits_for: z.enum(["request", "turn"]),
  submission: z.string().optional(),
  origin: Origin,
  chain: Chain,
});
export type UserInput = z.infer<typeof UserInput>;
