import * as z from "zod";
import { isJsonObject } from "../base/json.ts";
import { Chain } from "../protocol/chain.ts";
import { StopReason, TurnError } from "../protocol/event.ts";
import { SessionConfig } from "../protocol/session-config.ts";
import { TurnOutcome, TurnTrigger, Usage } from "../protocol/status.ts";
import { SystemItem } from "../protocol/system-item.ts";
import { Carried } from "./carried.ts";
import { LoggedAnswerItem, LoggedItem, LoggedToolResult } from "./logged-item.ts";
import { UserInput } from "./user-input.ts";

/** Version of the log format; raised when an older program could no longer read it. */
export const LOG_FORMAT = 1;

const ToolDefinition = z.object({ name: z.string(), description: z.string(), inputSchema: z.record(z.string(), z.json()) });

const Digest = z.string().regex(/^[0-9a-f]{64}$/);

/** Everything that is ever appended to a session log (docs/session-log.md lists each with its meaning). */
const entries = [
  /**
   * First entry of a file. In the first file: everything a request depends on, frozen for the session. In a later one also `carried`,
   * which makes it everything needed to go on, and `continues`, the place it follows; applied to the live state it changes nothing.
   */
  z
    .object({
      type: z.literal("session_started"),
      format: z.literal(LOG_FORMAT),
      session: z.string(),
      pod: z.string(),
      cwd: z.string(),
      version: z.string(),
      config: SessionConfig,
      system: z.string(),
      tools: z.array(ToolDefinition),
      history: z.array(LoggedItem),
      continues: z.object({ seq: z.int().min(1), hash: Digest }).optional(),
      carried: Carried.optional(),
    })
    .refine((entry) => (entry.continues === undefined) === (entry.carried === undefined), {
      error: "an entry that continues a file carries the state, and no other does",
    }),
  z.object({ type: z.literal("turn_started"), turn: z.int().min(1), trigger: TurnTrigger, chain: Chain }),
  z.object({ type: z.literal("turn_paused"), turn: z.int().min(1) }),
  z.object({ type: z.literal("turn_resumed"), turn: z.int().min(1) }),
  z.object({ type: z.literal("turn_ended"), turn: z.int().min(1), outcome: TurnOutcome, error: TurnError.optional() }),
  UserInput,
  /** Injections (S2), pending until an `llm_request` takes them. `answers` remembers what a `notify` with an id was told. */
  z.object({
    type: z.literal("system_items"),
    items: z.array(SystemItem).min(1),
    answers: z.object({ id: z.string(), state: z.enum(["woke", "next_request", "pending"]) }).optional(),
  }),
  /** A request is about to be sent: built from the entries up to `through`, moving `takes` to the end of the history. */
  z.object({
    type: z.literal("llm_request"),
    n: z.int().min(1),
    turn: z.int().min(1),
    purpose: z.literal("turn"),
    through: z.int().min(1),
    takes: z.array(z.string()),
    model: z.string(),
    adapter: z.string(),
    attempt: z.int().min(1),
    /** SHA-256 over the provider-neutral prompt, chained item by item. */
    prompt_digest: Digest,
    /** SHA-256 over the body as sent. */
    body_digest: Digest,
    bytes: z.int().min(0),
  }),
  z.object({ type: z.literal("assistant_items"), items: z.array(LoggedAnswerItem), usage: Usage, stop: StopReason }),
  z.object({ type: z.literal("tool_started"), call_id: z.string() }),
  z.object({ type: z.literal("tool_results"), items: z.array(LoggedToolResult).min(1) }),
  z.object({
    type: z.literal("config_changed"),
    changes: SessionConfig.pick({ model: true, reasoning: true, adjustments: true }).partial(),
  }),
  z.object({ type: z.literal("closed"), reason: z.string() }),
] as const;

/** An entry before it has its place. */
export const NewEntry = z.discriminatedUnion("type", entries);
export type NewEntry = z.infer<typeof NewEntry>;
export type EntryType = NewEntry["type"];
export type EntryOf<T extends EntryType> = Extract<NewEntry, { type: T }>;

/**
 * The former tag of `system_items` (S10): read as items of kind `legacy`, never written. Its items stood in the context at once, so
 * they join the history where they stand.
 */
export interface LegacyEntry {
  readonly type: "hook_injected_items";
  readonly items: readonly SystemItem[];
}

/** What fills a line besides the chain. */
export type EntryBody = NewEntry | LegacyEntry;

/** An entry in its place: `seq` orders everything, `ts` (Unix ms) orders nothing. */
export type LogEntry = EntryBody & { readonly seq: number; readonly ts: number };

const Place = z.looseObject({ seq: z.int().min(1), ts: z.number() });

/** Outcome of reading an entry: `problem` says what is wrong with it. */
export type ReadEntry = { readonly ok: true; readonly entry: LogEntry } | { readonly ok: false; readonly problem: string };

/** Validates the parsed JSON of a line. Unknown entry types are a problem, not something to skip: they may hold context. */
export function readEntry(value: unknown): ReadEntry {
  const place = Place.safeParse(value);
  if (!place.success) return { ok: false, problem: z.prettifyError(place.error).replaceAll("\n", " ") };
  const { seq, ts } = place.data;
  if (place.data["type"] === "hook_injected_items") {
    return { ok: true, entry: { seq, ts, type: "hook_injected_items", items: readLegacyItems(seq, place.data["items"]) } };
  }
  const body = NewEntry.safeParse(value);
  if (!body.success) return { ok: false, problem: z.prettifyError(body.error).replaceAll("\n", " ") };
  return { ok: true, entry: { seq, ts, ...body.data } };
}

function readLegacyItems(seq: number, items: unknown): SystemItem[] {
  if (!Array.isArray(items)) return [];
  return items.map((item: unknown, index): SystemItem => {
    const text = textOf(item);
    const id = `legacy_${seq}_${index}`;
    return {
      kind: "legacy",
      payload: { text },
      id,
      body: text,
      origin: { by: "process" },
      trust: "external",
      wake: false,
      chain: { id, hops: 0 },
    };
  });
}

/** All text in an item of unknown shape, so that nothing it told the model is lost. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(textOf).filter(Boolean).join("\n");
  if (!isJsonObject(value)) return "";
  if (typeof value["text"] === "string") return value["text"];
  return textOf(value["content"] ?? value["body"] ?? value["message"] ?? "");
}
