import { prefixOf, toSafeText } from "../base/text.ts";
import type { ToolOutput } from "./tool.ts";

/** Longest one-line summary (tool.ts). */
const MAX_SUMMARY_CHARS = 200;

/** A failure the model reads and acts on. `reason` is a whole sentence; it is cut like every output (I10). */
export function failure(summary: string, reason: string, maxChars: number): ToolOutput {
  return { summary: toSummary(`${summary}: ${reason}`), content: cutEnd(toSafeText(reason), maxChars), isError: true };
}

/** One line of at most 200 characters. */
export function toSummary(text: string): string {
  const line = toSafeText(text).replaceAll(/\s+/g, " ").trim();
  return line.length <= MAX_SUMMARY_CHARS ? line : `${prefixOf(line, MAX_SUMMARY_CHARS - 3)}...`;
}

/** Cuts text at its end and says how much is gone (I10). */
export function cutEnd(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  // The note's own length varies with the number in it: 60 characters hold it.
  const kept = prefixOf(text, Math.max(0, maxChars - 60));
  return `${kept}\n[${text.length - kept.length} characters left out]`;
}

/** `512 bytes`, `3.4 MiB`. */
export function sizeText(bytes: number | bigint): string {
  const count = Number(bytes);
  if (count < 1024) return `${count} byte${count === 1 ? "" : "s"}`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = count / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value.toFixed(1)} ${units[unit] ?? ""}`;
}
