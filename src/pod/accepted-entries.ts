import { toSafeText } from "../base/text.ts";
import type { MethodParams } from "../protocol/method.ts";
import type { SystemItem } from "../protocol/system-item.ts";
import type { EntryOf, NewEntry } from "../session-log/entry.ts";
import type { SessionState } from "../session-log/session-state.ts";
import { makeSystemItem } from "../turn/system-item-body.ts";
import type { PromptCheck } from "./prompt-check.ts";
import { freshChain } from "./turn-chain.ts";

/** What is written when a method is accepted: params in, entries out. */

/** The entries of a human's input, and of the items that stand behind it, for one append. */
export function inputEntries(
  params: MethodParams<"run">,
  waitsFor: "request" | "turn",
  prompt: PromptCheck,
): readonly [EntryOf<"user_input">, ...NewEntry[]] {
  const entry: EntryOf<"user_input"> = {
    type: "user_input",
    id: prompt.id,
    segments: params.input.map((segment) => ({ ...segment, text: toSafeText(segment.text) })),
    waits_for: waitsFor,
    ...(params.submission === undefined ? {} : { submission: params.submission }),
    origin: { by: "client" },
    chain: params.chain ?? freshChain(),
  };
  const items = prompt.items.map((item) => ({ ...item, for: prompt.id }));
  return items.length === 0 ? [entry] : [entry, { type: "system_items", items }];
}

/** The item of a notification. */
export function notificationItem(
  params: MethodParams<"notify">,
  options: { readonly wake: boolean; readonly state: Readonly<SessionState> },
): SystemItem {
  const { source, message, chain } = params;
  return makeSystemItem(
    {
      content: { kind: "notification", payload: { source: toSafeText(source), message: toSafeText(message) } },
      origin: { by: "client", name: source },
      chain: chain ?? freshChain(),
      wake: options.wake,
    },
    options.state.config.prompts,
  );
}

/** What `set_config` asks for that is not so already. */
export function changedConfig(
  state: Readonly<SessionState>,
  params: MethodParams<"set_config">,
): EntryOf<"config_changed">["changes"] {
  const { model, reasoning } = params;
  return {
    ...(model !== undefined && model !== state.config.model ? { model } : {}),
    ...(reasoning !== undefined && reasoning !== state.config.reasoning ? { reasoning } : {}),
  };
}
