import type { Environment } from "../registry/places.ts";
import type { Output } from "./io.ts";

/** The few looks a text can have on a terminal; elsewhere, and with NO_COLOR, every one of them is plain. */
export interface Paint {
  /** Notes and what a Pod does on the way. */
  dim(text: string): string;
  /** Headings. */
  bold(text: string): string;
  /** What went wrong. */
  red(text: string): string;
}

export type Look = keyof Paint;

/** No look at all. */
export const PLAIN: Paint = { dim: (text) => text, bold: (text) => text, red: (text) => text };
const COLOURED: Paint = { dim: look(2), bold: look(1), red: look(31) };

/** The looks for `output`. The text painted must be inert already. */
export function paintFor(output: Output, env: Environment): Paint {
  return output.isTTY && !env["NO_COLOR"] && env["TERM"] !== "dumb" ? COLOURED : PLAIN;
}

function look(code: number): (text: string) => string {
  return (text) => `\u001b[${code}m${text}\u001b[0m`;
}
