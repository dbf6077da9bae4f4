import type { TurnError } from "../protocol/event.ts";
import type { Segment } from "../protocol/segment.ts";
import type { SystemItem } from "../protocol/system-item.ts";
import type { LoggedToolResult } from "../session-log/logged-item.ts";
import type { OpenCall, SessionState } from "../session-log/session-state.ts";

/**
 * The internal extension points of a turn (S9). An interceptor may refuse, add system items and change what happens next; all it adds
 * goes through the log like everything else. What is pending needs none: the fold injects it. The public surface for outside
 * programs is another thing and cannot add to the history.
 */
export interface Interceptor {
  /** For logs and errors. */
  readonly name: string;
  /** Before a human's input is accepted: items it adds are committed with the input and stand behind it. */
  onPromptSubmit?(input: PromptView): PromptDecision | Promise<PromptDecision>;
  /** Before a request is built; not for a retry of the same one. Items it adds are committed first and enter this request. */
  preLlmRequest?(state: Readonly<SessionState>): RequestDecision | Promise<RequestDecision>;
  /** Before a tool runs. A refusal becomes the call's error result. */
  preToolCall?(call: Readonly<OpenCall>): ToolDecision | Promise<ToolDecision>;
  /** After a tool ran, before its result is committed. */
  postToolCall?(call: Readonly<OpenCall>, result: LoggedToolResult): LoggedToolResult | Promise<LoggedToolResult>;
  /** When the model asks for nothing more. `continue_with` makes one more request that shows it the items. */
  onTurnEnd?(state: Readonly<SessionState>): TurnEndDecision | Promise<TurnEndDecision>;
  /** After a turn was cancelled. */
  onAbort?(state: Readonly<SessionState>): void;
}

/** What an interceptor sees of an input that is not accepted yet. */
export interface PromptView {
  readonly id: string;
  readonly segments: readonly Segment[];
}

export type PromptDecision =
  | { readonly kind: "continue" }
  | { readonly kind: "continue_with"; readonly items: readonly SystemItem[] }
  | { readonly kind: "cancel"; readonly reason: string };

export type RequestDecision =
  | { readonly kind: "continue" }
  | { readonly kind: "continue_with"; readonly items: readonly SystemItem[] }
  /** Ends the turn as failed. */
  | { readonly kind: "cancel"; readonly error: TurnError };

export type ToolDecision = { readonly kind: "continue" } | { readonly kind: "refuse"; readonly reason: string };

export type TurnEndDecision =
  | { readonly kind: "finish" }
  | { readonly kind: "continue_with"; readonly items: readonly SystemItem[] };

/** The limit on requests of one turn (`limits.requests_per_turn`): a model that never stops asking is stopped. */
export const requestBudget: Interceptor = {
  name: "request-budget",
  preLlmRequest(state) {
    const limit = state.config.limits.requests_per_turn;
    if ((state.turn?.requests ?? 0) < limit) return { kind: "continue" };
    const message = `the turn made ${limit} requests, its limit (limits.requests_per_turn); resume it to go on`;
    return { kind: "cancel", error: { code: "request_limit", message } };
  },
};
