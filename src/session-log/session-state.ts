import { hash } from "node:crypto";
import type { Item } from "../llm/item.ts";
import type { Chain } from "../protocol/chain.ts";
import { WAKE_BUCKET_SIZE } from "../protocol/limits.ts";
import type { SessionConfig } from "../protocol/session-config.ts";
import { NO_USAGE, type TurnOutcome, type TurnTrigger, type Usage } from "../protocol/status.ts";
import type { SystemItem } from "../protocol/system-item.ts";
import type { EntryOf } from "./entry.ts";
import type { LoggedItem, LoggedToolResult } from "./logged-item.ts";
import type { UserInput } from "./user-input.ts";

/** An accepted input or injection that no request has taken yet. */
export type Pending =
  | {
      readonly kind: "input";
      readonly id: string;
      readonly seq: number;
      readonly ts: number;
      readonly bytes: number;
      readonly input: UserInput;
    }
  | {
      readonly kind: "item";
      readonly id: string;
      readonly seq: number;
      readonly ts: number;
      /** Its place among the items of its entry. */
      readonly index: number;
      readonly bytes: number;
      readonly item: SystemItem;
    };

/** A batch of tool calls that does not have all its results yet. */
export interface OpenBatch {
  /** In the order the model asked. */
  readonly calls: Map<string, OpenCall>;
  /** Former-style injections that arrived meanwhile; they stand behind the results. */
  readonly after: LoggedItem[];
}

export interface OpenCall {
  readonly callId: string;
  readonly name: string;
  readonly arguments: string;
  started: boolean;
  result: LoggedToolResult | undefined;
}

export interface OpenTurn {
  readonly turn: number;
  trigger: TurnTrigger;
  readonly chain: Chain;
  phase: "running" | "paused";
  /** Requests sent in it, retries included. */
  requests: number;
  /** True once the model's newest answer asks for nothing more: the turn is over as soon as it goes on. */
  finished: boolean;
}

/** What a retried `run` or `notify` is told again. */
export type Answered =
  | {
      readonly kind: "run";
      readonly result: { readonly turn: number; readonly seq: number } | { readonly queued: true; readonly seq: number };
    }
  | {
      readonly kind: "notify";
      readonly result: { readonly item: string; readonly seq: number; readonly state: "woke" | "next_request" | "pending" };
    };

/**
 * Everything a session is, derived from its log by `applyEntry` and by nothing else (I4). Live and restored state are equal because
 * both come out of the same function; nobody else writes to it.
 */
export interface SessionState {
  session: string;
  pod: string;
  cwd: string;
  config: SessionConfig;
  system: string;
  tools: EntryOf<"session_started">["tools"];
  /** `seq` of the newest entry. */
  lastSeq: number;
  /** What the model was shown and answered, in order; grows at its end only (I11). `items[i]` is `history[i]` for the worker. */
  readonly history: LoggedItem[];
  readonly items: Item[];
  /** Digest over system, tools and history, chained item by item. */
  promptDigest: string;
  /** By id, in order of `seq`. */
  readonly pending: Map<string, Pending>;
  /** `seq` of the last `turn_started`: inputs that wait for a turn are eligible when they stand before it. */
  lastTurnStartSeq: number;
  /** Ids of waking items: `pending`, or `taken` by a request that has no answer yet (N6). */
  readonly owed: Map<string, "pending" | "taken">;
  /** Ids of owed items that the newest turn took: what its cancel settles. */
  readonly takenInTurn: Set<string>;
  turn: OpenTurn | undefined;
  batch: OpenBatch | undefined;
  /** True between an `llm_request` and its answer. */
  requestOpen: boolean;
  turns: number;
  requests: number;
  answers: number;
  lastOutcome: TurnOutcome | undefined;
  /** Failed turns in a row, and when and how the last one failed (N6: how long to wait). */
  failures: number;
  lastFailure: { readonly ts: number; readonly retryAfterMs: number | undefined } | undefined;
  /** Automatic turns left (N11) as of `ts`. */
  bucket: { readonly tokens: number; readonly ts: number };
  /** By `submission` or `notify.id`, oldest first, bounded. */
  readonly answered: Map<string, Answered>;
  /** The id of every call in the history, open ones included: a provider may repeat one, and each call needs a result of its own. */
  readonly callIds: Set<string>;
  usage: Usage;
  /** Usage of the newest answer: the size of the context. */
  lastUsage: Usage;
  /** Reason of a `closed` that is the newest entry. */
  closed: string | undefined;
}

/** The state of a log without entries; the first `session_started` fills it. */
export function emptyState(): SessionState {
  return {
    session: "",
    pod: "",
    cwd: "",
    config: {
      model: "none",
      reasoning: "default",
      scope: { allow: [], deny: [] },
      limits: {
        requests_per_turn: 1,
        attempts_per_request: 1,
        parallel_tool_calls: 1,
        bash_timeout_s: 1,
        stream_idle_s: 1,
        tool_output_chars: 1000,
        retry_base_ms: 1,
      },
      prompts: { notification: "{source}{message}" },
    },
    system: "",
    tools: [],
    lastSeq: 0,
    history: [],
    items: [],
    promptDigest: "",
    pending: new Map(),
    lastTurnStartSeq: 0,
    owed: new Map(),
    takenInTurn: new Set(),
    turn: undefined,
    batch: undefined,
    requestOpen: false,
    turns: 0,
    requests: 0,
    answers: 0,
    lastOutcome: undefined,
    failures: 0,
    lastFailure: undefined,
    bucket: { tokens: WAKE_BUCKET_SIZE, ts: 0 },
    answered: new Map(),
    callIds: new Set(),
    usage: NO_USAGE,
    lastUsage: NO_USAGE,
    closed: undefined,
  };
}

/** Digest of a prompt's fixed part: what every chain of item digests begins with. */
export function digestOfPrefix(system: string, tools: unknown): string {
  return hash("sha256", JSON.stringify([system, tools]), "hex");
}

/** Digest of a prompt that has one item more: costs what the item costs, not what the history costs. */
export function extendDigest(digest: string, item: LoggedItem): string {
  return hash("sha256", `${digest}\n${JSON.stringify(item)}`, "hex");
}
