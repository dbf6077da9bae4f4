import { toInert } from "../inert.ts";
import type { CliIo } from "../io.ts";

/** One claim of the demo, checked from the log. */
export interface DemoStep {
  readonly step: string;
  readonly claim: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** Tells the story: as a text for people, or as one JSON object a claim. */
export interface Teller {
  /** A heading and what happens in it. */
  scene(title: string, text: string): void;
  /** Something the Pod or somebody else says. */
  line(who: string, text: string): void;
  /** A claim and whether it held. */
  claim(step: DemoStep): void;
  /** The last word. */
  end(text: string): void;
}

/** A teller for these outputs; colours only on a terminal and never with NO_COLOR. */
export function createTeller(io: CliIo, options: { readonly json: boolean }): Teller {
  return options.json ? jsonTeller(io) : textTeller(io);
}

function jsonTeller(io: CliIo): Teller {
  const silent = () => {};
  return { scene: silent, line: silent, end: silent, claim: (step) => io.stdout.write(`${JSON.stringify(step)}\n`) };
}

function textTeller(io: CliIo): Teller {
  const coloured = io.stdout.isTTY && !io.env["NO_COLOR"];
  const paint = (code: string, text: string) => (coloured ? `\u001b[${code}m${text}\u001b[0m` : text);
  const write = (text: string) => io.stdout.write(`${text}\n`);
  return {
    scene: (title, text) => write(`\n${paint("1", title)}\n${text}`),
    line: (who, text) => write(`  ${paint("36", who.padEnd(10))} ${toInert(text).replaceAll("\n", `\n  ${" ".repeat(10)} `)}`),
    claim: ({ claim, ok, detail }) => {
      const mark = ok ? paint("32", "✓") : paint("31", "✗");
      write(`  ${mark} ${claim}${ok ? paint("2", ` (${toInert(detail)})`) : `: ${toInert(detail)}`}`);
    },
    end: (text) => write(`\n${text}`),
  };
}
