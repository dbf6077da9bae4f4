import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";
import type { GeminiMemory } from "./gemini-memory.ts";
import { isBlank, isToolName } from "./json-rules.ts";

const signature = { thoughtSignature: z.string().optional() };
const TextPart = z.strictObject({ text: z.string(), thought: z.boolean().optional(), ...signature });
const CallPart = z.strictObject({
  functionCall: z.strictObject({ id: z.string().optional(), name: z.string(), args: z.record(z.string(), z.unknown()) }),
  ...signature,
});
const ResponsePart = z.strictObject({
  functionResponse: z.strictObject({
    id: z.string().optional(),
    name: z.string(),
    response: z.record(z.string(), z.unknown()),
  }),
});
const Part = z.union([TextPart, CallPart, ResponsePart]);
const Content = z.strictObject({ role: z.enum(["user", "model"]), parts: z.array(Part) });
type Content = z.infer<typeof Content>;
/** A request as the Gemini API takes it: like the real one, fields it does not know are refused. */
const Body = z.strictObject({
  contents: z.array(Content).min(1),
  systemInstruction: z.strictObject({ parts: z.array(z.strictObject({ text: z.string() })).min(1) }).optional(),
  generationConfig: z
    .strictObject({
      maxOutputTokens: z.int().min(1).optional(),
      thinkingConfig: z
        .strictObject({
          includeThoughts: z.boolean().optional(),
          thinkingLevel: z.enum(["minimal", "low", "medium", "high", "xhigh"]).optional(),
          thinkingBudget: z.int().min(0).optional(),
        })
        .optional(),
    })
    .optional(),
  tools: z
    .array(
      z.strictObject({
        functionDeclarations: z.array(z.looseObject({ name: z.string(), description: z.string().optional() })),
      }),
    )
    .optional(),
  toolConfig: z.unknown().optional(),
});
type Body = z.infer<typeof Body>;

/** What the API documents for calls of another model, whose signature nobody has. */
const NO_SIGNATURE = "skip_thought_signature_validator";

/** The rules of the Gemini API that a request breaks, each as a sentence that begins with the rule's name. */
export function checkGemini(body: unknown, headers: IncomingHttpHeaders, memory: GeminiMemory): string[] {
  const broken = [...checkHeaders(headers)];
  const read = Body.safeParse(body);
  if (!read.success) return [...broken, `shape: ${z.prettifyError(read.error)}`];
  const { contents } = read.data;
  return [
    ...broken,
    ...checkSettings(read.data),
    ...checkTexts(contents),
    ...checkOrder(contents),
    ...checkCalls(contents),
    ...checkSignatures(contents, memory),
  ];
}

function* checkHeaders(headers: IncomingHttpHeaders): Generator<string> {
  if (headers["x-goog-api-key"] === undefined) yield "key: no x-goog-api-key";
  if (!headers["content-type"]?.startsWith("application/json")) yield "content-type: must be application/json";
}

function* checkSettings(body: Body): Generator<string> {
  const names = body.tools?.flatMap((tool) => tool.functionDeclarations.map((declaration) => declaration.name)) ?? [];
  for (const name of names) if (!isToolName(name)) yield `tool-name: "${name}" is no tool name`;
  if (new Set(names).size < names.length) yield "tool-name: two tools have one name";
}

function* checkTexts(contents: readonly Content[]): Generator<string> {
  for (const [index, { parts }] of contents.entries()) {
    if (parts.length === 0) yield `blank-text: contents.${index} is empty`;
    for (const part of parts) {
      if ("text" in part && isBlank(part.text) && part.thoughtSignature === undefined) {
        yield `blank-text: contents.${index} holds a blank text`;
      }
    }
  }
}

function* checkOrder(contents: readonly Content[]): Generator<string> {
  if (contents[0]?.role !== "user") yield "first: the first content is not the user's";
  if (contents.at(-1)?.role !== "user") yield "last: the last content is not the user's";
  for (const [index, { role, parts }] of contents.entries()) {
    if (role === "model" && contents[index - 1]?.role === "model")
      yield `alternate: contents.${index} is the model's twice in a row`;
    for (const part of parts) {
      if (
        role === "user" &&
        ("functionCall" in part || ("text" in part && (part.thought ?? part.thoughtSignature) !== undefined))
      ) {
        yield `role: contents.${index} holds what only the model can say`;
      }
      if (role === "model" && "functionResponse" in part) yield `role: contents.${index} answers calls`;
    }
  }
}

function* checkCalls(contents: readonly Content[]): Generator<string> {
  const ids = new Set<string>();
  for (const [index, { parts }] of contents.entries()) {
    const calls = parts.flatMap((part) => ("functionCall" in part ? [part.functionCall] : []));
    const next = contents[index + 1]?.parts ?? [];
    const responses = next.flatMap((part) => ("functionResponse" in part ? [part.functionResponse] : []));
    if (calls.length !== responses.length) {
      yield `responses: contents.${index} has ${calls.length} calls, the next content ${responses.length} responses`;
    } else if (calls.length > 0 && responses.length !== next.length) {
      yield `responses: contents.${index + 1} holds more than responses`;
    }
    for (const [position, call] of calls.entries()) {
      if (!isToolName(call.name)) yield `tool-name: "${call.name}" in contents.${index}`;
      const response = responses[position];
      if (response !== undefined && (response.id !== call.id || response.name !== call.name)) {
        yield `responses: contents.${index + 1} does not answer in the order of the calls`;
      }
      if (call.id === undefined) continue;
      if (ids.has(call.id)) yield `call-id: "${call.id}" twice`;
      ids.add(call.id);
    }
  }
  const [first] = contents;
  if (first?.parts.some((part) => "functionResponse" in part)) yield "responses: the first content answers what was not asked";
}

function* checkSignatures(contents: readonly Content[], memory: GeminiMemory): Generator<string> {
  const seen = new Set<string>();
  for (const [index, { parts }] of contents.entries()) {
    for (const part of parts) {
      if ("functionResponse" in part) continue;
      const { thoughtSignature: given } = part;
      const expected = "functionCall" in part ? memory.byCall.get(part.functionCall.id ?? "") : undefined;
      if (expected !== undefined && given !== expected) yield `signature: contents.${index} lost the signature of a call`;
      if (given === undefined || given === NO_SIGNATURE) continue;
      if (seen.has(given)) yield `signature: contents.${index} repeats a signature`;
      seen.add(given);
      const signed = memory.signed.get(given);
      const kind = "functionCall" in part ? "call" : part.thought === true ? "thought" : "text";
      const text = "functionCall" in part ? part.functionCall.name : part.text;
      if (signed === undefined) yield `signature: the signature in contents.${index} is not ours`;
      else if (signed.kind !== kind || signed.text !== text)
        yield `signature: contents.${index} moved a signature to another part`;
    }
  }
}
