import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";
import { holdsJsonObject, isBlank, isToolName, textsOf } from "./json-rules.ts";
import type { ResponsesMemory } from "./responses-memory.ts";

const InputText = z.strictObject({ type: z.literal("input_text"), text: z.string() });
const OutputText = z.strictObject({ type: z.literal("output_text"), text: z.string() });
const Message = z.strictObject({
  type: z.literal("message").optional(),
  role: z.enum(["user", "system", "developer", "assistant"]),
  content: z.union([z.string(), z.array(z.union([InputText, OutputText]))]),
  phase: z.enum(["commentary", "final_answer"]).optional(),
});
const FunctionCall = z.strictObject({
  type: z.literal("function_call"),
  id: z.string().optional(),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const FunctionOutput = z.strictObject({
  type: z.literal("function_call_output"),
  call_id: z.string(),
  output: z.union([z.string(), z.array(InputText)]),
});
const Reasoning = z.strictObject({
  type: z.literal("reasoning"),
  id: z.string().optional(),
  encrypted_content: z.string().nullish(),
  summary: z.array(z.strictObject({ type: z.literal("summary_text"), text: z.string() })),
});
const Item = z.union([FunctionCall, FunctionOutput, Reasoning, Message]);
type Item = z.infer<typeof Item>;
/** A request as the Responses API takes it: like the real one, fields it does not know are refused. */
const Body = z.strictObject({
  model: z.string().min(1),
  input: z.array(Item).min(1),
  stream: z.literal(true),
  store: z.boolean().optional(),
  include: z.array(z.string()).optional(),
  instructions: z.string().optional(),
  max_output_tokens: z.int().min(16).optional(),
  reasoning: z
    .strictObject({
      effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]).optional(),
      summary: z.enum(["auto", "concise", "detailed"]).nullish(),
    })
    .optional(),
  tools: z
    .array(
      z.strictObject({
        type: z.literal("function"),
        name: z.string(),
        description: z.string().optional(),
        parameters: z.looseObject({ type: z.literal("object") }),
        strict: z.boolean(),
      }),
    )
    .optional(),
  tool_choice: z.unknown().optional(),
});
type Body = z.infer<typeof Body>;

const CALL_ID = /^[a-zA-Z0-9_-]{1,64}$/;

/** The rules of the Responses API that a request breaks, each as a sentence that begins with the rule's name. */
export function checkResponses(body: unknown, headers: IncomingHttpHeaders, memory: ResponsesMemory): string[] {
  const broken = [...checkHeaders(headers)];
  const read = Body.safeParse(body);
  if (!read.success) return [...broken, `shape: ${z.prettifyError(read.error)}`];
  const { input } = read.data;
  return [...broken, ...checkSettings(read.data), ...checkTexts(input), ...checkCalls(input), ...checkReasoning(input, memory)];
}

function* checkHeaders(headers: IncomingHttpHeaders): Generator<string> {
  if (!/^Bearer \S+$/.test(headers.authorization ?? "")) yield "key: no authorization";
  if (!headers["content-type"]?.startsWith("application/json")) yield "content-type: must be application/json";
}

function* checkSettings(body: Body): Generator<string> {
  const names = body.tools?.map((tool) => tool.name) ?? [];
  for (const name of names) if (!isToolName(name)) yield `tool-name: "${name}" is no tool name`;
  if (new Set(names).size < names.length) yield "tool-name: two tools have one name";
  const hasReasoning = body.input.some((item) => item.type === "reasoning");
  if (hasReasoning && body.store !== false) yield "store: encrypted reasoning is for requests that store nothing";
  const encrypts = body.include?.includes("reasoning.encrypted_content") === true;
  if (body.reasoning !== undefined && body.store === false && !encrypts) yield "include: reasoning would be lost";
}

function* checkTexts(input: readonly Item[]): Generator<string> {
  for (const [index, item] of input.entries()) {
    const place = `input.${index}`;
    if ("role" in item && textsOf(item.content).some(isBlank)) yield `blank-text: ${place} holds a blank text`;
    if ("role" in item && item.content.length === 0) yield `blank-text: ${place} is empty`;
    if (item.type === "function_call_output" && textsOf(item.output).every(isBlank))
      yield `blank-text: ${place} is an empty output`;
    if ("role" in item && item.role !== "assistant" && item.phase !== undefined) yield `phase: ${place} is no answer`;
  }
}

function* checkCalls(input: readonly Item[]): Generator<string> {
  const calls = new Set<string>();
  const outputs = new Set<string>();
  for (const [index, item] of input.entries()) {
    if (item.type === "function_call") {
      if (!CALL_ID.test(item.call_id)) yield `call-id: "${item.call_id}" in input.${index}`;
      if (!isToolName(item.name)) yield `tool-name: "${item.name}" in input.${index}`;
      if (!holdsJsonObject(item.arguments)) yield `arguments: input.${index} holds no JSON object`;
      if (calls.has(item.call_id)) yield `call-id: "${item.call_id}" twice`;
      calls.add(item.call_id);
    } else if (item.type === "function_call_output") {
      if (!calls.has(item.call_id)) yield `output: input.${index} answers ${item.call_id}, which was not asked before`;
      if (outputs.has(item.call_id)) yield `output: ${item.call_id} is answered twice`;
      outputs.add(item.call_id);
    }
  }
  for (const id of calls) if (!outputs.has(id)) yield `output: No tool output found for function call ${id}`;
}

function* checkReasoning(input: readonly Item[], memory: ResponsesMemory): Generator<string> {
  const seen = new Set<string>();
  for (const [index, item] of input.entries()) {
    if (item.type !== "reasoning") continue;
    const place = `input.${index}`;
    const encrypted = item.encrypted_content ?? "";
    if (encrypted === "") yield `reasoning: ${place} holds no encrypted content`;
    else if (!memory.reasoning.has(encrypted)) yield `reasoning: the encrypted content of ${place} is not ours`;
    if (seen.has(encrypted)) yield `reasoning: ${place} comes twice`;
    seen.add(encrypted);
    const next = input.slice(index + 1).find((other) => other.type !== "reasoning");
    const follower = memory.reasoning.get(encrypted);
    const isCall = next?.type === "function_call";
    const isAnswer = next !== undefined && "role" in next && next.role === "assistant";
    if (!isCall && !isAnswer) yield `reasoning: ${place} was provided without its required following item`;
    else if (isCall && follower?.kind === "call" && CALL_ID.test(follower.callId) && follower.callId !== next.call_id) {
      yield `reasoning: ${place} was produced with ${follower.callId}, not ${next.call_id}`;
    } else if (isAnswer && follower?.kind === "text" && textsOf(next.content).join("") !== follower.text) {
      yield `reasoning: ${place} was produced with another text`;
    } else if (isCall !== (follower?.kind === "call") && follower !== undefined) {
      yield `reasoning: ${place} was produced with another kind of item`;
    }
  }
}
