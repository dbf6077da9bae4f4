import type { CommandSpec } from "./command-spec.ts";
import { type Paint, PLAIN } from "./paint.ts";

/** The help of one command. */
export function commandHelp(spec: CommandSpec, { bold }: Paint = PLAIN): string {
  const args = spec.args.map((arg) => (arg.optional ? ` [${arg.name}]` : ` ${arg.name}`)).join("");
  const hasOptions = Object.keys(spec.options).length > 0;
  const options = Object.entries(spec.options).map(([name, option]): [string, string] => {
    const short = option.short === undefined ? "    " : `-${option.short}, `;
    return [`${short}--${name}${option.value === undefined ? "" : ` ${option.value}`}`, option.help];
  });
  const blocks = [
    `${bold("Usage:")} wakeful ${spec.name}${hasOptions ? " [options]" : ""}${args}`,
    sentence(spec.summary),
    ...(spec.details === undefined ? [] : [spec.details.join("\n")]),
    ...(hasOptions ? [`${bold("Options:")}\n${table(options)}`] : []),
    `${bold("Example:")}\n  ${spec.example}`,
  ];
  return `${blocks.join("\n\n")}\n`;
}

/** The help of the program. */
export function programHelp(commands: readonly CommandSpec[], { bold }: Paint = PLAIN): string {
  const blocks = [
    `${bold("Usage:")} wakeful [command]`,
    "A runtime for LLM agents that stay awake for each other. Without a command, in a terminal: talk with this directory's Pod.",
    `${bold("Commands:")}\n${table(commands.map((command) => [command.name, command.summary]))}`,
    `${bold("Options:")}\n${table([
      ["--help", "this text, or a command's: wakeful COMMAND --help"],
      ["--version", "print the version"],
    ])}`,
    `${bold("Exit codes:")}\n  0 done, 1 failed, 2 wrong usage, 3 no such Pod, 4 refused, 5 storage, 124 timed out, 130 interrupted`,
    `${bold("Example:")}\n  wakeful run "Say hello"`,
  ];
  return `${blocks.join("\n\n")}\n`;
}

function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
