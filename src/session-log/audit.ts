import { abortReason } from "../base/clock.ts";
import { sha256 } from "../base/digest.ts";
import { AppError, messageOf } from "../base/errors.ts";
import type { Item } from "../llm/item.ts";
import type { Model, RequestSettings } from "../llm/model.ts";
import type { EntryOf, LogEntry } from "./entry.ts";
import type { SessionState } from "./session-state.ts";
import { type FoldVisitor, foldLog, type VerifyOptions, type VerifyReport } from "./verify.ts";
import { walkSession } from "./walk-session.ts";

/** The first request that the log does not explain. */
export interface BadRequest {
  /** Number of the request in its session, and the place of its entry. */
  readonly n: number;
  readonly seq: number;
  /**
   * `history`: an entry between what it was built from and its own place changed the history. `takes`: it takes what was not accepted
   * when it was built, or out of order. `prompt`, `body`: the rebuilt one has another digest than the recorded one.
   */
  readonly differs: "history" | "takes" | "prompt" | "body";
  readonly message: string;
}

/** What an audit found: the one law (every request is a function of the log), checked request by request. */
export interface AuditReport {
  readonly ok: boolean;
  readonly requests: number;
  readonly first_bad?: BadRequest;
  /** Requests whose body was rebuilt and is the same. */
  readonly body_checked: number;
  /** Requests recorded by an adapter version that is not the installed one: their prompt was checked, their body cannot be. */
  readonly other_adapter: number;
  /** Requests to a model that cannot be opened here (its script is gone), and why: prompt checked, body not. */
  readonly body_unchecked: number;
  readonly unopened: readonly { readonly model: string; readonly reason: string }[];
  /** Damage of the log itself; the requests before it were audited. */
  readonly damage?: NonNullable<VerifyReport["first_bad"]>;
  readonly head: VerifyReport["head"];
  readonly head_mark_age_ms: VerifyReport["head_mark_age_ms"];
}

/** Opens the model of a reference for `renderBody` alone: nothing is sent, so a key is not needed. */
export type OpenModel = (ref: string) => Promise<Model>;

type RequestEntry = LogEntry & EntryOf<"llm_request">;

/** What must be rendered to check one request's body. */
interface BodyCheck {
  readonly entry: RequestEntry;
  /** Items of the history that its prompt shows. */
  readonly items: number;
  readonly settings: RequestSettings;
}

/**
 * Rebuilds every LLM request of the log in `directory` and compares it with what was recorded when it was sent. The prompt digest is
 * checked always, the body wherever the recorded adapter is the installed one. Throws what `verify` throws.
 */
export async function audit(directory: string, openModel: OpenModel, options: VerifyOptions = {}): Promise<AuditReport> {
  const prompts = new PromptAudit();
  const { report, state } = await foldLog(walkSession(directory), { ...options, keepHistory: true, visitor: prompts });
  const bodies = await checkBodies(state, prompts.sound, openModel, options.signal);
  const firstBad = bodies.firstBad ?? prompts.firstBad; // Bodies are checked only up to the first bad prompt, so they come first.
  return {
    ok: report.ok && firstBad === undefined,
    requests: prompts.requests,
    ...(firstBad === undefined ? {} : { first_bad: firstBad }),
    body_checked: bodies.checked,
    other_adapter: bodies.otherAdapter,
    body_unchecked: bodies.unchecked,
    unopened: bodies.unopened,
    ...(report.first_bad === undefined ? {} : { damage: report.first_bad }),
    head: report.head,
    head_mark_age_ms: report.head_mark_age_ms,
  };
}

/** Follows the fold and checks each request's prompt at its place. */
class PromptAudit implements FoldVisitor {
  requests = 0;
  firstBad: BadRequest | undefined;
  readonly sound: BodyCheck[] = [];
  /** Newest entry that changed the history, and its type. */
  #touched: { readonly seq: number; readonly type: string } = { seq: 0, type: "" };
  #digest = "";
  /** Settings from which `seq` on, oldest first. */
  readonly #settings: { readonly seq: number; readonly settings: RequestSettings }[] = [];

  before(state: Readonly<SessionState>, entry: LogEntry): void {
    if (entry.type !== "llm_request") return;
    this.requests += 1;
    if (this.firstBad === undefined) this.firstBad = this.#findWrongBasis(state, entry);
  }

  after(state: Readonly<SessionState>, entry: LogEntry): void {
    if (entry.type === "session_started" || entry.type === "config_changed") {
      const { reasoning, max_output_tokens: maxOutputTokens, adjustments } = state.config;
      const settings = {
        reasoning,
        ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
        ...(adjustments === undefined ? {} : { adjustments }),
      };
      this.#settings.push({ seq: entry.seq, settings });
    }
    if (state.promptDigest !== this.#digest) {
      this.#digest = state.promptDigest;
      this.#touched = { seq: entry.seq, type: entry.type };
    }
    if (entry.type !== "llm_request" || this.firstBad !== undefined) return;
    // The fold moved exactly `takes` to the end of the history: that is the prompt.
    if (state.promptDigest !== entry.prompt_digest) {
      this.firstBad = bad(entry, "prompt", "the prompt that the log makes is not the one that was recorded");
      return;
    }
    const settings = this.#settings.findLast((known) => known.seq <= entry.through)?.settings;
    if (settings) this.sound.push({ entry, items: state.items.length, settings });
  }

  #findWrongBasis(state: Readonly<SessionState>, entry: RequestEntry): BadRequest | undefined {
    const { seq, type } = this.#touched;
    if (entry.through >= entry.seq)
      return bad(entry, "history", `it says it was built from entry ${entry.through}, behind itself`);
    if (seq > entry.through) {
      return bad(
        entry,
        "history",
        `it was built from the entries up to ${entry.through}, but entry ${seq} (${type}) changed the history`,
      );
    }
    let last = 0;
    for (const id of entry.takes) {
      const accepted = state.pending.get(id)?.seq ?? 0;
      if (accepted > entry.through) return bad(entry, "takes", `it takes ${id}, which was accepted only after it was built`);
      if (accepted < last) return bad(entry, "takes", `it takes ${id} out of order`);
      last = accepted;
    }
    return undefined;
  }
}

interface BodyResults {
  firstBad: BadRequest | undefined;
  checked: number;
  otherAdapter: number;
  unchecked: number;
  readonly unopened: { readonly model: string; readonly reason: string }[];
}

async function checkBodies(
  state: Readonly<SessionState>,
  checks: readonly BodyCheck[],
  openModel: OpenModel,
  signal: AbortSignal | undefined,
): Promise<BodyResults> {
  const results: BodyResults = { firstBad: undefined, checked: 0, otherAdapter: 0, unchecked: 0, unopened: [] };
  const models = new Map<string, Model | undefined>();
  // One array that only grows, so that an adapter lowers each item once and not once a request.
  const items: Item[] = [];
  for (const { entry, items: shown, settings } of checks) {
    if (signal?.aborted) throw abortReason(signal);
    for (const item of state.items.slice(items.length, shown)) items.push(item);
    if (!models.has(entry.model)) models.set(entry.model, await openOrSay(entry.model, openModel, results));
    const model = models.get(entry.model);
    if (model === undefined) {
      results.unchecked += 1;
      continue;
    }
    if (model.adapter !== entry.adapter) {
      results.otherAdapter += 1;
      continue;
    }
    const problem = await compareBody(model, { system: state.system, tools: state.tools, items }, settings, entry);
    if (problem !== undefined) {
      results.firstBad = bad(entry, "body", problem);
      break;
    }
    results.checked += 1;
  }
  return results;
}

async function openOrSay(ref: string, openModel: OpenModel, results: BodyResults): Promise<Model | undefined> {
  try {
    return await openModel(ref);
  } catch (thrown) {
    if (!(thrown instanceof AppError)) throw thrown;
    results.unopened.push({ model: ref, reason: thrown.message });
    return undefined;
  }
}

async function compareBody(
  model: Model,
  prompt: Parameters<Model["renderBody"]>[0],
  settings: RequestSettings,
  entry: RequestEntry,
): Promise<string | undefined> {
  let body: Uint8Array;
  try {
    body = await model.renderBody(prompt, settings);
  } catch (thrown) {
    return `its body cannot be rebuilt: ${messageOf(thrown)}`;
  }
  if (sha256(body) === entry.body_digest && body.byteLength === entry.bytes) return undefined;
  return `its body comes out otherwise (${body.byteLength} bytes, ${entry.bytes} were sent) though adapter ${entry.adapter} is the same`;
}

function bad(entry: RequestEntry, differs: BadRequest["differs"], message: string): BadRequest {
  return { n: entry.n, seq: entry.seq, differs, message: `request ${entry.n} (entry ${entry.seq}): ${message}` };
}
