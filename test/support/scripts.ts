import type * as z from "zod";
import type { Script } from "../../src/llm/scripted/script-format.ts";

/** A script as one writes it (docs/scripts.md), as an object: JSON is YAML. */
export type ScriptInput = z.input<typeof Script>;
export type StepInput = NonNullable<ScriptInput["steps"]>[number];

/** A script that answers every request with the same short text. */
export const ALWAYS: ScriptInput = { otherwise: { say: "Noted." } };

/** A step that runs shell commands, one call each. */
export function bash(...commands: readonly string[]): StepInput {
  return { call: commands.map((command) => ({ tool: "Bash", input: { command } })) };
}

/** A step that runs one call whose end the test decides: it prints, waits until `file` is there, and ends. */
export function bashUntil(file: string): StepInput {
  return bash(untilFile(file));
}

/** A shell command that tells that it runs by making `<file>.started`, and ends when `file` is there. */
export function untilFile(file: string): string {
  return `touch '${file}.started'; until [ -e '${file}' ]; do sleep 0.02; done; echo done`;
}

/** A step that says something once `file` is there, in the Pod's usual working directory (a script lies beside that). */
export function sayWhen(file: string, text: string): StepInput {
  return { wait_for: { file: `cwd/${file}`, within: "60s" }, say: text };
}
