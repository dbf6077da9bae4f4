import * as z from "zod";

/** Causality: which chain of events led here, and over how many steps between Pods (N11). A human starts a new chain at 0 hops. */
export const Chain = z.object({
  id: z.string().min(1).max(128),
  hops: z.int().min(0).max(1_000_000),
});
export type Chain = z.infer<typeof Chain>;

/** Who caused an input or an item: an attached client (human or program), another Pod, or the Pod process itself. */
export const Origin = z.object({
  by: z.enum(["client", "pod", "process"]),
  name: z.string().max(255).optional(),
});
export type Origin = z.infer<typeof Origin>;
