import * as z from "zod";
import { Chain, Origin } from "./chain.ts";

/**
 * A text that the system (not the human, not the model) puts before the model (S1-S6).
 *
 * A new kind is one variant here, one renderer in `system-item-body.ts`, one block in each face; the compiler names every place.
 */

/** How far an item's text may be believed (N14): `operator` is the owner of the machine, `pod` another Pod, `external` anybody. */
export const Trust = z.enum(["operator", "pod", "external"]);
export type Trust = z.infer<typeof Trust>;

/** `source` of a notification (N1): 1 to 128 characters, no line break or other control character, no `]`. Data, never authority. */
export const NotificationSource = z
  .string()
  .min(1)
  .max(128)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it must refuse
  .regex(/^[^\u0000-\u001f\u007f\u0085\u2028\u2029\]]+$/u, "no line break, control character or ']'");

export const NotificationPayload = z.object({ source: NotificationSource, message: z.string() });
/** `topic` names the rule that speaks (`turn_interrupted`, `turn_failed`, ...); `text` is what it says. */
export const ReminderPayload = z.object({ topic: z.string().min(1).max(64), text: z.string() });
/** Read from logs of the former tag `hook_injected_items` (S10); never written anew. */
export const LegacyPayload = z.object({ text: z.string() });

const common = {
  id: z.string().min(1).max(128),
  /** The exact text the model saw, rendered once (S4). */
  body: z.string(),
  origin: Origin,
  trust: Trust,
  /** Whether it owes a wake (N6). */
  wake: z.boolean(),
  chain: Chain,
  /** The input it belongs to: it becomes eligible with it and stands directly behind it. */
  for: z.string().min(1).optional(),
};

export const SystemItem = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("notification"), payload: NotificationPayload, ...common }),
  z.object({ kind: z.literal("reminder"), payload: ReminderPayload, ...common }),
  z.object({ kind: z.literal("legacy"), payload: LegacyPayload, ...common }),
]);
export type SystemItem = z.infer<typeof SystemItem>;
export type SystemItemKind = SystemItem["kind"];
/** Kind and payload of an item: what is rendered into its body. */
export type SystemItemContent = {
  [K in SystemItemKind]: { readonly kind: K; readonly payload: Extract<SystemItem, { kind: K }>["payload"] };
}[SystemItemKind];

/** Trust by kind (N14). */
export const TRUST_BY_KIND: Readonly<Record<SystemItemKind, Trust>> = {
  notification: "external",
  reminder: "operator",
  legacy: "external",
};

/** What a client may meet: a kind of a newer Pod is kept whole and shown generically by its `body`. */
export const UnknownSystemItem = z.looseObject({
  id: z.string(),
  kind: z.string(),
  body: z.string().default(""),
});
export type UnknownSystemItem = z.infer<typeof UnknownSystemItem>;
