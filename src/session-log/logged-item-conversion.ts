import { assertNever } from "../base/assert-never.ts";
import type { AnswerItem, Item, ProviderMetadata, ToolResultItem } from "../llm/item.ts";
import { LoggedAnswerItem, type LoggedItem, LoggedToolResult } from "./logged-item.ts";

/** The only code that knows both the worker's items and the logged ones (L2). */

/** An answer of the model in its persistent form. Fields that replay does not need are not copied (L3, L4). */
export function toLoggedAnswer(item: AnswerItem): LoggedAnswerItem {
  switch (item.kind) {
    case "message":
      // Parsing gives the metadata its JSON form: what JSON cannot hold would otherwise differ between live and restored state.
      return LoggedAnswerItem.parse({
        kind: "message",
        role: "assistant",
        content: [{ kind: "text", text: item.text }],
        ...jsonProvider(item.provider),
      });
    case "tool_call":
      return LoggedAnswerItem.parse({
        kind: "tool_call",
        call_id: item.callId,
        name: item.name,
        arguments: item.arguments,
        ...jsonProvider(item.provider),
      });
    case "reasoning":
      return LoggedAnswerItem.parse({ kind: "reasoning", text: item.text, ...jsonProvider(item.provider) });
    default:
      return assertNever(item, "answer item");
  }
}

/** A tool's result in its persistent form. */
export function toLoggedResult(item: ToolResultItem): LoggedToolResult {
  return LoggedToolResult.parse({
    kind: "tool_result",
    call_id: item.callId,
    name: item.name,
    summary: item.summary,
    ...(item.content === undefined ? {} : { content: item.content }),
    is_error: item.isError,
  });
}

/** Any item of the worker in its persistent form (L5: the way back gives an equivalent item). */
export function toLoggedItem(item: Item): LoggedItem {
  switch (item.kind) {
    case "user":
      return {
        kind: "user",
        id: item.id,
        segments: item.content.map((part) => ({ kind: "text", text: part.text })),
        content: item.content.map((part) => ({ kind: "text", text: part.text })),
      };
    case "message":
    case "tool_call":
    case "reasoning":
      return toLoggedAnswer(item);
    case "tool_result":
      return toLoggedResult(item);
    case "system":
      return { kind: "system", item: item.item };
    default:
      return assertNever(item, "item");
  }
}

/** The worker's item for a logged one: what is shown to a model. */
export function fromLoggedItem(logged: LoggedItem): Item {
  switch (logged.kind) {
    case "user":
      return { kind: "user", id: logged.id, content: logged.content };
    case "message":
      return { kind: "message", text: logged.content.map((part) => part.text).join(""), ...provider(logged.provider) };
    case "tool_call":
      return {
        kind: "tool_call",
        callId: logged.call_id,
        name: logged.name,
        arguments: logged.arguments,
        ...provider(logged.provider),
      };
    case "tool_result":
      return {
        kind: "tool_result",
        callId: logged.call_id,
        name: logged.name,
        summary: logged.summary,
        ...(logged.content === undefined ? {} : { content: logged.content }),
        isError: logged.is_error,
      };
    case "reasoning":
      return { kind: "reasoning", text: logged.text, ...provider(logged.provider) };
    case "system":
      return { kind: "system", item: logged.item };
    default:
      return assertNever(logged, "logged item");
  }
}

function provider(metadata: ProviderMetadata | undefined): { provider?: ProviderMetadata } {
  return metadata === undefined ? {} : { provider: metadata };
}

function jsonProvider(metadata: ProviderMetadata | undefined): { provider?: unknown } {
  return metadata === undefined ? {} : { provider: JSON.parse(JSON.stringify(metadata)) };
}
