import type { Scope, ScopeRule } from "../protocol/scope-rule.ts";

/**
 * The rules of scope, as pure functions over paths that are already absolute and real (links followed): nobody asks a file system here.
 *
 * 1. Paths are compared component by component, never as strings: `/w/a` says nothing about `/w/a-evil` (field report B115).
 * 2. A rule that is not recursive speaks of its own path alone.
 * 3. Deny wins over allow. Denied reading takes writing away too; denied writing leaves reading.
 * 4. On a file system that folds case and Unicode forms (`folds`), names that fold to the same are the same (field report B116).
 */

/** What may be done with a path: `write` includes `read`. */
export type EffectiveAccess = "none" | "read" | "write";

/** How names are compared. `folds`: the file system ignores case and Unicode form. */
export interface NameMatching {
  readonly folds?: boolean;
}

/** The components of an absolute path: empty ones and `.` dropped, `..` applied (never above the root). */
export function pathComponents(path: string): readonly string[] {
  const components: string[] = [];
  for (const component of path.split("/")) {
    if (component === "" || component === ".") continue;
    if (component === "..") components.pop();
    else components.push(component);
  }
  return components;
}

/** The form under which a folding file system takes two names for one: compare with it, never show or open it. */
export function foldedName(name: string): string {
  const folded = name.normalize("NFD").toLowerCase().toUpperCase().normalize("NFD");
  // A second round settles the few characters whose upper case has another lower case.
  return folded.toLowerCase().toUpperCase().normalize("NFC");
}

/** True when `path` is `directory` itself or lies anywhere below it. */
export function isWithin(directory: string, path: string, matching: NameMatching = {}): boolean {
  return startsWith(keyOf(path, matching), keyOf(directory, matching));
}

/** True when the rule speaks of this path. */
export function ruleCovers(rule: ScopeRule, path: string, matching: NameMatching = {}): boolean {
  return covers(rule.recursive, keyOf(rule.path, matching), keyOf(path, matching));
}

/** What the scope lets a Pod do with a path. */
export function accessTo(scope: Scope, path: string, matching: NameMatching = {}): EffectiveAccess {
  const key = keyOf(path, matching);
  const says = (rules: readonly ScopeRule[], access: ScopeRule["access"]) =>
    rules.some((rule) => rule.access === access && covers(rule.recursive, keyOf(rule.path, matching), key));
  if (says(scope.deny, "read")) return "none";
  if (says(scope.deny, "write")) return "read";
  return says(scope.allow, "write") ? "write" : "read";
}

/** True when no rule lets the Pod write anything, so that it gets no tool that writes. */
export function isReadOnly(scope: Scope): boolean {
  return !scope.allow.some((rule) => rule.access === "write");
}

/**
 * Where two Pods could write the same path, or undefined: at most one may (I9). The path named is the topmost one of the common part.
 * What either scope denies is not common, unless something below it stays writable for both.
 */
export function overlap(a: Scope, b: Scope, matching: NameMatching = {}): string | undefined {
  const denials = [...a.deny, ...b.deny];
  for (const left of writeRules(a)) {
    for (const right of writeRules(b)) {
      const common = commonPart(left, right, matching);
      if (common !== undefined && !denials.some((denial) => swallows(denial, common, matching))) return common.path;
    }
  }
  return undefined;
}

function writeRules(scope: Scope): readonly ScopeRule[] {
  return scope.allow.filter((rule) => rule.access === "write");
}

/** The paths that both rules cover, as one rule. */
function commonPart(left: ScopeRule, right: ScopeRule, matching: NameMatching): ScopeRule | undefined {
  const leftCoversRight = ruleCovers(left, right.path, matching);
  const rightCoversLeft = ruleCovers(right, left.path, matching);
  if (leftCoversRight && rightCoversLeft) return { ...left, recursive: left.recursive && right.recursive };
  if (leftCoversRight) return right;
  return rightCoversLeft ? left : undefined;
}

/** True when a denial leaves nothing of a rule. Names are endless: only a denial from above takes a whole directory. */
function swallows(denial: ScopeRule, rule: ScopeRule, matching: NameMatching): boolean {
  return ruleCovers(denial, rule.path, matching) && (denial.recursive || !rule.recursive);
}

function keyOf(path: string, matching: NameMatching): readonly string[] {
  const components = pathComponents(path);
  return matching.folds === true ? components.map(foldedName) : components;
}

function covers(recursive: boolean, rule: readonly string[], path: readonly string[]): boolean {
  return startsWith(path, rule) && (recursive || path.length === rule.length);
}

function startsWith(path: readonly string[], start: readonly string[]): boolean {
  return start.length <= path.length && start.every((component, i) => component === path[i]);
}
