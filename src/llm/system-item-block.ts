import type { SystemItem } from "../protocol/system-item.ts";

// Optional blanks and an optional slash between `<` and the name: what a model could still take for the tag (N14).
const FORGED_TAG = /<(?=\s*\/?\s*system_item)/giu;

/**
 * A system item as a tagged block for a user message (N14). The body stands in it unchanged, except that a `<` which would open or close a
 * tag of this name becomes `&lt;`: no body can end its own block or pretend to be another one.
 */
export function renderSystemItemBlock(item: Pick<SystemItem, "kind" | "trust" | "body">): string {
  return `<system_item kind="${item.kind}" trust="${item.trust}">\n${item.body.replace(FORGED_TAG, "&lt;")}\n</system_item>`;
}
