import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";
import { holdsJsonObject, isBlank, isToolName, textsOf } from "./json-rules.ts";

const Text = z.strictObject({ type: z.literal("text"), text: z.string() });
const Content = z.union([z.string(), z.array(Text)]);
const ToolCall = z.strictObject({
  id: z.string(),
  type: z.literal("function"),
  function: z.strictObject({ name: z.string(), arguments: z.string() }),
});
const Message = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("system"), content: Content }),
  z.strictObject({ role: z.literal("user"), content: Content }),
  z.strictObject({
    role: z.literal("assistant"),
    content: Content.nullish(),
    reasoning_content: z.string().optional(),
    tool_calls: z.array(ToolCall).min(1).optional(),
  }),
  z.strictObject({ role: z.literal("tool"), tool_call_id: z.string(), content: Content }),
]);
type Message = z.infer<typeof Message>;
/** A request as strict servers take it: fields they do not know are refused. */
const Body = z.strictObject({
  model: z.string().min(1),
  messages: z.array(Message).min(1),
  stream: z.literal(true),
  stream_options: z.strictObject({ include_usage: z.boolean() }).optional(),
  max_tokens: z.int().min(1).optional(),
  reasoning_effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh"]).optional(),
  tools: z
    .array(
      z.strictObject({
        type: z.literal("function"),
        function: z.strictObject({
          name: z.string(),
          description: z.string().optional(),
          parameters: z.looseObject({ type: z.literal("object") }),
          strict: z.boolean().optional(),
        }),
      }),
    )
    .optional(),
  tool_choice: z.unknown().optional(),
});

/** What the strictest server of this kind wants beyond what all want. */
export interface ChatStrictness {
  /** Roles alternate even behind tool results, the system speaks only first, and contents are plain texts (B44). */
  readonly alternates: boolean;
}

const CALL_ID = /^[a-zA-Z0-9_-]{1,40}$/;

/** The rules of Chat Completions that a request breaks, each as a sentence that begins with the rule's name. */
export function checkChat(
  body: unknown,
  headers: IncomingHttpHeaders,
  memory: { readonly reasoning: ReadonlySet<string> },
  strictness: ChatStrictness,
): string[] {
  const broken: string[] = [];
  if (!headers["content-type"]?.startsWith("application/json")) broken.push("content-type: must be application/json");
  const read = Body.safeParse(body);
  if (!read.success) return [...broken, `shape: ${z.prettifyError(read.error)}`];
  const { messages, tools = [] } = read.data;
  const names = tools.map((tool) => tool.function.name);
  for (const name of names) if (!isToolName(name)) broken.push(`tool-name: "${name}" is no tool name`);
  if (new Set(names).size < names.length) broken.push("tool-name: two tools have one name");
  return [...broken, ...checkTexts(messages, memory), ...checkCalls(messages), ...checkOrder(messages, strictness)];
}

function* checkTexts(messages: readonly Message[], memory: { readonly reasoning: ReadonlySet<string> }): Generator<string> {
  for (const [index, message] of messages.entries()) {
    const place = `messages.${index}`;
    const texts = textsOf(message.content);
    const callsOnly = message.role === "assistant" && message.tool_calls !== undefined && message.content == null;
    if (!callsOnly && (texts.length === 0 || texts.some(isBlank))) yield `blank-text: ${place} holds a blank text`;
    if (message.role !== "assistant" || message.reasoning_content === undefined) continue;
    if (!memory.reasoning.has(message.reasoning_content)) yield `reasoning: that of ${place} is not ours`;
  }
}

function* checkCalls(messages: readonly Message[]): Generator<string> {
  const ids = new Set<string>();
  for (const [index, message] of messages.entries()) {
    if (message.role === "assistant") {
      const calls = message.tool_calls ?? [];
      for (const call of calls) {
        if (!CALL_ID.test(call.id)) yield `call-id: "${call.id}" in messages.${index}`;
        if (!isToolName(call.function.name)) yield `tool-name: "${call.function.name}" in messages.${index}`;
        if (!holdsJsonObject(call.function.arguments)) yield `arguments: messages.${index} holds no JSON object`;
        if (ids.has(call.id)) yield `call-id: "${call.id}" twice`;
        ids.add(call.id);
      }
      const end = messages.findIndex((other, at) => at > index && other.role !== "tool");
      const results = messages.slice(index + 1, end < 0 ? undefined : end);
      const answered = results.map((result) => (result.role === "tool" ? result.tool_call_id : ""));
      for (const call of calls) {
        const count = answered.filter((id) => id === call.id).length;
        if (count !== 1) yield `tool-result: ${call.id} of messages.${index} has ${count} results behind it`;
      }
      for (const id of answered) {
        if (!calls.some((call) => call.id === id)) yield `tool-result: ${id} behind messages.${index} was not asked there`;
      }
    }
    const before = messages[index - 1]?.role;
    if (message.role === "tool" && before !== "tool" && before !== "assistant") {
      yield `tool-result: messages.${index} follows no call`;
    }
  }
}

function* checkOrder(messages: readonly Message[], { alternates }: ChatStrictness): Generator<string> {
  const speakers = messages.filter((message) => message.role !== "system");
  if (speakers[0]?.role !== "user") yield "first: the first message is not the user's";
  const last = speakers.at(-1)?.role;
  if (last !== "user" && last !== "tool") yield "last: the last message is neither the user's nor a result";
  for (const [index, message] of messages.entries()) {
    const before = messages[index - 1];
    const isSame = before?.role === message.role && message.role !== "tool" && message.role !== "system";
    if (isSame) yield `alternate: messages.${index} has the role of the one before it`;
    if (!alternates) continue;
    if (message.role === "system" && index > 0) yield `alternate: messages.${index} is of the system and not the first`;
    if (message.role === "user" && before?.role === "tool")
      yield `alternate: messages.${index} is the user's right behind a result`;
    if (Array.isArray(message.content)) yield `alternate: messages.${index} holds no plain text`;
  }
}
