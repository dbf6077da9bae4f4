import { assertNever } from "../base/assert-never.ts";
import { toSafeText } from "../base/text.ts";
import type { AnswerItem } from "../llm/item.ts";
import type { ModelEvent, ModelFailure } from "../llm/model.ts";
import type { LiveEvent, StopReason } from "../protocol/event.ts";
import type { Usage } from "../protocol/status.ts";
import type { LoggedAnswerItem } from "../session-log/logged-item.ts";
import { toLoggedAnswer } from "../session-log/logged-item-conversion.ts";

/** How one attempt ended. */
export type AttemptEnd =
  | { readonly kind: "finished"; readonly stop: StopReason; readonly usage: Usage }
  | { readonly kind: "failed"; readonly failure: ModelFailure };

/** Collects a streamed answer: deltas go to whoever watches, complete items stay for the commit. */
export class AnswerCollector {
  readonly #publish: (event: LiveEvent) => void;
  readonly #items: AnswerItem[] = [];
  #partialText = "";
  #published = false;

  constructor(publish: (event: LiveEvent) => void) {
    this.#publish = publish;
  }

  /** True once something was shown that a failed attempt must withdraw. */
  get published(): boolean {
    return this.#published;
  }

  /** Takes one event; returns how the attempt ended, if it did. */
  take(event: ModelEvent): AttemptEnd | undefined {
    switch (event.type) {
      case "text_delta":
        this.#partialText += event.text;
        this.#live({ type: "text_delta", text: event.text });
        return undefined;
      case "thinking_delta":
        this.#live({ type: "thinking_delta", text: event.text });
        return undefined;
      case "tool_call_delta":
        this.#live({ type: "tool_call_delta", call_id: event.callId, name: event.name, arguments: event.arguments });
        return undefined;
      case "item":
        if (event.item.kind === "message") this.#partialText = "";
        this.#items.push(event.item);
        return undefined;
      case "finish":
        return { kind: "finished", stop: event.stop, usage: event.usage };
      case "failure":
        return { kind: "failed", failure: event.failure };
      default:
        return assertNever(event, "model event");
    }
  }

  #live(event: LiveEvent): void {
    this.#published = true;
    this.#publish(event);
  }

  /**
   * The complete answer in its persistent form. Blank texts are left out (no provider takes them back); a call id that is empty or
   * was used before in the session gets a fresh one, so that each call has one result.
   */
  complete(usedCallIds: ReadonlySet<string>): LoggedAnswerItem[] {
    const used = new Set<string>();
    const items: LoggedAnswerItem[] = [];
    for (const item of this.#items) {
      switch (item.kind) {
        case "message":
          if (item.text.trim() !== "") items.push(toLoggedAnswer({ ...item, text: toSafeText(item.text) }));
          break;
        case "reasoning":
          items.push(toLoggedAnswer(item));
          break;
        case "tool_call": {
          const callId = freshCallId(item.callId, (id) => used.has(id) || usedCallIds.has(id));
          used.add(callId);
          items.push(toLoggedAnswer({ ...item, callId, arguments: item.arguments.toWellFormed() }));
          break;
        }
        default:
          assertNever(item, "answer item");
      }
    }
    return items;
  }

  /** What is kept of a cancelled answer: the text so far and the reasoning in front of it; calls never ran and are dropped. */
  partial(): LoggedAnswerItem[] {
    const items: AnswerItem[] = this.#items.filter((item) => item.kind !== "tool_call");
    if (this.#partialText.trim() !== "") items.push({ kind: "message", text: this.#partialText });
    while (items.at(-1)?.kind === "reasoning") items.pop();
    return items
      .filter((item) => item.kind !== "reasoning" || item.provider !== undefined) // unsigned reasoning is of no use to anybody
      .filter((item) => item.kind !== "message" || item.text.trim() !== "")
      .map((item) => toLoggedAnswer(item.kind === "message" ? { ...item, text: toSafeText(item.text) } : item));
  }
}

function freshCallId(id: string, isUsed: (id: string) => boolean): string {
  const base = id === "" ? "call" : id.toWellFormed();
  if (id !== "" && !isUsed(base)) return base;
  for (let n = 2; ; n++) if (!isUsed(`${base}_${n}`)) return `${base}_${n}`;
}
