import { fdatasync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeToolInput } from "../../test/support/fake-tool-input.ts";
import { abortReason, type Clock } from "../base/clock.ts";
import type { AnswerItem, Item } from "../llm/item.ts";
import type { Model, ModelEvent, ModelFailure, ModelRequest, Prompt } from "../llm/model.ts";
import type { Chain } from "../protocol/chain.ts";
import type { LiveEvent, StopReason } from "../protocol/event.ts";
import type { Limits } from "../protocol/session-config.ts";
import { type LogEntry, type NewEntry, readEntry } from "../session-log/entry.ts";
import { applyEntry, checkEntry } from "../session-log/fold.ts";
import { LogDisk } from "../session-log/log-disk.ts";
import { LogFile } from "../session-log/log-file.ts";
import { emptyState, type SessionState } from "../session-log/session-state.ts";
import { createScopeGuard } from "../tools/scope-guard.ts";
import type { Tool, ToolContext, ToolOutput } from "../tools/tool.ts";
import type { Interceptor } from "./interceptor.ts";
import { makeSystemItem } from "./system-item-body.ts";
import { type TurnEnd, TurnLoop } from "./turn-loop.ts";
import type { TurnPort } from "./turn-port.ts";

/** For tests: a turn loop over a real log in a temporary folder, with a model, tools and a clock that the test plays. */

export const CHAIN: Chain = { id: "chain_1", hops: 0 };
const USAGE = { input: 10, output: 5, cache_read: 0, cache_write: 0 };

/** What a model does with one request; `beforeSend` has been passed. `n` counts requests from 1. */
export type Play = (request: ModelRequest, n: number) => AsyncIterable<ModelEvent> | Iterable<ModelEvent>;

/** A model that answers each request as the test says; the last play stays for all further ones. */
export class FakeModel implements Model {
  readonly ref = "fake/model";
  readonly adapter = "fake@1";
  readonly capabilities = { systemInPlace: false, contextWindow: 4000, maxOutputTokens: 1000, reasoning: true };
  /** What each request showed, copied at the moment it was called with. */
  readonly prompts: Prompt[] = [];
  readonly attempts: number[] = [];
  #plays: readonly Play[];
  /** Runs between the call and `beforeSend`: the adapters await there. */
  beforeGate: (n: number) => Promise<void> = async () => {};

  constructor(...plays: readonly Play[]) {
    this.#plays = plays;
  }

  /** Changes what it plays from here on. */
  set plays(plays: readonly Play[]) {
    this.#plays = [...this.prompts.map((): Play => () => []), ...plays];
  }

  async *stream(request: ModelRequest): AsyncGenerator<ModelEvent> {
    const n = this.prompts.push({ ...request.prompt, items: [...request.prompt.items] });
    this.attempts.push(request.position.attempt);
    await this.beforeGate(n);
    await request.beforeSend(new TextEncoder().encode(JSON.stringify(this.prompts[n - 1])));
    const play = this.#plays[n - 1] ?? this.#plays.at(-1);
    if (play === undefined) throw new Error("the test plays nothing");
    yield* play(request, n);
  }

  async renderBody(prompt: Prompt): Promise<Uint8Array> {
    return new TextEncoder().encode(JSON.stringify(prompt));
  }
}

export function say(text: string): Play {
  return () => answer([{ kind: "message", text }]);
}

export function calls(...wanted: readonly (readonly [id: string, name: string, input: unknown])[]): Play {
  return () =>
    answer(
      wanted.map(([callId, name, input]) => ({
        kind: "tool_call",
        callId,
        name,
        arguments: typeof input === "string" ? input : JSON.stringify(input),
      })),
    );
}

export function* answer(items: readonly AnswerItem[], stop: StopReason = "end"): Generator<ModelEvent> {
  for (const item of items) {
    if (item.kind === "message") yield { type: "text_delta", text: item.text };
    yield { type: "item", item };
  }
  yield { type: "finish", stop, usage: USAGE };
}

export function fails(failure: Partial<ModelFailure> & Pick<ModelFailure, "code" | "retryable">, text?: string): Play {
  return function* () {
    if (text !== undefined) yield { type: "text_delta", text };
    yield { type: "failure", failure: { message: `it was ${failure.code}`, ...failure } };
  };
}

/** Streams `text`, then stays silent until the turn is cancelled. */
export function hangs(text: string, reached: () => void): Play {
  return async function* (request) {
    if (text !== "") yield { type: "text_delta", text };
    reached();
    await new Promise<void>((resolve) => {
      if (request.signal.aborted) resolve();
      request.signal.addEventListener("abort", () => resolve(), { once: true });
    });
    yield { type: "failure", failure: { code: "cancelled", message: "cancelled", retryable: false } };
  };
}

/** A tool that does what the test says with its input. */
export function fakeTool(
  name: string,
  run: (input: { readonly x: string }, context: ToolContext) => Promise<ToolOutput> | ToolOutput,
  effect: Tool["effect"] = "read",
): Tool {
  return {
    name,
    description: name,
    input: FakeToolInput,
    effect,
    run: async (given, context) => run(FakeToolInput.parse(given), context),
  };
}

/** A clock that the test moves. Sleeps end at once unless `holds` is set; all are recorded. */
export class FakeClock implements Clock {
  now = 1_790_000_000_000;
  readonly sleeps: number[] = [];
  holds = false;
  onSleep: (ms: number) => void = () => {};

  nowMs(): number {
    return this.now;
  }

  sleep(ms: number, options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const { signal } = options;
    if (signal?.aborted) return Promise.reject(abortReason(signal));
    this.sleeps.push(ms);
    return new Promise((resolve, reject) => {
      signal?.addEventListener("abort", () => reject(abortReason(signal)), { once: true });
      this.onSleep(ms);
      if (this.holds) return;
      this.now += ms;
      resolve();
    });
  }
}

/** A disk whose next sync waits until the test lets it go. */
export class SlowDisk extends LogDisk {
  readonly #held: (() => void)[] = [];
  holdsSync = false;

  override sync(descriptor: number, done: (error: Error | null) => void): void {
    if (this.holdsSync) this.#held.push(() => fdatasync(descriptor, done));
    else fdatasync(descriptor, done);
  }
  get waiting(): number {
    return this.#held.length;
  }
  release(): void {
    this.holdsSync = false;
    for (const go of this.#held.splice(0)) go();
  }
}

export interface BenchOptions {
  readonly model: FakeModel;
  readonly tools?: readonly Tool[];
  readonly interceptors?: readonly Interceptor[];
  readonly limits?: Partial<Limits>;
  readonly disk?: LogDisk;
  readonly random?: () => number;
}

/** The loop on its bench. */
export class TurnBench implements Disposable {
  readonly state: SessionState = emptyState();
  readonly log: LogFile;
  readonly clock = new FakeClock();
  readonly live: LiveEvent[] = [];
  readonly model: FakeModel;
  readonly port: TurnPort;
  readonly cancel = new AbortController();
  readonly pause = new AbortController();
  readonly #directory: string;
  readonly #loop: TurnLoop;
  /** Told of every committed entry, after it was applied. */
  onCommit: (entry: LogEntry) => void = () => {};

  constructor(options: BenchOptions) {
    this.#directory = mkdtempSync(join(tmpdir(), "wakeful-turn-"));
    this.log = LogFile.create(join(this.#directory, "session"), options.disk);
    this.model = options.model;
    this.commit(started(options.limits ?? {}));
    this.port = {
      state: this.state,
      commit: (entries) => this.commit(...entries),
      synced: () => this.log.sync(),
      publishLive: (event) => void this.live.push(event),
      model: async () => options.model,
      tools: options.tools ?? [],
      toolContext: (call) => ({ ...call, ...TOOL_SURROUNDINGS }),
      interceptors: options.interceptors ?? [],
      clock: this.clock,
      random: options.random ?? (() => 0.5),
    };
    this.#loop = new TurnLoop(this.port);
  }

  commit(...entries: NewEntry[]): readonly LogEntry[] {
    const [first] = entries;
    if (first !== undefined) {
      const objection = checkEntry(this.state, { ...first, seq: this.log.head.seq + 1, ts: 0 });
      if (objection !== undefined) throw new Error(`${first.type} is illegal here: ${objection}`);
    }
    const placed = this.log.append(entries, this.clock.now);
    for (const entry of placed) {
      applyEntry(this.state, entry);
      this.onCommit(entry);
    }
    return placed;
  }

  /** Commits a human's input. */
  input(text: string, waitsFor: "request" | "turn" = "turn"): string {
    const id = `input_${this.log.head.seq + 1}`;
    const segments = [{ kind: "text" as const, text }];
    this.commit({ type: "user_input", id, segments, waits_for: waitsFor, origin: { by: "client" }, chain: CHAIN });
    return id;
  }

  /** Commits a notification. */
  notify(message: string, wake = true): string {
    const content = { kind: "notification", payload: { source: "ci", message } } as const;
    const item = makeSystemItem({ content, origin: { by: "client" }, chain: CHAIN, wake }, this.state.config.prompts);
    this.commit({ type: "system_items", items: [item] });
    return item.id;
  }

  /** Starts a turn with an input and runs it until it leaves the loop. */
  turn(text: string): Promise<TurnEnd> {
    this.input(text);
    this.commit({ type: "turn_started", turn: this.state.turns + 1, trigger: "user", chain: CHAIN });
    return this.go();
  }

  /** Runs the open turn. */
  go(signals = { cancel: this.cancel.signal, pause: this.pause.signal }): Promise<TurnEnd> {
    return this.#loop.run(signals);
  }

  /** What is in the file now. */
  entries(): LogEntry[] {
    const lines = readFileSync(this.log.file, "utf8").split("\n").filter(Boolean);
    return lines.map((line) => {
      const read = readEntry(JSON.parse(line));
      if (!read.ok) throw new Error(read.problem);
      return read.entry;
    });
  }

  /** Types of the entries, without the session's first. */
  types(): string[] {
    return this.entries()
      .slice(1)
      .map((entry) => entry.type);
  }

  /** The texts that request `n` showed, in order. */
  shown(n: number): string[] {
    return (this.model.prompts[n - 1]?.items ?? []).map(shownText);
  }

  [Symbol.dispose](): void {
    this.log[Symbol.dispose]();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** A promise and the function that fulfils it, for saying that a test got somewhere. */
export function signal(): { readonly reached: () => void; readonly promise: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { reached: () => resolve(), promise };
}

function shownText(item: Item): string {
  switch (item.kind) {
    case "user":
      return item.content.map((part) => part.text).join("|");
    case "message":
    case "reasoning":
      return item.text;
    case "tool_call":
      return `${item.name}(${item.callId})`;
    case "tool_result":
      return `${item.callId}=${item.content ?? item.summary}`;
    case "system":
      return item.item.kind === "notification" ? `!${item.item.payload.message}` : `!${item.item.body}`;
  }
}

const TOOL_SURROUNDINGS = {
  cwd: "/",
  scope: createScopeGuard({ scope: () => ({ allow: [], deny: [] }), closed: [] }),
  readFiles: { get: () => undefined, set: () => {} },
  processes: { started: () => {}, ended: () => {} },
  env: {},
  limits: { bashTimeoutS: 1, outputChars: 1000 },
};

function started(limits: Partial<Limits>): NewEntry {
  return {
    type: "session_started",
    format: 1,
    session: "s_1",
    pod: "bench",
    cwd: "/",
    version: "0",
    config: {
      model: "fake/model",
      reasoning: "default",
      scope: { allow: [], deny: [] },
      limits: {
        requests_per_turn: 100,
        attempts_per_request: 4,
        retry_base_ms: 1000,
        parallel_tool_calls: 8,
        bash_timeout_s: 1,
        stream_idle_s: 10,
        tool_output_chars: 1000,
        ...limits,
      },
      prompts: { notification: "[Notification from {source}]\n{message}" },
    },
    system: "You are a test.",
    tools: [],
    history: [],
  };
}
