import * as z from "zod";
import { Segment } from "../protocol/segment.ts";
import { SystemItem } from "../protocol/system-item.ts";

/**
 * The persistent form of a conversation (L1). It has types of its own: a field that the worker's `Item` gains changes no byte here
 * (L4). What is needed to send the history again is kept, the rest is dropped (L3). Converters: `logged-item-conversion.ts` (L2).
 */

/** Opaque provider metadata that must go back unchanged: signatures, redacted thinking, encrypted reasoning, thought signatures. */
const Provider = z.record(z.string(), z.record(z.string(), z.json()));

export const LoggedContentPart = z.discriminatedUnion("kind", [z.object({ kind: z.literal("text"), text: z.string() })]);
export type LoggedContentPart = z.infer<typeof LoggedContentPart>;

/** Human input is an item of its own with its segments (L6) and the system never speaks as `message` (S6): only the model does. */
export const LoggedRole = z.enum(["assistant"]);
export type LoggedRole = z.infer<typeof LoggedRole>;

const LoggedUser = z.object({
  kind: z.literal("user"),
  id: z.string(),
  segments: z.array(Segment),
  content: z.array(LoggedContentPart),
});
const LoggedMessage = z.object({
  kind: z.literal("message"),
  role: LoggedRole,
  content: z.array(LoggedContentPart),
  provider: Provider.optional(),
});
const LoggedToolCall = z.object({
  kind: z.literal("tool_call"),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
  provider: Provider.optional(),
});
export const LoggedToolResult = z.object({
  kind: z.literal("tool_result"),
  call_id: z.string(),
  name: z.string(),
  summary: z.string(),
  content: z.string().optional(),
  is_error: z.boolean(),
});
const LoggedReasoning = z.object({ kind: z.literal("reasoning"), text: z.string(), provider: Provider.optional() });
const LoggedSystem = z.object({ kind: z.literal("system"), item: SystemItem });

/** What an answer of the model is stored as. */
export const LoggedAnswerItem = z.discriminatedUnion("kind", [LoggedMessage, LoggedToolCall, LoggedReasoning]);
export type LoggedAnswerItem = z.infer<typeof LoggedAnswerItem>;
export type LoggedToolResult = z.infer<typeof LoggedToolResult>;

export const LoggedItem = z.discriminatedUnion("kind", [
  LoggedUser,
  LoggedMessage,
  LoggedToolCall,
  LoggedToolResult,
  LoggedReasoning,
  LoggedSystem,
]);
export type LoggedItem = z.infer<typeof LoggedItem>;

/** What the model is shown of an input's segments: one text part each, blank ones left out (no provider takes a blank block). */
export function contentOfSegments(segments: readonly Segment[]): LoggedContentPart[] {
  return segments.filter((segment) => segment.text.trim() !== "").map((segment) => ({ kind: "text", text: segment.text }));
}
