import { AppError } from "../base/errors.ts";
import { usageError } from "./exit.ts";
import type { CliIo } from "./io.ts";

/**
 * The text an argument stands for: itself, or all of standard input for `-` (without the line break at its end). Throws a usage error
 * for an empty or broken text, `too_large` over `maxBytes`.
 */
export async function inputText(argument: string, io: CliIo, options: { readonly maxBytes: number }): Promise<string> {
  const text = argument === "-" ? (await readAll(io, options.maxBytes)).replace(/\r?\n$/, "") : argument;
  if (text.trim() === "")
    throw usageError("the text is empty", argument === "-" ? "nothing came on standard input" : "give a text, or - to read it");
  if (Buffer.byteLength(text) > options.maxBytes) throw tooLarge(options.maxBytes);
  return text;
}

async function readAll(io: CliIo, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of io.stdin) {
    length += chunk.length;
    if (length > maxBytes + 2) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (thrown) {
    throw new AppError("invalid_input", "standard input is not valid UTF-8", {
      hint: "convert it first, for example with iconv",
      cause: thrown,
    });
  }
}

function tooLarge(maxBytes: number): AppError {
  return new AppError("too_large", `the text is longer than ${maxBytes} bytes`, { hint: "put it into a file and name the file" });
}

/** Longest task a command sends: fits into one line of the protocol however much of it JSON has to escape. */
export const MAX_TASK_BYTES = 1024 * 1024;
