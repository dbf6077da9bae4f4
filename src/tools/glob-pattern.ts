/**
 * Glob patterns as ripgrep has them, matched here: given to ripgrep as `--glob` they would bring back files that `.gitignore` hides.
 *
 * 1. `*` (any characters) and `?` (one) stay within a name, `**` stands for any number of folders, `[a-z]` and `[!a-z]` for one
 *    character, `{a,b}` for either, `\` takes the meaning of the next character away. Case counts. A leading dot is nothing special.
 * 2. A pattern without `/` matches names in every folder; one with `/` is about the path from the root of the search.
 * 3. No pattern is slow: matching goes back to the last star only, so its cost is at most the product of both lengths.
 */
export interface GlobPattern {
  readonly ok: true;
  /** `path`: relative to the root of the search, without `./`. */
  matches(path: string): boolean;
  /** Globs of which the file name alone matches one, whenever the path matches; undefined when every name may. In ripgrep's syntax. */
  readonly names: readonly string[] | undefined;
}

/** What is wrong with a pattern, to complete a sentence that names it. */
export interface BadGlob {
  readonly ok: false;
  readonly reason: string;
}

const MAX_PATTERN_CHARS = 4000;
/** `{a,b}` multiply: more than any real pattern has. */
const MAX_ALTERNATIVES = 200;

/** Reads a pattern. `anchored`: it is about the path even without `/` (the folder in front of it was cut off). */
export function parseGlob(pattern: string, options: { readonly anchored?: boolean } = {}): GlobPattern | BadGlob {
  if (pattern.length > MAX_PATTERN_CHARS) return bad(`is longer than ${MAX_PATTERN_CHARS} characters`);
  if (pattern.includes("\0")) return bad("holds a NUL character, which no file name can"); // B111
  const alternatives = expandBraces(pattern);
  if (alternatives === undefined)
    return bad("has a '{' without its '}', or too many alternatives (write '\\{' for the character)");
  const parsed: Path[] = [];
  const names: string[] = [];
  for (const alternative of alternatives) {
    const path = parsePath(alternative, options.anchored === true || pattern.includes("/"));
    if (path === undefined) return bad("has a '[' without its ']' (write '\\[' for the character)");
    parsed.push(path);
    names.push(alternative.slice(alternative.lastIndexOf("/") + 1));
  }
  // ripgrep takes `?` and classes for one byte, and this prefix for a word of its own.
  const tellsNames = names.every((name) => name !== "" && name !== "**" && !/[?[]|^include:/.test(name));
  return {
    ok: true,
    matches: (path) => {
      const components = path.split("/");
      return parsed.some((one) => wildcardMatch(one, components, isAnyFolders, matchesName));
    },
    names: tellsNames ? names : undefined,
  };
}

/** Cuts off the folders that a pattern names without any wildcard: they say where to search. `rest` is never empty. */
export function splitLiteralFolders(pattern: string): { readonly folder: string; readonly rest: string } {
  const magic = pattern.search(/[*?[{\\]/);
  const end = (magic === -1 ? pattern : pattern.slice(0, magic)).lastIndexOf("/");
  if (end === -1) return { folder: "", rest: pattern };
  return { folder: end === 0 ? "/" : pattern.slice(0, end), rest: pattern.slice(end + 1) || "**" };
}

function bad(reason: string): BadGlob {
  return { ok: false, reason };
}

/** Every pattern without braces that this one stands for; undefined when a brace stays open or there are too many. */
function expandBraces(pattern: string): readonly string[] | undefined {
  const open = findOutsideClass(pattern, 0, "{");
  if (open === -1) return [pattern];
  const cuts = [open];
  let depth = 1;
  let at = open + 1;
  for (; depth > 0; at++) {
    const character = pattern[at];
    if (character === undefined) return undefined;
    if (character === "\\") at++;
    else if (character === "{") depth++;
    else if (character === "}") depth--;
    if ((character === "," && depth === 1) || depth === 0) cuts.push(at);
  }
  const head = pattern.slice(0, open);
  const all: string[] = [];
  for (const [i, cut] of cuts.slice(0, -1).entries()) {
    const expanded = expandBraces(head + pattern.slice(cut + 1, cuts[i + 1]) + pattern.slice(at));
    if (expanded === undefined) return undefined;
    all.push(...expanded);
    if (all.length > MAX_ALTERNATIVES) return undefined;
  }
  return all;
}

function findOutsideClass(pattern: string, from: number, wanted: string): number {
  for (let i = from; i < pattern.length; i++) {
    if (pattern[i] === wanted) return i;
    if (pattern[i] === "\\") i++;
    else if (pattern[i] === "[") i = Math.max(i, classEnd(pattern, i));
  }
  return -1;
}

/** Where the class that opens here closes, or -1. A `]` that stands first is a member. */
function classEnd(pattern: string, open: number): number {
  const first = open + (/[!^]/.test(pattern[open + 1] ?? "") ? 2 : 1);
  return pattern.indexOf("]", first + 1);
}

type Path = readonly Component[];
type Component = "**" | readonly Token[];
type Token =
  | { readonly kind: "literal"; readonly character: string }
  | { readonly kind: "any_one" | "any_run" }
  | { readonly kind: "class"; readonly negated: boolean; readonly ranges: readonly (readonly [string, string])[] };

function parsePath(pattern: string, anchored: boolean): Path | undefined {
  const path: Component[] = anchored ? [] : ["**"];
  for (const text of pattern.replace(/^(\.?\/)+/, "").split("/")) {
    if (text === "**") {
      if (path.at(-1) !== "**") path.push("**");
      continue;
    }
    const component = parseComponent(text);
    if (component === undefined) return undefined;
    path.push(component);
  }
  // What ends in ** or in / is about what is below.
  const last = path.at(-1);
  if (last !== undefined && last !== "**" && last.length === 0) path.splice(-1, 1, "**", [{ kind: "any_run" }]);
  else if (last === "**") path.push([{ kind: "any_run" }]);
  return path;
}

function parseComponent(text: string): readonly Token[] | undefined {
  const tokens: Token[] = [];
  const characters = [...text];
  for (let i = 0; i < characters.length; i++) {
    const character = characters[i] ?? "";
    if (character === "\\") {
      i++;
      tokens.push({ kind: "literal", character: characters[i] ?? "\\" });
    } else if (character === "*") {
      if (tokens.at(-1)?.kind !== "any_run") tokens.push({ kind: "any_run" });
    } else if (character === "?") {
      tokens.push({ kind: "any_one" });
    } else if (character === "[") {
      const found = parseClass(characters, i);
      if (found === undefined) return undefined;
      tokens.push(found.token);
      i = found.end;
    } else {
      tokens.push({ kind: "literal", character });
    }
  }
  return tokens;
}

function parseClass(characters: readonly string[], open: number): { readonly token: Token; readonly end: number } | undefined {
  const negated = characters[open + 1] === "!" || characters[open + 1] === "^";
  const first = open + (negated ? 2 : 1);
  const end = characters.indexOf("]", first + 1);
  if (end === -1) return undefined;
  const ranges: (readonly [string, string])[] = [];
  for (let i = first; i < end; i++) {
    const from = characters[i] ?? "";
    const to = characters[i + 2];
    if (characters[i + 1] === "-" && to !== undefined && i + 2 < end) {
      ranges.push([from, to]);
      i += 2;
    } else ranges.push([from, from]);
  }
  return { token: { kind: "class", negated, ranges }, end };
}

function isAnyFolders(component: Component): boolean {
  return component === "**";
}

function matchesName(component: Component, name: string): boolean {
  return component === "**" || wildcardMatch(component, [...name], (token) => token.kind === "any_run", matchesCharacter);
}

function matchesCharacter(token: Token, character: string): boolean {
  switch (token.kind) {
    case "literal":
      return token.character === character;
    case "any_one":
    case "any_run":
      return true;
    case "class":
      return token.negated !== token.ranges.some(([from, to]) => isBetween(character, from, to));
  }
}

function isBetween(character: string, from: string, to: string): boolean {
  const point = character.codePointAt(0) ?? 0;
  return point >= (from.codePointAt(0) ?? 0) && point <= (to.codePointAt(0) ?? 0);
}

/** Whether the pattern matches all items. Of several stars only the last one is ever tried again (law 3). */
function wildcardMatch<Part, Item>(
  pattern: readonly Part[],
  items: readonly Item[],
  isStar: (part: Part) => boolean,
  matchesOne: (part: Part, item: Item) => boolean,
): boolean {
  let at = 0;
  let star = -1;
  let starItems = 0;
  for (let i = 0; i < items.length; ) {
    const part = pattern[at];
    const item = items[i];
    if (part !== undefined && isStar(part)) {
      star = at;
      starItems = i;
      at++;
    } else if (part !== undefined && item !== undefined && matchesOne(part, item)) {
      at++;
      i++;
    } else if (star >= 0) {
      at = star + 1;
      starItems++;
      i = starItems;
    } else return false;
  }
  return pattern.slice(at).every(isStar);
}
