import { type ConfigEntry, loadConfig } from "../config/load-config.ts";
import { toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { placesOf } from "./reach.ts";
import { textTable } from "./text-table.ts";

/** `wakeful config`: every value and where it comes from; keys of providers by presence only. */
export async function runConfigCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const places = placesOf(io);
  const config = loadConfig({ cwd: io.cwd, env: io.env, places });
  const notes = [...places.notes, ...config.notes];
  if (args.has("json")) {
    const values = config.entries.map(({ key, value, source }) => ({ key, value: value ?? null, source }));
    io.stdout.write(`${JSON.stringify({ values, notes })}\n`);
    return EXIT.done;
  }
  const rows = config.entries.map((entry) => [entry.key, shown(entry), `(${toInertLine(entry.source, 400)})`]);
  for (const line of textTable(rows)) io.stdout.write(`${line}\n`);
  for (const note of notes) io.stderr.write(`note: ${toInertLine(note, 400)}\n`);
  return EXIT.done;
}

function shown({ value }: ConfigEntry): string {
  if (value === undefined) return "-";
  if (Array.isArray(value) && value.length > 3) return `[${value.length} entries; all with --json]`;
  return toInertLine(JSON.stringify(value));
}
