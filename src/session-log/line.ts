import { hash } from "node:crypto";
import { AppError } from "../base/errors.ts";
import { parseJson } from "../base/json.ts";
import { type LogEntry, type NewEntry, readEntry } from "./entry.ts";

/**
 * One line of a log: `{"seq":..,"ts":..,"type":..,...,"prev":"<hex>","hash":"<hex>"}`.
 *
 * H1 `hash` = SHA-256 of the line's bytes up to `,"hash":`, so it covers `prev`; verifying slices bytes and never re-serialises.
 * H2 `prev` is the hash of the line before; the first line of a session has 64 zeros.
 * H3 `seq` counts 1, 2, 3 ... over the whole session, whatever the number of its files.
 * H4 The first line of a later file says once more, in `continues`, which line it follows.
 */

/** `prev` of a session's first line. */
export const GENESIS = "0".repeat(64);

const HASH_TAIL_BYTES = ',"hash":"'.length + 64 + '"}'.length;
const PREV_TAIL_BYTES = ',"prev":"'.length + 64 + '"'.length;
const HASH_TAIL = /^,"hash":"([0-9a-f]{64})"\}$/;
const PREV_TAIL = /^,"prev":"([0-9a-f]{64})"$/;
/** So many bytes of a line hold its `seq`. */
export const SEQ_BYTES = 32;
const SEQ_START = /^\{"seq":(\d{1,16}),/;
const PREV_IN_CHAIN = /^,"prev":"([0-9a-f]{64})",/;

/** Where a line stands in the chain: its number and hash. */
export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

/** The head of an empty session. */
export const EMPTY_HEAD: ChainHead = { seq: 0, hash: GENESIS };

/** A line ready to be appended, with its line break, and the entry and head it makes. */
export interface EncodedLine {
  readonly bytes: Buffer;
  readonly head: ChainHead;
  readonly entry: LogEntry;
}

/** Encodes an entry behind `before`. The entry must already be in its validated form. */
export function encodeLine(entry: NewEntry, before: ChainHead, ts: number): EncodedLine {
  const seq = before.seq + 1;
  const placed = { seq, ts, ...entry };
  const json = JSON.stringify(placed);
  const covered = `${json.slice(0, -1)},"prev":"${before.hash}"`;
  const lineHash = hash("sha256", covered, "hex");
  return { bytes: Buffer.from(`${covered},"hash":"${lineHash}"}\n`), head: { seq, hash: lineHash }, entry: placed };
}

/** What is wrong with a line. `code` is stable; `message` is for people. */
export interface LineProblem {
  readonly code: "not_a_line" | "bad_hash" | "bad_prev" | "bad_seq" | "bad_json" | "bad_entry" | "bad_order" | "missing";
  readonly message: string;
}

/** Outcome of checking a line against the head before it. */
export type DecodedLine =
  | { readonly ok: true; readonly entry: LogEntry; readonly head: ChainHead }
  | { readonly ok: false; readonly problem: LineProblem };

/** Checks one line (without its line break) and decodes it. */
export function decodeLine(bytes: Buffer, before: ChainHead): DecodedLine {
  if (bytes.length < HASH_TAIL_BYTES + PREV_TAIL_BYTES) return problem("not_a_line", "too short to be an entry");
  const hashAt = bytes.length - HASH_TAIL_BYTES;
  const hashTail = HASH_TAIL.exec(bytes.toString("latin1", hashAt));
  const prevTail = PREV_TAIL.exec(bytes.toString("latin1", hashAt - PREV_TAIL_BYTES, hashAt));
  if (!hashTail?.[1] || !prevTail?.[1]) return problem("not_a_line", "does not end in its chain fields prev and hash");
  const lineHash = hash("sha256", bytes.subarray(0, hashAt), "hex"); // H1
  if (lineHash !== hashTail[1]) return problem("bad_hash", "its bytes do not match its hash: it was changed");
  if (prevTail[1] !== before.hash)
    return problem("bad_prev", "it does not follow the line before it: a line is missing, moved or inserted"); // H2
  const json = parseJson(bytes.toString("utf8"));
  if (!json.ok) return problem("bad_json", json.reason);
  const read = readEntry(json.value);
  if (!read.ok) return problem("bad_entry", read.problem);
  if (read.entry.seq !== before.seq + 1) return problem("bad_seq", `seq is ${read.entry.seq}, expected ${before.seq + 1}`); // H3
  const continues = read.entry.type === "session_started" ? read.entry.continues : undefined;
  if (continues && (continues.seq !== before.seq || continues.hash !== before.hash)) {
    return problem("bad_prev", `it says it continues entry ${continues.seq}, and does not follow it`); // H4
  }
  return { ok: true, entry: read.entry, head: { seq: read.entry.seq, hash: lineHash } };
}

/** The place that a line says it follows, for reading one whose file begins with it. Nothing of it is checked but its form. */
export function claimedPlace(bytes: Buffer): ChainHead | undefined {
  const seq = claimedSeq(bytes);
  const chain = bytes.toString("latin1", Math.max(0, bytes.length - HASH_TAIL_BYTES - PREV_TAIL_BYTES));
  const prev = PREV_IN_CHAIN.exec(chain)?.[1];
  return seq === undefined || prev === undefined ? undefined : { seq: seq - 1, hash: prev };
}

/** The `seq` that a line begins with, from its first bytes ({@link SEQ_BYTES} are enough). */
export function claimedSeq(beginning: Buffer): number | undefined {
  const seq = SEQ_START.exec(beginning.toString("latin1", 0, SEQ_BYTES))?.[1];
  return seq === undefined ? undefined : Number(seq);
}

function problem(code: LineProblem["code"], message: string): DecodedLine {
  return { ok: false, problem: { code, message } };
}

/** The error for damage inside a log (L9): file, line, byte and what to do. Never thrown for a torn tail. */
export function damageError(file: string, line: number, byte: number, what: LineProblem): AppError {
  return new AppError("damaged", `${file}: line ${line} (byte ${byte}) is damaged: ${what.message}`, {
    hint: "nothing was changed; `wakeful log verify` shows the first bad line, `wakeful log repair` keeps the whole part before it and saves the rest beside it",
    details: { file, line, byte, problem: what.code },
  });
}
