import type { StopReason } from "../protocol/event.ts";
import type { Adjustments, ReasoningEffort } from "../protocol/session-config.ts";
import type { Usage } from "../protocol/status.ts";
import type { AnswerItem, Item } from "./item.ts";

/** A tool as the model sees it. `inputSchema` is JSON Schema of an object. */
export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

/**
 * Everything a model is shown, provider-neutral. `items` only ever grows at its end between compactions, rewinds and model switches
 * (I11), and may be the same growing array from request to request: an adapter may keep what it lowered before.
 */
export interface Prompt {
  readonly system: string;
  readonly tools: readonly ToolDefinition[];
  readonly items: readonly Item[];
}

export interface RequestSettings {
  readonly reasoning: ReasoningEffort;
  /** Tokens; absent = the capability table's value, or the server's own where the provider needs none. */
  readonly maxOutputTokens?: number;
  /** What the session learned about its provider. */
  readonly adjustments?: Adjustments;
}

export interface ModelRequest {
  readonly prompt: Prompt;
  readonly settings: RequestSettings;
  readonly signal: AbortSignal;
  /** Requests of this session that were answered before this one, and which attempt this is (1 = first). Only the scripted model looks. */
  readonly position: { readonly answered: number; readonly attempt: number };
  /** Longest silence of the provider, before and between events, milliseconds. Pings do not count as a sign of life. */
  readonly idleTimeoutMs: number;
  /**
   * The gate every request passes (I1): called exactly once with the exact bytes of the body before anything is sent; the request
   * leaves only after the promise resolved. What it throws ends the stream by being thrown from it: it is not a model failure.
   */
  readonly beforeSend: (body: Uint8Array) => Promise<void>;
}

/**
 * Why a request failed.
 * - `overloaded` `rate_limited` `server_error` `connection` `stream_cut` `timeout`: passing troubles, `retryable`.
 * - `authentication` `not_found` `invalid_request` `too_large` `context_too_long` `quota`: the same request fails again.
 * - `empty_answer`: the provider said nothing and gave no reason. `refused`: it gave one (safety, refusal).
 * - `unsupported`: our adapter cannot express the request. `script`: the script says so or is at its end.
 * - `cancelled`: the signal aborted.
 */
export type ModelFailureCode =
  | "overloaded"
  | "rate_limited"
  | "server_error"
  | "connection"
  | "stream_cut"
  | "timeout"
  | "authentication"
  | "not_found"
  | "invalid_request"
  | "too_large"
  | "context_too_long"
  | "quota"
  | "empty_answer"
  | "refused"
  | "unsupported"
  | "script"
  | "cancelled";

export interface ModelFailure {
  readonly code: ModelFailureCode;
  /** What failed, with the server's own words where it had some. */
  readonly message: string;
  readonly retryable: boolean;
  /** What the server asked us to wait, milliseconds. */
  readonly retryAfterMs?: number;
  readonly status?: number;
  /** The provider (as metadata of items names it) refused what it encrypted or signed itself: without that the request can succeed (B50). */
  readonly refusedProofsOf?: string;
}

/** A streamed answer. Deltas are for people and may be withdrawn; `item`s are complete and in order. */
export type ModelEvent =
  | { readonly type: "text_delta"; readonly text: string }
  | { readonly type: "thinking_delta"; readonly text: string }
  | { readonly type: "tool_call_delta"; readonly callId: string; readonly name: string; readonly arguments: string }
  | { readonly type: "item"; readonly item: AnswerItem }
  | { readonly type: "finish"; readonly stop: StopReason; readonly usage: Usage }
  | { readonly type: "failure"; readonly failure: ModelFailure };

/** What a model can do; the log never depends on it (stack.md). */
export interface Capabilities {
  /** Operator items go in place as role system/developer. */
  readonly systemInPlace: boolean;
  /** Tokens. */
  readonly contextWindow: number;
  readonly maxOutputTokens: number;
  readonly reasoning: boolean;
}

/**
 * The port to a model. Contract of `stream`: it never throws for anything the provider does; it ends with exactly one `finish` or
 * `failure` event, also when aborted (`cancelled`), and yields nothing after it. It never retries: the turn loop owns that.
 */
export interface Model {
  /** `<provider>/<model>` or `script:<file>`, as in the configuration. */
  readonly ref: string;
  /** Name and version of what turns prompts into bodies, such as `@ai-sdk/anthropic@4.0.105`; `audit` compares it. */
  readonly adapter: string;
  readonly capabilities: Capabilities;
  stream(request: ModelRequest): AsyncIterable<ModelEvent>;
  /** The body `stream` would send for this prompt, without sending anything: `audit` proves requests with it. */
  renderBody(prompt: Prompt, settings: RequestSettings): Promise<Uint8Array>;
}
