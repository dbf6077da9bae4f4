import { assertNever } from "../base/assert-never.ts";
import { newId } from "../base/ids.ts";
import { toSafeText } from "../base/text.ts";
import { renderTemplate } from "../config/prompts.ts";
import type { Chain, Origin } from "../protocol/chain.ts";
import type { SessionConfig } from "../protocol/session-config.ts";
import { type SystemItem, type SystemItemContent, TRUST_BY_KIND } from "../protocol/system-item.ts";
import type { NewEntry } from "../session-log/entry.ts";
import type { SessionState } from "../session-log/session-state.ts";

/** The one place where system items are made: typed payload in, item with the exact text for the model out (S4, S5). */

/** The text the model sees for an item, by kind. Rendered once, when the item is made: a later template changes no past request. */
function renderBody(content: SystemItemContent, prompts: SessionConfig["prompts"]): string {
  switch (content.kind) {
    case "notification":
      return renderTemplate(prompts.notification, content.payload); // N7
    case "reminder":
      return content.payload.text;
    case "legacy":
      return content.payload.text;
    default:
      return assertNever(content, "system item");
  }
}

/** What an item is made from. `wake` asks for a wake; whether it owes one also depends on its chain (N11), which the caller knows. */
export interface SystemItemParts {
  readonly content: SystemItemContent;
  readonly origin: Origin;
  readonly chain: Chain;
  readonly wake: boolean;
  /** Id of the input it belongs to. */
  readonly for?: string;
}

/** Makes a system item with a fresh id. */
export function makeSystemItem(parts: SystemItemParts, prompts: SessionConfig["prompts"]): SystemItem {
  const { content, origin, chain, wake } = parts;
  return {
    ...content,
    id: newId("item"),
    body: toSafeText(renderBody(content, prompts)),
    origin,
    trust: TRUST_BY_KIND[content.kind],
    wake,
    chain,
    ...(parts.for === undefined ? {} : { for: parts.for }),
  };
}

/**
 * The entry of a reminder, unless the same one still waits: a turn that fails again and again before its first request says so once, and
 * does not fill the bounds that notifications share with it (N9).
 */
export function reminderEntries(state: Readonly<SessionState>, topic: string, text: string): NewEntry[] {
  for (const pending of state.pending.values()) {
    if (pending.kind === "item" && pending.item.kind === "reminder" && pending.item.payload.text === text) return [];
  }
  return [{ type: "system_items", items: [makeReminder(topic, text, state.config.prompts)] }];
}

/**
 * A reminder of the Pod process to its model. It never wakes: it enters whatever request comes next. Its text is the operator's (N14):
 * nothing that came from outside, such as a server's words, may stand in it.
 */
export function makeReminder(topic: string, text: string, prompts: SessionConfig["prompts"]): SystemItem {
  const content = { kind: "reminder", payload: { topic, text } } as const;
  return makeSystemItem({ content, origin: { by: "process" }, chain: { id: newId("chain"), hops: 0 }, wake: false }, prompts);
}
