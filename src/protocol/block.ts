import type { Chain, Origin } from "./chain.ts";
import type { Cursor } from "./cursor.ts";
import type { TurnError } from "./event.ts";
import type { Segment } from "./segment.ts";
import type { TurnOutcome, TurnTrigger } from "./status.ts";
import type { SystemItem, UnknownSystemItem } from "./system-item.ts";

/** What a client draws, one thing a block, in the order of the log. `place` is unique in a session: a stable key. */
interface Placed {
  readonly place: Cursor;
  /** Time of the entry, Unix milliseconds; it orders nothing. */
  readonly ts: number;
}

export interface SessionStartBlock extends Placed {
  readonly kind: "session_start";
  readonly session: string;
  readonly pod: string;
  readonly model: string;
  readonly cwd: string;
}

export interface TurnStartBlock extends Placed {
  readonly kind: "turn_start";
  readonly turn: number;
  readonly trigger: TurnTrigger;
  readonly chain: Chain;
}

export interface TurnPauseBlock extends Placed {
  readonly kind: "turn_pause" | "turn_resume";
  readonly turn: number;
}

export interface TurnEndBlock extends Placed {
  readonly kind: "turn_end";
  readonly turn: number;
  readonly outcome: TurnOutcome;
  readonly error: TurnError | undefined;
}

export interface UserMessageBlock extends Placed {
  readonly kind: "user_message";
  readonly id: string;
  readonly segments: readonly Segment[];
  readonly waitsFor: "request" | "turn";
  readonly origin: Origin;
  readonly submission: string | undefined;
  /** True until a request took it in. */
  readonly pending: boolean;
}

/** Drawn by `item.kind`; a kind this client does not know is drawn by its `body` (S3, S7). */
export interface SystemItemBlock extends Placed {
  readonly kind: "system_item";
  readonly item: SystemItem | UnknownSystemItem;
  /** True until a request took it in (N13). */
  readonly pending: boolean;
}

export interface AssistantBlock extends Placed {
  readonly kind: "assistant_text" | "reasoning";
  readonly text: string;
}

export interface ToolCallBlock extends Placed {
  readonly kind: "tool_call";
  readonly callId: string;
  /** The call itself, or undefined where the view begins behind it. */
  readonly call: { readonly name: string; readonly arguments: string } | undefined;
  readonly started: boolean;
  /** Undefined while it has none. */
  readonly result: { readonly summary: string; readonly content: string | undefined; readonly isError: boolean } | undefined;
}

export interface ConfigChangeBlock extends Placed {
  readonly kind: "config_change";
  readonly changes: Readonly<Record<string, unknown>>;
}

export interface ClosedBlock extends Placed {
  readonly kind: "closed";
  readonly reason: string;
}

/** A committed event of a type this client does not know. */
export interface NoticeBlock extends Placed {
  readonly kind: "notice";
  readonly type: string;
}

export type Block =
  | SessionStartBlock
  | TurnStartBlock
  | TurnPauseBlock
  | TurnEndBlock
  | UserMessageBlock
  | SystemItemBlock
  | AssistantBlock
  | ToolCallBlock
  | ConfigChangeBlock
  | ClosedBlock
  | NoticeBlock;
