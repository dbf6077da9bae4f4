import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import type { LogEntry } from "./entry.ts";
import { applyEntry, checkEntry } from "./fold.ts";
import type { ChainHead, LineProblem } from "./line.ts";
import type { LineWalk, ScanEnd, ScannedLine } from "./log-scan.ts";
import { scanInSteps } from "./scan-in-steps.ts";
import { emptyState, type SessionState } from "./session-state.ts";
import { walkSession } from "./walk-session.ts";

/** A place of the log that was synced, remembered outside of it (the registry's row): what makes a cut end noticeable. */
export interface HeadMark {
  readonly seq: number;
  readonly hash: string;
  /** When it was noted, Unix ms. */
  readonly atMs: number;
}

/** The first line that is not as it was written. `line` counts from 1 in its file, `byte` (from 0) is where it begins there. */
export interface BadLine {
  readonly file: string;
  readonly line: number;
  readonly byte: number;
  /** `empty`: no entry at all. `cut`: the end is missing. `rewritten`: a sound chain, but another than the one that was synced. */
  readonly problem: LineProblem["code"] | "empty" | "cut" | "rewritten";
  readonly message: string;
}

/** An unfinished end of the newest file. Not damage: the next start mends it. */
export interface TornTail {
  readonly file: string;
  readonly line: number;
  readonly byte: number;
  readonly bytes: number;
  /** True when only the line break is missing, so that nothing is lost. */
  readonly complete: boolean;
}

/** What a log proves. */
export interface VerifyReport {
  readonly ok: boolean;
  /** Files that hold them. */
  readonly files: number;
  /** Sound entries up to the first bad line, or all of them. */
  readonly entries: number;
  readonly first_bad?: BadLine;
  readonly torn?: TornTail;
  /** The newest sound entry; null when there is none. */
  readonly head: ChainHead | null;
  /** How old the mark is that the end was compared with; null without one: then a cut at a line's border cannot be noticed. */
  readonly head_mark_age_ms: number | null;
}

export interface VerifyOptions {
  /** Read it before the call: of a living Pod the log is never behind it. */
  readonly mark?: HeadMark | null;
  readonly signal?: AbortSignal;
  /** For the mark's age; absent = now. */
  readonly nowMs?: number;
}

/** Sees each entry before and after it is applied to the fold. */
export interface FoldVisitor {
  before?(state: Readonly<SessionState>, entry: LogEntry): void;
  after?(state: Readonly<SessionState>, entry: LogEntry): void;
}

/**
 * Checks every line of the log in `directory`, through all its files: its own bytes, its link to the line before, its meaning where it
 * stands (of the first line of a later file, that the state it carries is the one before it), and the end against the head mark (L7). Reads only, needs memory for one line and what is pending, works beside a living Pod (a line that is being
 * written is a torn tail). Throws `not_found` and `storage_failed`, and `damaged` for what is no file.
 */
export async function verify(directory: string, options: VerifyOptions = {}): Promise<VerifyReport> {
  return (await foldLog(walkSession(directory), { ...options, keepHistory: false })).report;
}

/** {@link verify} of the lines of a walk, with the fold of what is sound. Without `keepHistory` the state's history stays empty. */
export async function foldLog(
  lines: LineWalk,
  options: VerifyOptions & { readonly keepHistory: boolean; readonly visitor?: FoldVisitor },
): Promise<{ readonly report: VerifyReport; readonly state: SessionState; readonly end: ScanEnd }> {
  const { mark, signal, visitor, keepHistory } = options;
  const state = emptyState();
  let head: ChainHead | null = null;
  let atMark: ScannedLine | undefined;
  const files = new Set<string>();

  const accept = (line: ScannedLine): string | undefined => {
    const objection = checkEntry(state, line.entry);
    if (objection !== undefined) return objection;
    visitor?.before?.(state, line.entry);
    applyEntry(state, line.entry);
    visitor?.after?.(state, line.entry);
    if (!keepHistory) {
      // What a check needs never lies in the history, and a log is larger than memory should be.
      state.history.length = 0;
      state.items.length = 0;
    }
    head = line.head;
    files.add(line.file);
    if (line.head.seq === mark?.seq) atMark = line;
    return undefined;
  };

  const end = await scanInSteps(lines, accept, { signal });
  const completed = end.kind === "torn" && end.complete !== undefined && accept(end.complete) === undefined;
  const newest: ChainHead | null = head;
  const report = {
    files: files.size,
    entries: state.lastSeq,
    ...(end.kind === "torn"
      ? { torn: { file: end.file, line: end.line, byte: end.start, bytes: end.size - end.start, complete: completed } }
      : {}),
    head: newest,
    head_mark_age_ms: mark ? Math.max(0, (options.nowMs ?? Date.now()) - mark.atMs) : null,
  };
  const firstBad = findFirstBad(end, { newest, mark, atMark });
  return {
    report: firstBad === undefined ? { ok: true, ...report } : { ok: false, first_bad: firstBad, ...report },
    state,
    end,
  };
}

interface Found {
  readonly newest: ChainHead | null;
  readonly mark: HeadMark | null | undefined;
  readonly atMark: ScannedLine | undefined;
}

function findFirstBad(end: ScanEnd, { newest, mark, atMark }: Found): BadLine | undefined {
  if (mark && atMark && atMark.head.hash !== mark.hash) {
    const message = `the chain up to here is sound, but entry ${mark.seq} is not the one that was synced (hash ${mark.hash.slice(0, 12)}…): the log was rewritten`;
    return { file: atMark.file, line: atMark.line, byte: atMark.start, problem: "rewritten", message };
  }
  const { file } = end;
  if (end.kind === "damaged") {
    return { file, line: end.line, byte: end.start, problem: end.problem.code, message: end.problem.message };
  }
  if (mark && mark.seq > (newest?.seq ?? 0)) {
    const message = `the log ends with entry ${newest?.seq ?? 0}, but entry ${mark.seq} was synced: its end was cut off${repairNote(file)}`;
    const completed = end.kind === "torn" && end.complete?.head.seq === newest?.seq;
    const byte = end.kind === "torn" ? end.start : end.size;
    return { file, line: completed ? end.line + 1 : end.line, byte, problem: "cut", message };
  }
  if (newest === null) return { file, line: 1, byte: 0, problem: "empty", message: "it holds no entry" };
  return undefined;
}

/** A repair cuts the log on purpose; the mark is renewed at the next start. */
function repairNote(file: string): string {
  const saved = readdirSync(dirname(file)).filter((name) => /^\d+\.jsonl\.damaged-/.test(name));
  return saved.length === 0
    ? ""
    : ` (it was repaired: ${saved.sort().join(", ")} holds what was there; the next start renews the mark)`;
}
