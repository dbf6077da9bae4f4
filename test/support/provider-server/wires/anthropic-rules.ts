import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";
import type { AnthropicMemory } from "./anthropic-memory.ts";

const CacheControl = z.strictObject({ type: z.literal("ephemeral"), ttl: z.enum(["5m", "1h"]).optional() });
const marked = { cache_control: CacheControl.optional() };
const TextBlock = z.strictObject({
  type: z.literal("text"),
  text: z.string(),
  citations: z.array(z.unknown()).optional(),
  ...marked,
});
const ToolUse = z.strictObject({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
  caller: z.unknown().optional(),
  ...marked,
});
const ToolResult = z.strictObject({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z.union([z.string(), z.array(TextBlock)]).optional(),
  is_error: z.boolean().optional(),
  ...marked,
});
const Thinking = z.strictObject({ type: z.literal("thinking"), thinking: z.string(), signature: z.string() });
const Redacted = z.strictObject({ type: z.literal("redacted_thinking"), data: z.string() });
const Block = z.discriminatedUnion("type", [TextBlock, ToolUse, ToolResult, Thinking, Redacted]);
type Block = z.infer<typeof Block>;
const Message = z.strictObject({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(Block)]),
});
const Tool = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  input_schema: z.looseObject({ type: z.literal("object") }),
  eager_input_streaming: z.boolean().optional(),
  ...marked,
});
/** A request as the Messages API takes it: like the real one, fields it does not know are refused. */
const Body = z.strictObject({
  model: z.string().min(1),
  max_tokens: z.int().min(1),
  stream: z.literal(true),
  messages: z.array(Message).min(1),
  system: z.union([z.string(), z.array(TextBlock)]).optional(),
  tools: z.array(Tool).optional(),
  tool_choice: z.unknown().optional(),
  temperature: z.number().optional(),
  stop_sequences: z.array(z.string()).optional(),
  metadata: z.unknown().optional(),
  cache_control: CacheControl.optional(),
  output_config: z.strictObject({ effort: z.enum(["low", "medium", "high", "xhigh", "max"]).optional() }).optional(),
  thinking: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("enabled"), budget_tokens: z.int().min(1024) }),
      z.strictObject({ type: z.literal("adaptive"), display: z.string().optional() }),
      z.strictObject({ type: z.literal("disabled") }),
      z.strictObject({ type: z.literal("between_tools") }),
    ])
    .optional(),
});
type Body = z.infer<typeof Body>;

interface Turn {
  readonly role: "user" | "assistant" | "system";
  readonly blocks: readonly Block[];
  readonly place: string;
}

const ID = /^[a-zA-Z0-9_-]+$/;
const NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const SYSTEM_BETA = "mid-conversation-system";

/** The rules of the Messages API that a request breaks, each as a sentence that begins with the rule's name. */
export function checkAnthropic(body: unknown, headers: IncomingHttpHeaders, memory: AnthropicMemory): string[] {
  const broken = [...checkHeaders(headers)];
  const read = Body.safeParse(body);
  if (!read.success) return [...broken, `shape: ${z.prettifyError(read.error)}`];
  const turns = mergeTurns(read.data);
  return [
    ...broken,
    ...checkSettings(read.data),
    ...checkTexts(read.data, turns),
    ...checkOrder(turns, headers),
    ...checkCalls(turns),
    ...checkThinking(turns, memory),
  ];
}

function* checkHeaders(headers: IncomingHttpHeaders): Generator<string> {
  if (headers["anthropic-version"] === undefined) yield "version: the header anthropic-version is missing";
  if (headers["x-api-key"] === undefined && headers.authorization === undefined) yield "key: no x-api-key, no authorization";
  if (!headers["content-type"]?.startsWith("application/json")) yield "content-type: must be application/json";
}

function* checkSettings(body: Body): Generator<string> {
  const names = body.tools?.map((tool) => tool.name) ?? [];
  for (const name of names) if (!NAME.test(name)) yield `tool-name: "${name}" is no tool name`;
  if (new Set(names).size < names.length) yield "tool-name: two tools have one name";
  if (body.thinking?.type === "enabled" && body.thinking.budget_tokens >= body.max_tokens) {
    yield "thinking-budget: must be less than max_tokens";
  }
  const marks = countMarks(body);
  if (marks > 4) yield `cache-marks: ${marks} of at most 4`;
}

function* checkTexts(body: Body, turns: readonly Turn[]): Generator<string> {
  const system = typeof body.system === "string" ? [body.system] : (body.system ?? []).map((block) => block.text);
  if (system.some(isBlank)) yield "blank-text: the system prompt holds a blank text";
  for (const { blocks, place } of turns) {
    for (const block of blocks) {
      if (block.type === "text" && isBlank(block.text)) yield `blank-text: ${place} holds a blank text`;
      if (block.type !== "tool_result") continue;
      const isEmpty = block.content === undefined || block.content.length === 0;
      if (isEmpty && block.is_error === true) yield `blank-text: ${place} holds an error result without content`;
      if (isEmpty && block.cache_control !== undefined) yield `cache-marks: ${place} marks an empty block`;
      if (Array.isArray(block.content) && block.content.some((part) => isBlank(part.text))) {
        yield `blank-text: ${place} holds a blank text in a result`;
      }
    }
    if (blocks.length === 0) yield `blank-text: ${place} is empty`;
  }
}

function* checkOrder(turns: readonly Turn[], headers: IncomingHttpHeaders): Generator<string> {
  if (turns[0]?.role !== "user") yield "first: the first message is not the user's";
  const last = turns.at(-1);
  const lastSpeaker = last?.role === "system" ? turns.at(-2) : last;
  if (lastSpeaker?.role !== "user") yield "last: the last message is not the user's";
  for (const [index, turn] of turns.entries()) {
    if (turn.role !== "system") continue;
    const next = turns[index + 1]?.role ?? "assistant";
    // The API's own placement rules: directly behind a user turn, alone, before an assistant turn or at the end.
    if (turns[index - 1]?.role !== "user") yield `system-place: ${turn.place} is not directly behind a user turn`;
    if (next !== "assistant") yield `system-place: ${turn.place} is followed by a ${next} turn`;
    if (turn.blocks.some((block) => block.type !== "text")) yield `system-place: ${turn.place} holds more than text`;
    if (!String(headers["anthropic-beta"] ?? "").includes(SYSTEM_BETA)) yield `system-beta: ${turn.place} needs ${SYSTEM_BETA}`;
  }
}

function* checkCalls(turns: readonly Turn[]): Generator<string> {
  const ids = new Set<string>();
  for (const [index, { role, blocks, place }] of turns.entries()) {
    const calls = blocks.filter((block) => block.type === "tool_use");
    const results = blocks.filter((block) => block.type === "tool_result");
    if (calls.length > 0 && role !== "assistant") yield `tool-use: ${place} may not call tools`;
    if (results.length > 0 && role !== "user") yield `tool-result: ${place} may not answer calls`;
    for (const call of calls) {
      if (!ID.test(call.id)) yield `tool-id: "${call.id}" in ${place}`;
      if (!NAME.test(call.name)) yield `tool-name: "${call.name}" in ${place}`;
      if (ids.has(call.id)) yield `tool-id: "${call.id}" twice`;
      ids.add(call.id);
    }
    const next = turns[index + 1];
    const answers = next?.role === "user" ? next.blocks.filter((block) => block.type === "tool_result") : [];
    for (const call of calls) {
      const count = answers.filter((answer) => answer.tool_use_id === call.id).length;
      if (count !== 1) yield `tool-result: ${call.id} of ${place} has ${count} results in the next message`;
    }
    const asked = turns[index - 1]?.blocks.flatMap((block) => (block.type === "tool_use" ? [block.id] : [])) ?? [];
    for (const result of results) {
      if (!asked.includes(result.tool_use_id)) yield `tool-result: ${place} answers ${result.tool_use_id}, which was not asked`;
    }
    const firstOther = blocks.findIndex((block) => block.type !== "tool_result");
    const lastResult = blocks.findLastIndex((block) => block.type === "tool_result");
    if (firstOther >= 0 && firstOther < lastResult) yield `tool-result: ${place} has a result behind other content`;
  }
}

function* checkThinking(turns: readonly Turn[], memory: AnthropicMemory): Generator<string> {
  for (const { role, blocks, place } of turns) {
    const proofs = blocks.flatMap((block) =>
      block.type === "thinking" ? [block.signature] : block.type === "redacted_thinking" ? [block.data] : [],
    );
    if (proofs.length > 0 && role !== "assistant") yield `thinking: ${place} may not think`;
    if (proofs.length > 0 && !isThinking(blocks[0])) yield `thinking: ${place} does not begin with its thinking`;
    if (isThinking(blocks.at(-1))) yield `thinking: ${place} ends with thinking`;
    for (const block of blocks) {
      if (block.type === "thinking") {
        const said = memory.thinking.get(block.signature);
        if (block.signature === "") yield `thinking: ${place} holds thinking without a signature`;
        else if (said === undefined) yield `thinking: the signature in ${place} is not ours`;
        else if (said !== block.thinking) yield `thinking: ${place} changed the text of a signed block`;
      }
      if (block.type === "redacted_thinking" && !memory.redacted.has(block.data)) {
        yield `thinking: the redacted block in ${place} is not ours`;
      }
      if (block.type !== "tool_use") continue;
      for (const proof of memory.beforeCall.get(block.id) ?? []) {
        if (!proofs.includes(proof)) yield `thinking: ${place} lost the thinking before the call ${block.id}`;
      }
    }
  }
}

// The API joins neighbouring messages of one role before it looks at their order.
function mergeTurns(body: Body): Turn[] {
  const turns: Turn[] = [];
  for (const [index, { role, content }] of body.messages.entries()) {
    const blocks: readonly Block[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const last = turns.at(-1);
    if (last?.role === role && role !== "system") turns[turns.length - 1] = { ...last, blocks: [...last.blocks, ...blocks] };
    else turns.push({ role, blocks, place: `messages.${index}` });
  }
  return turns;
}

function countMarks(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value).reduce((sum, [key, element]) => sum + (key === "cache_control" ? 1 : countMarks(element)), 0);
}

function isThinking(block: Block | undefined): boolean {
  return block?.type === "thinking" || block?.type === "redacted_thinking";
}

function isBlank(text: string): boolean {
  return text.trim() === "";
}
