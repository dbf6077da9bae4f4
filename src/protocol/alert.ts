import * as z from "zod";

/** A message for people only (S8): never in the log's history, never before the model. */
export const Alert = z.object({
  id: z.string(),
  level: z.enum(["info", "warning", "error"]),
  /** Stable name of what it is about, such as `storage_failed` or `tail_repaired`. */
  code: z.string(),
  message: z.string(),
  ts: z.number(),
  /** False once what it said no longer holds: clients take it off. */
  active: z.boolean(),
});
export type Alert = z.infer<typeof Alert>;
