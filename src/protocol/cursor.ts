import * as z from "zod";

/** A place in a session: the log entry's `seq` and, for an entry that holds several items, the item's `index`. */
export const Cursor = z.object({
  seq: z.int().min(0),
  index: z.int().min(0),
});
export type Cursor = z.infer<typeof Cursor>;

/** Order of two places: negative when `a` comes first. */
export function compareCursors(a: Cursor, b: Cursor): number {
  return a.seq - b.seq || a.index - b.index;
}
