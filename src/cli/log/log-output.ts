import { once } from "node:events";
import { AppError } from "../../base/errors.ts";
import type { CliIo } from "../io.ts";

/** A line of the file as it stands there. On a terminal the control characters that JSON leaves alone (DEL, C1) are written as escapes. */
export function rawLine(bytes: Buffer, io: CliIo): string {
  const text = `${bytes.toString("utf8")}\n`;
  return io.stdout.isTTY ? inertJson(text) : text;
}

/** JSON text with the same meaning that no terminal obeys. */
export function inertJson(text: string): string {
  return text.replaceAll(/[\u007f-\u009f]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The error of a log without any entry. */
export function emptyLog(file: string): AppError {
  return new AppError("damaged", `${file} holds no entry`, {
    hint: "the session never began; remove its folder and start a new one",
  });
}

/** A duration as people say it: `0.4 s`, `12 s`, `3 min`, `2 h`, `5 days`. */
export function ageText(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** Waits until the reader of our standard output has taken what was written, so that a long log never gathers in memory. */
export async function readerCaughtUp(signal: AbortSignal): Promise<void> {
  if (process.stdout.writableNeedDrain) await once(process.stdout, "drain", { signal });
}
