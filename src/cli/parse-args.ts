import { nearNames } from "../client/near-names.ts";
import type { CommandSpec, OptionSpec } from "./command-spec.ts";
import { usageError } from "./exit.ts";

/** A command's arguments after parsing. */
export interface ParsedArgs {
  readonly positionals: readonly string[];
  /** True for a switch that was given. */
  has(name: string): boolean;
  /** Last value of an option, or undefined. */
  value(name: string): string | undefined;
  /** All values of an option that may be repeated. */
  values(name: string): readonly string[];
}

/**
 * Parses what follows the command's name. `--name value`, `--name=value`, `-n value`, `-nvalue`; `--` ends options; a lone `-` is an
 * argument. Throws a usage error (exit 2) naming the nearest option for an unknown one.
 */
export function parseArgs(args: readonly string[], spec: CommandSpec): ParsedArgs {
  const given = new Map<string, string[]>();
  const positionals: string[] = [];
  const help = `see: wakeful ${spec.name} --help`;
  let i = 0;
  const take = (name: string, option: OptionSpec, inline: string | undefined, shown: string) => {
    if (option.value === undefined) {
      if (inline !== undefined) throw usageError(`${shown} takes no value`, help);
      given.set(name, ["true"]);
      return;
    }
    const value = inline ?? args[i++];
    if (value === undefined || (inline === undefined && /^-./.test(value))) {
      const hint = value === undefined ? help : `a value that begins with '-' is written ${shown}=${value}`;
      throw usageError(`${shown} needs a value: ${option.value}`, hint);
    }
    if (given.has(name) && !option.many) throw usageError(`${shown} is given twice`, help);
    given.set(name, [...(given.get(name) ?? []), value]);
  };
  while (i < args.length) {
    const arg = args[i++] ?? "";
    if (arg === "--") {
      positionals.push(...args.slice(i));
      break;
    }
    if (arg.startsWith("--")) {
      const equals = arg.indexOf("=");
      const name = arg.slice(2, equals === -1 ? undefined : equals);
      const option = Object.hasOwn(spec.options, name) ? spec.options[name] : undefined;
      if (option === undefined) throw unknownOption(`--${name}`, spec);
      take(name, option, equals === -1 ? undefined : arg.slice(equals + 1), `--${name}`);
    } else if (arg.startsWith("-") && arg.length > 1) {
      const short = arg[1];
      const found = Object.entries(spec.options).find(([, option]) => option.short === short);
      if (found === undefined) throw unknownOption(arg.slice(0, 2), spec);
      const [name, option] = found;
      const inline = arg.length > 2 ? arg.slice(2).replace(/^=/, "") : undefined;
      take(name, option, inline, `-${short}`);
    } else positionals.push(arg);
  }
  checkCount(positionals, spec, help);
  return {
    positionals,
    has: (name) => given.has(name),
    value: (name) => given.get(name)?.at(-1),
    values: (name) => given.get(name) ?? [],
  };
}

function checkCount(positionals: readonly string[], spec: CommandSpec, help: string): void {
  const missing = spec.args.find((arg, index) => !arg.optional && positionals[index] === undefined);
  if (missing !== undefined) throw usageError(`${spec.name}: ${missing.name} is missing`, help);
  const extra = positionals[spec.args.length];
  if (extra !== undefined) {
    throw usageError(
      `${spec.name}: unexpected argument '${extra.slice(0, 100)}'`,
      `put a text of several words in quotes; ${help}`,
    );
  }
}

function unknownOption(shown: string, spec: CommandSpec): Error {
  const near = nearNames(
    shown,
    Object.keys(spec.options).map((name) => `--${name}`),
  );
  const help = `see: wakeful ${spec.name} --help`;
  return usageError(
    `${spec.name}: unknown option ${shown.slice(0, 100)}`,
    near[0] === undefined ? help : `did you mean ${near[0]}?`,
  );
}
