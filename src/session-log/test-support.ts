import { hash } from "node:crypto";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SystemItem } from "../protocol/system-item.ts";
import type { EntryOf, LogEntry, NewEntry } from "./entry.ts";
import { applyEntry, checkEntry } from "./fold.ts";
import { type ChainHead, EMPTY_HEAD } from "./line.ts";
import { FIRST_FILE, LogFile } from "./log-file.ts";
import { scanLog } from "./log-scan.ts";
import type { LoggedAnswerItem } from "./logged-item.ts";
import { chooseTake, promptDigestWith, type Take } from "./pending.ts";
import { emptyState, type SessionState } from "./session-state.ts";

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

/** The fold of a log file, as a restore makes it. */
export function replay(file: string): SessionState {
  const state = emptyState();
  const end = scanLog(file, ({ entry }) => {
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

/** Lines of a log with these entries; `unknown` bodies are written as they are, so that a test can forge what nobody writes. */
export function chainOf(bodies: readonly object[]): string[] {
  let head: ChainHead = EMPTY_HEAD;
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
