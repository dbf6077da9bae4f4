import { lineEndsOf } from "./text-form.ts";

/** What a literal replacement came to. `lines` are 1-based, at most a few. */
export type EditOutcome =
  | { readonly kind: "edited"; readonly units: string; readonly count: number; readonly lines: readonly number[] }
  | { readonly kind: "absent" }
  | { readonly kind: "ambiguous"; readonly count: number; readonly lines: readonly number[] }
  | { readonly kind: "too_large" };

/** Longest result. */
export const MAX_EDITED_UNITS = 64 * 1024 * 1024;
const MAX_NAMED_LINES = 5;
const MAX_COUNTED = 1000;

interface Edit {
  readonly oldUnits: string;
  readonly newUnits: string;
  readonly all: boolean;
}

/**
 * Replaces `oldUnits` by `newUnits`, both literally (`$&` is four marks like any other). A line break in either stands for whatever line break
 * the file has there: CRLF files are matched with LF texts and get CRLF lines, in mixed files each place keeps its own (B128). Only what
 * really differs between old and new is written, so every unit outside the change stays.
 */
export function replaceLiterally(units: string, { oldUnits, newUnits, all }: Edit): EditOutcome {
  const flat = flatten(units);
  const wanted = oldUnits.replaceAll("\r\n", "\n");
  const found = occurrences(flat.text, wanted, all);
  if (found.length === 0) return { kind: "absent" };
  const lines = lineNumbers(flat.text, found);
  if (!all && found.length > 1) return { kind: "ambiguous", count: found.length, lines };
  const { before, after, inserted } = difference(wanted, newUnits.replaceAll("\r\n", "\n"));
  // Twice: each line break may become two units.
  if (units.length + found.length * inserted.length * 2 > MAX_EDITED_UNITS) return { kind: "too_large" };
  const ends = inserted.includes("\n") ? lineEndsOf(units) : "none";
  const parts: string[] = [];
  let kept = 0;
  for (const at of found) {
    const start = flat.toOriginal(at + before);
    const end = flat.toOriginal(at + wanted.length - after);
    parts.push(units.slice(kept, start), withLineEnds(inserted, ends === "mixed" ? lineEndAt(units, start) : ends));
    kept = end;
  }
  parts.push(units.slice(kept));
  return { kind: "edited", units: parts.join(""), count: found.length, lines };
}

interface FlatText {
  /** With every CRLF as LF. */
  readonly text: string;
  /** Place in the original of a place in `text`; must be called with growing places. */
  toOriginal(place: number): number;
}

function flatten(units: string): FlatText {
  const text = units.replaceAll("\r\n", "\n");
  if (text.length === units.length) return { text, toOriginal: (place) => place };
  let dropped = 0;
  let next = units.indexOf("\r\n");
  return {
    text,
    toOriginal(place) {
      // A CR that was dropped belongs to its LF: a place at the LF is before both.
      while (next !== -1 && next - dropped < place) {
        dropped++;
        next = units.indexOf("\r\n", next + 2);
      }
      return place + dropped;
    },
  };
}

/** Places of `wanted`. One that overlaps another counts when only one is wanted: which is meant cannot be told then. */
function occurrences(text: string, wanted: string, all: boolean): readonly number[] {
  const found: number[] = [];
  const step = all ? wanted.length : 1;
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + step)) {
    found.push(at);
    if (!all && found.length >= MAX_COUNTED) break;
  }
  return found;
}

/** What differs: `before` and `after` are the lengths of the common start and end. */
function difference(oldText: string, newText: string): { before: number; after: number; inserted: string } {
  const shorter = Math.min(oldText.length, newText.length);
  let before = 0;
  while (before < shorter && oldText[before] === newText[before]) before++;
  let after = 0;
  while (after < shorter - before && oldText.at(-1 - after) === newText.at(-1 - after)) after++;
  return { before, after, inserted: newText.slice(before, newText.length - after) };
}

function withLineEnds(inserted: string, ends: "lf" | "crlf" | "none"): string {
  return ends === "crlf" ? inserted.replaceAll("\n", "\r\n") : inserted;
}

/** The line break in use at a place: of its own line, else of the line before it. */
function lineEndAt(units: string, place: number): "lf" | "crlf" {
  const next = units.indexOf("\n", place);
  const end = next !== -1 ? next : units.lastIndexOf("\n", place - 1);
  return end > 0 && units[end - 1] === "\r" ? "crlf" : "lf";
}

function lineNumbers(text: string, places: readonly number[]): readonly number[] {
  let line = 1;
  let counted = 0;
  return places.slice(0, MAX_NAMED_LINES).map((place) => {
    for (let at = text.indexOf("\n", counted); at !== -1 && at < place; at = text.indexOf("\n", at + 1)) {
      line++;
      counted = at + 1;
    }
    return line;
  });
}
