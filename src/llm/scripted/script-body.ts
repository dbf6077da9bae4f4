import type { SystemItem } from "../../protocol/system-item.ts";
import type { Item, ReasoningItem } from "../item.ts";
import type { Prompt, RequestSettings } from "../model.ts";
import { renderSystemItemBlock } from "../system-item-block.ts";

/** How system items stand in the body. */
export interface BodyOptions {
  readonly systemInPlace: boolean;
}

/**
 * The body of a request to the scripted model: one JSON object, deterministic, with `messages` last and one message an item. So the body
 * of a longer prompt extends that of a shorter one byte for byte, up to the closing `]}` (I11).
 */
export function renderScriptBody(prompt: Prompt, settings: RequestSettings, options: BodyOptions): Uint8Array<ArrayBuffer> {
  const messages: unknown[] = [];
  for (const item of prompt.items) {
    const message = toMessage(item, options);
    if (message !== undefined) messages.push(message);
  }
  const { system, tools } = prompt;
  const { reasoning, maxOutputTokens } = settings;
  const body = {
    reasoning,
    ...(maxOutputTokens === undefined ? {} : { max_output_tokens: maxOutputTokens }),
    system,
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema })),
    messages,
  };
  return new TextEncoder().encode(JSON.stringify(body));
}

function toMessage(item: Item, options: BodyOptions): Readonly<Record<string, unknown>> | undefined {
  switch (item.kind) {
    case "user":
      return { role: "user", content: item.content.map((part) => ({ type: "text", text: part.text })) };
    case "message":
      return { role: "assistant", text: item.text };
    case "reasoning": {
      const signature = signatureOf(item);
      return signature === undefined ? undefined : { role: "assistant", reasoning: item.text, signature };
    }
    case "tool_call":
      return { role: "assistant", call_id: item.callId, tool: item.name, arguments: item.arguments };
    case "tool_result": {
      const content = item.content ?? item.summary;
      return { role: "tool", call_id: item.callId, tool: item.name, is_error: item.isError, content };
    }
    case "system":
      return inPlace(item.item, options)
        ? { role: "system", text: item.item.body }
        : { role: "user", text: renderSystemItemBlock(item.item) };
  }
}

/** What an item says in the request, as expectations search it; empty for what is not sent. */
export function sentText(item: Item, options: BodyOptions): string {
  switch (item.kind) {
    case "user":
      return item.content.map((part) => part.text).join("\n");
    case "message":
      return item.text;
    case "reasoning":
      return signatureOf(item) === undefined ? "" : item.text;
    case "tool_call":
      return `${item.name} ${item.arguments}`;
    case "tool_result":
      return item.content ?? item.summary;
    case "system":
      return inPlace(item.item, options) ? item.item.body : renderSystemItemBlock(item.item);
  }
}

/** N14: only the operator's own texts may stand as role system, and only where the model takes that. */
function inPlace(item: SystemItem, options: BodyOptions): boolean {
  return options.systemInPlace && item.trust === "operator";
}

/** What marks a reasoning item as one of ours: that of another provider, or a half one, is never sent back. */
export function reasoningProvider(step: number): NonNullable<ReasoningItem["provider"]> {
  return { script: { signature: `thought_${step}` } };
}

function signatureOf(item: ReasoningItem): string | undefined {
  const signature = item.provider?.["script"]?.["signature"];
  return typeof signature === "string" ? signature : undefined;
}
