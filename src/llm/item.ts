import type { SystemItem } from "../protocol/system-item.ts";

/**
 * The worker's own view of a conversation: what a model is shown and what it answers, provider-neutral. Not what is stored: the
 * session store has types of its own (L1) and the converters between both (L2).
 */

/** Opaque metadata of a provider that must go back unchanged with the item (signatures, encrypted reasoning, thought signatures). */
export type ProviderMetadata = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** What a human said. One text part for each typed or pasted segment. */
export interface UserItem {
  readonly kind: "user";
  readonly id: string;
  readonly content: readonly { readonly kind: "text"; readonly text: string }[];
}

/** What the model said. Never empty: an answer without text has no such item. */
export interface MessageItem {
  readonly kind: "message";
  readonly text: string;
  readonly provider?: ProviderMetadata;
}

/** The model's reasoning. `provider` holds its signature or encrypted form; reasoning without one is never sent back. */
export interface ReasoningItem {
  readonly kind: "reasoning";
  readonly text: string;
  readonly provider?: ProviderMetadata;
}

/** A tool the model wants to run. `arguments` is the JSON text as the model wrote it: it can be cut off or malformed. */
export interface ToolCallItem {
  readonly kind: "tool_call";
  readonly callId: string;
  readonly name: string;
  readonly arguments: string;
  readonly provider?: ProviderMetadata;
}

/** What a tool answered. The model is shown `content`, or `summary` where there is no more to say. */
export interface ToolResultItem {
  readonly kind: "tool_result";
  readonly callId: string;
  /** The tool's name, which some providers want repeated. */
  readonly name: string;
  /** One line for people. */
  readonly summary: string;
  readonly content?: string;
  readonly isError: boolean;
}

/** A text the system put before the model (S5). */
export interface SystemItemItem {
  readonly kind: "system";
  readonly item: SystemItem;
}

export type Item = UserItem | MessageItem | ReasoningItem | ToolCallItem | ToolResultItem | SystemItemItem;
/** The items a model can produce. */
export type AnswerItem = MessageItem | ReasoningItem | ToolCallItem;
