import { realpathSync, type Stats, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { AppError, systemCode } from "../base/errors.ts";
import type { Scope, ScopeRule } from "../protocol/scope-rule.ts";

/** What every scope of this user denies, and what `~` means. */
export interface ScopeDefaults {
  /** `config.scope.deny`: absolute paths. */
  readonly deny: readonly string[];
  readonly home?: string | undefined;
}

/** The scope of a Pod when no flag says otherwise: its directory, write (cli.md). `cwd` must exist; errors as {@link parseScopeFlags}. */
export function defaultScope(cwd: string, defaults: ScopeDefaults): Scope {
  return { allow: [toRule(cwd, "write", cwd)], deny: toDenyRules(defaults.deny) };
}

/**
 * The scope that `--scope PATH[:read|write]` flags describe; without a word behind the path it is `write`. Relative to `cwd`, real paths;
 * a directory covers what is below it. A path that really ends in `:read` is written `PATH:read:write`.
 * Throws `invalid_input` naming a path that does not exist or is neither file nor directory.
 */
export function parseScopeFlags(flags: readonly string[], cwd: string, defaults: ScopeDefaults): Scope {
  const rules = new Map<string, ScopeRule>();
  for (const flag of flags) {
    const match = /^(.*):(read|write)$/s.exec(flag);
    const access = match?.[2] === "read" ? "read" : "write";
    const rule = toRule(expand(match?.[1] ?? flag, cwd, defaults.home), access, flag);
    // Of two rules for one path the wider one holds, whatever their order.
    if (rule.access === "write" || !rules.has(rule.path)) rules.set(rule.path, rule);
  }
  return { allow: [...rules.values()], deny: toDenyRules(defaults.deny) };
}

function expand(path: string, cwd: string, home: string | undefined): string {
  // A shell expands `--scope ~/x` but not `--scope=~/x`.
  const isHome = home !== undefined && (path === "~" || path.startsWith("~/"));
  if (isHome) return join(home, path.slice(1));
  return path === "" ? "" : resolve(cwd, path);
}

function toRule(path: string, access: ScopeRule["access"], shown: string): ScopeRule {
  if (path === "") throw noScope(shown, "names no path");
  let stats: Stats;
  let real: string;
  try {
    real = realpathSync(path);
    stats = statSync(real);
  } catch (thrown) {
    const code = systemCode(thrown);
    throw noScope(
      shown,
      code === "ENOENT" ? `there is no ${path}` : `${path} cannot be reached (${code ?? "unknown reason"})`,
      thrown,
    );
  }
  if (!stats.isDirectory() && !stats.isFile()) throw noScope(shown, `${path} is neither a file nor a directory`);
  return { path: real, access, recursive: stats.isDirectory() };
}

function noScope(shown: string, what: string, cause?: unknown): AppError {
  return new AppError("invalid_input", `scope '${shown}': ${what}`, {
    hint: "Write PATH, PATH:read or PATH:write, with a path that exists.",
    cause,
  });
}

function toDenyRules(paths: readonly string[]): ScopeRule[] {
  return paths.map((path) => ({ path, access: "read", recursive: true }));
}
