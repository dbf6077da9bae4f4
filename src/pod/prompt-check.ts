import { newId } from "../base/ids.ts";
import type { Segment } from "../protocol/segment.ts";
import type { SystemItem } from "../protocol/system-item.ts";
import type { Interceptor, PromptDecision } from "../turn/interceptor.ts";

/** What the interceptors said about an input that is about to be accepted under `id`. */
export interface PromptCheck {
  readonly id: string;
  /** Committed in one append with the input; they stand behind it. */
  readonly items: readonly SystemItem[];
  /** Why it is not accepted, if so. */
  readonly refused: string | undefined;
}

/** Asks every interceptor; synchronous unless one of them has to wait, so that inputs keep their order of arrival. */
export function checkPrompt(
  interceptors: readonly Interceptor[],
  segments: readonly Segment[],
): PromptCheck | Promise<PromptCheck> {
  const id = newId("input");
  const conclude = (decisions: readonly PromptDecision[]): PromptCheck => ({
    id,
    items: decisions.flatMap((decision) => (decision.kind === "continue_with" ? decision.items : [])),
    refused: decisions.find((decision) => decision.kind === "cancel")?.reason,
  });
  const asked = interceptors.flatMap((interceptor) => interceptor.onPromptSubmit?.({ id, segments }) ?? []);
  const settled = asked.filter((decision): decision is PromptDecision => !(decision instanceof Promise));
  return settled.length === asked.length ? conclude(settled) : Promise.all(asked).then(conclude);
}
