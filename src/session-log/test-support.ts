import { hash } from "node:crypto";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SystemItem } from "../protocol/system-item.ts";
import { continuationOf } from "./carried.ts";
import type { EntryOf, LogEntry, NewEntry } from "./entry.ts";
import { FIRST_FILE } from "./file-names.ts";
import { applyEntry, checkEntry } from "./fold.ts";
import { type ChainHead, EMPTY_HEAD } from "./line.ts";
import { LogFile } from "./log-file.ts";
import { type LineWalk, scanLines, walkFile } from "./log-scan.ts";
import type { LoggedAnswerItem } from "./logged-item.ts";
import { chooseTake, promptDigestWith, type Take } from "./pending.ts";
import { emptyState, type SessionState } from "./session-state.ts";
import { walkNewest, walkSession } from "./walk-session.ts";

/** For tests: a folder of its own that goes with the test. */
export interface TestSession extends Disposable {
  readonly directory: string;
  readonly file: string;
}

export function testSession(): TestSession {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "wakeful-log-")));
  return {
    directory,
    file: join(directory, FIRST_FILE),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
}

export const USAGE = { input: 3, output: 2, cache_read: 1, cache_write: 0 };
export const DIGEST = "0".repeat(64);

export const STARTED: EntryOf<"session_started"> = {
  type: "session_started",
  format: 1,
  session: "s_test",
  pod: "tester",
  cwd: "/somewhere",
  version: "0.0.0",
  config: {
    model: "script:/nowhere.yaml",
    reasoning: "default",
    scope: { allow: [], deny: [] },
    limits: {
      requests_per_turn: 10,
      attempts_per_request: 3,
      parallel_tool_calls: 4,
      bash_timeout_s: 10,
      stream_idle_s: 10,
      tool_output_chars: 10_000,
      retry_base_ms: 10,
    },
    prompts: { notification: "[Notification from {source}]\n{message}" },
  },
  system: "You are under test.",
  tools: [{ name: "Bash", description: "Runs a command", inputSchema: { type: "object", properties: {} } }],
  history: [],
};

export function notification(
  id: string,
  options: { readonly wake?: boolean; readonly text?: string; readonly for?: string } = {},
): SystemItem {
  const message = options.text ?? `message of ${id}`;
  return {
    kind: "notification",
    payload: { source: "ci", message },
    id,
    body: `[Notification from ci]\n${message}`,
    origin: { by: "client" },
    trust: "external",
    wake: options.wake ?? true,
    chain: { id: `chain_${id}`, hops: 0 },
    ...(options.for === undefined ? {} : { for: options.for }),
  };
}

export function items(...list: SystemItem[]): EntryOf<"system_items"> {
  return { type: "system_items", items: list };
}

export function input(
  id: string,
  options: { readonly waitsFor?: "request" | "turn"; readonly text?: string; readonly submission?: string } = {},
): EntryOf<"user_input"> {
  return {
    type: "user_input",
    id,
    segments: [{ kind: "text", text: options.text ?? `text of ${id}` }],
    waits_for: options.waitsFor ?? "turn",
    ...(options.submission === undefined ? {} : { submission: options.submission }),
    origin: { by: "client" },
    chain: { id: `chain_${id}`, hops: 0 },
  };
}

export function turnStarted(turn: number, trigger: "user" | "notification" | "resume" = "user"): EntryOf<"turn_started"> {
  return { type: "turn_started", turn, trigger, chain: { id: "chain_turn", hops: 0 } };
}

export function turnEnded(turn: number, outcome: EntryOf<"turn_ended">["outcome"] = "completed"): EntryOf<"turn_ended"> {
  return { type: "turn_ended", turn, outcome };
}

export function answer(...list: LoggedAnswerItem[]): EntryOf<"assistant_items"> {
  const stop = list.some((item) => item.kind === "tool_call") ? "tool_calls" : "end";
  return { type: "assistant_items", items: list, usage: USAGE, stop };
}

export function says(text: string): LoggedAnswerItem {
  return { kind: "message", role: "assistant", content: [{ kind: "text", text }] };
}

export function call(callId: string): LoggedAnswerItem {
  return { kind: "tool_call", call_id: callId, name: "Bash", arguments: '{"command":"true"}' };
}

export function result(callId: string): EntryOf<"tool_results"> {
  return {
    type: "tool_results",
    items: [
      { kind: "tool_result", call_id: callId, name: "Bash", summary: "done", content: `output of ${callId}`, is_error: false },
    ],
  };
}

/** A request as the turn loop records it, for what `state` was at `through`. */
export function request(
  state: SessionState,
  options: { readonly take?: Take; readonly through?: number } = {},
): EntryOf<"llm_request"> {
  const take = options.take ?? chooseTake(state, 1_000_000);
  return {
    type: "llm_request",
    n: state.requests + 1,
    turn: state.turn?.turn ?? 1,
    purpose: "turn",
    through: options.through ?? state.lastSeq,
    takes: [...take.ids],
    model: state.config.model,
    adapter: "test@1",
    attempt: 1,
    prompt_digest: promptDigestWith(state, take),
    body_digest: DIGEST,
    bytes: 0,
  };
}

/** A session that only lives in memory: entries go through the same door as in a Pod, minus the disk. */
export class MemorySession {
  readonly state = emptyState();
  readonly entries: LogEntry[] = [];

  commit(entry: NewEntry, ts = 1000 + this.entries.length): this {
    const placed: LogEntry = { seq: this.state.lastSeq + 1, ts, ...structuredClone(entry) };
    const objection = checkEntry(this.state, placed);
    if (objection !== undefined) throw new Error(`${entry.type} is illegal: ${objection}`);
    applyEntry(this.state, placed);
    this.entries.push(placed);
    return this;
  }

  request(): this {
    return this.commit(request(this.state));
  }
}

/** A log on disk with its live state, as a Pod has them. */
export class DiskSession implements Disposable {
  readonly state: SessionState;
  readonly log: LogFile;

  constructor(directory: string) {
    this.state = emptyState();
    this.log = LogFile.create(directory);
    this.commit(STARTED);
  }

  commit(...entries: NewEntry[]): this {
    for (const entry of this.log.append(entries, 1_000_000 + this.state.lastSeq)) {
      const objection = checkEntry(this.state, entry);
      if (objection !== undefined) throw new Error(`${entry.type} is illegal: ${objection}`);
      applyEntry(this.state, entry);
    }
    return this;
  }

  /** Begins a new file here, as a Pod does when the file is long enough. */
  rotate(): this {
    applyEntry(this.state, this.log.rotate(continuationOf(this.state, this.log.head), 1_000_000 + this.state.lastSeq));
    return this;
  }

  /** One whole turn with a tool call: nine entries. */
  turn(): this {
    const { state } = this;
    const turn = state.turns + 1;
    this.commit(input(`input_${turn}`), turnStarted(turn));
    this.commit(request(state));
    this.commit(
      answer(says(`turn ${turn}`), call(`call_${turn}`)),
      { type: "tool_started", call_id: `call_${turn}` },
      result(`call_${turn}`),
    );
    this.commit(request(state));
    return this.commit(answer(says("done")), turnEnded(turn));
  }

  [Symbol.dispose](): void {
    this.log[Symbol.dispose]();
  }
}

/** Makes a session of any legal shape: `choose(n)` is asked for each decision. */
export class RandomSession {
  readonly accepted = new Set<string>();
  #ids = 0;
  /** A request that was built and not recorded yet, as while an adapter waits. */
  #built: { readonly take: Take; readonly through: number } | undefined;

  next(state: SessionState, choose: (options: number) => number): NewEntry[] {
    const built = this.#built;
    if (built) {
      // Between building and recording only what does not touch the history can come.
      if (choose(2) === 0) return [this.#outside(state, choose)];
      this.#built = undefined;
      return [request(state, built)];
    }
    return choose(4) > 0 ? this.#inside(state, choose) : [this.#outside(state, choose)];
  }

  #outside(state: SessionState, choose: (options: number) => number): NewEntry {
    switch (choose(5)) {
      case 0:
        return input(this.#id("input"), {
          waitsFor: choose(2) === 0 ? "turn" : "request",
          ...(choose(2) === 0 ? {} : { submission: this.#id("sub", false) }),
        });
      case 1: {
        const list = Array.from({ length: 1 + choose(3) }, () => {
          const owner = [...state.pending.values()].find((pending) => pending.kind === "input");
          return notification(this.#id("item"), {
            wake: choose(2) === 0,
            ...(owner && choose(2) === 0 ? { for: owner.id } : {}),
          });
        });
        return {
          ...items(...list),
          ...(choose(2) === 0 ? { answers: { id: this.#id("notify", false), state: "pending" } } : {}),
        };
      }
      case 2:
        return { type: "config_changed", changes: choose(2) === 0 ? { reasoning: "high" } : { model: "script:/other.yaml" } };
      default:
        return items(notification(this.#id("item"), { wake: choose(2) === 0 }));
    }
  }

  #inside(state: SessionState, choose: (options: number) => number): NewEntry[] {
    const { turn, batch } = state;
    if (!turn)
      return choose(8) === 0
        ? [{ type: "closed", reason: "stopped" }]
        : [turnStarted(state.turns + 1, choose(2) === 0 ? "user" : "notification")];
    const open = [...(batch?.calls.values() ?? [])].filter((one) => !one.result);
    if (choose(12) === 0) return this.#crash(state);
    if (turn.phase === "paused") {
      if (choose(3) > 0) return [{ type: "turn_resumed", turn: turn.turn }];
      return [...open.map((one) => result(one.callId)), turnEnded(turn.turn, "abandoned")];
    }
    if (choose(10) === 0) return [{ type: "turn_paused", turn: turn.turn }];
    const one = open[choose(Math.max(1, open.length))];
    if (one) return one.started || choose(3) === 0 ? [result(one.callId)] : [{ type: "tool_started", call_id: one.callId }];
    if (state.requestOpen) {
      // Another attempt, or the answer.
      if (choose(4) === 0) return this.#request(state, choose);
      const calls = Array.from({ length: choose(4) }, () => call(this.#id("call", false)));
      return [answer(...(choose(2) === 0 ? [says("some words")] : []), ...calls)];
    }
    if (turn.finished) return [turnEnded(turn.turn)];
    if (choose(8) === 0) return [turnEnded(turn.turn, choose(2) === 0 ? "failed" : "cancelled")];
    return this.#request(state, choose);
  }

  #request(state: SessionState, choose: (options: number) => number): NewEntry[] {
    const take = chooseTake(state, choose(2) === 0 ? 60 : 1_000_000);
    this.#built = { take, through: state.lastSeq };
    return this.next(state, choose);
  }

  /** What a restore commits (docs/session-log.md, Restore). */
  #crash(state: SessionState): NewEntry[] {
    const turn = state.turn?.turn ?? 0;
    const open = [...(state.batch?.calls.values() ?? [])].filter((one) => !one.result);
    return [
      ...open.map((one) => result(one.callId)),
      turnEnded(turn, "interrupted"),
      items(notification(this.#id("item"), { wake: false })),
    ];
  }

  #id(prefix: string, isItem = true): string {
    this.#ids += 1;
    const id = `${prefix}_${this.#ids}`;
    if (isItem) this.accepted.add(id);
    return id;
  }
}

/** The fold of a session's first file. */
export function replay(file: string): SessionState {
  return replayLines(walkFile(file));
}

/** The fold of a session, as a restore makes it: from its newest file alone. */
export function replayNewest(directory: string): SessionState {
  return replayLines(walkNewest(directory));
}

/** The fold of all files of a session. */
export function replayAll(directory: string): SessionState {
  return replayLines(walkSession(directory));
}

function replayLines(lines: LineWalk): SessionState {
  const state = emptyState();
  const end = scanLines(lines, ({ entry }) => {
    const objection = checkEntry(state, entry);
    if (objection === undefined) applyEntry(state, entry);
    return objection;
  });
  if (end.kind !== "whole") throw new Error(`the log is ${end.kind}: ${JSON.stringify(end)}`);
  return state;
}

/** The lines of a file without their line breaks. */
export function linesOf(file: string): string[] {
  return readFileSync(file, "utf8").split("\n").slice(0, -1);
}

export function writeLines(file: string, lines: readonly string[]): void {
  writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
}

/** Lines of a log with these entries, behind `from`; `unknown` bodies are written as they are, so that a test can forge what nobody writes. */
export function chainOf(bodies: readonly object[], from: ChainHead = EMPTY_HEAD): string[] {
  let head = from;
  return bodies.map((body) => {
    const seq = head.seq + 1;
    const covered = `${JSON.stringify({ seq, ts: 1000 + seq, ...body }).slice(0, -1)},"prev":"${head.hash}"`;
    const own = hash("sha256", covered, "hex");
    head = { seq, hash: own };
    return `${covered},"hash":"${own}"}`;
  });
}

/** The line with other bytes in front of `prev`, and its own hash made to fit again: what a naive edit leaves. */
export function editedLine(line: string, edit: (text: string) => string): string {
  const covered = edit(line.slice(0, line.lastIndexOf(',"hash":"')));
  return `${covered},"hash":"${hash("sha256", covered, "hex")}"}`;
}
