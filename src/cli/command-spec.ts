import type { CliIo } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";

/** One option; without `value` it is a switch. */
export interface OptionSpec {
  readonly short?: string;
  /** Name of its value in the help. */
  readonly value?: string;
  /** May be given several times. */
  readonly many?: boolean;
  readonly help: string;
}

export interface ArgumentSpec {
  readonly name: string;
  readonly optional?: boolean;
}

/** A command as its help shows it. */
export interface CommandSpec {
  readonly name: string;
  /** What it does, one line. */
  readonly summary: string;
  readonly args: readonly ArgumentSpec[];
  readonly options: Readonly<Record<string, OptionSpec>>;
  /** Further lines of the help. */
  readonly details?: readonly string[];
  readonly example: string;
  /** How it runs; loaded when it is called, so that no command pays for another. */
  readonly run: CommandRun;
}

export type CommandRun =
  | { readonly kind: "parsed"; readonly load: () => Promise<(args: ParsedArgs, io: CliIo) => Promise<number>> }
  /** A command with subcommands of its own: it gets its arguments as they were typed. */
  | { readonly kind: "raw"; readonly load: () => Promise<(args: string[], io: CliIo) => Promise<number>> };
