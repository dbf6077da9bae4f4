import { AppError } from "../base/errors.ts";
import { LineDecoder } from "../transport/line-decoder.ts";
import { MAX_TASK_BYTES } from "./input-text.ts";
import type { CliIo } from "./io.ts";

/** Lines that a terminal delivers this close together, milliseconds, were pasted, not typed. */
const PASTE_WINDOW_MS = 40;
/** A terminal hands over no more than this of a line, bytes, and drops the rest without a word (N_TTY; MAX_CANON elsewhere). */
const TERMINAL_LINE_BYTES = process.platform === "linux" ? 4095 : 1023;

/**
 * What a person types, message by message: each line is one, except that lines pasted into a terminal stay together (field report
 * B136). Empty lines are skipped. Ends with the input or when `io.signal` aborts.
 */
export async function* typedMessages(io: CliIo): AsyncGenerator<string> {
  const decoder = new LineDecoder({ maxBytes: MAX_TASK_BYTES });
  const chunks = io.stdin[Symbol.asyncIterator]();
  let next = chunks.next();
  // A last line without its end is what a script's `printf text |` sends: it counts here, unlike on a socket.
  for (let isOpen = true; isOpen; ) {
    const lines: string[] = [];
    for (;;) {
      const read = await (lines.length > 0 && io.stdin.isTTY ? within(next, PASTE_WINDOW_MS) : next);
      if (read === undefined) break;
      isOpen = read.done !== true;
      const { lines: more, error } = decoder.push(read.done ? Uint8Array.of(0x0a) : read.value);
      if (error !== undefined)
        throw new AppError(error.code, `what was typed cannot be read: ${error.message}`, { cause: error });
      lines.push(...more);
      if (!isOpen) break;
      next = chunks.next();
      if (!io.stdin.isTTY) break;
    }
    if (lines.length === 0) continue;
    if (io.stdin.isTTY && lines.some((line) => Buffer.byteLength(line) >= TERMINAL_LINE_BYTES)) {
      // Half a message is worse than none.
      io.stderr.write(
        `not sent: a terminal cuts lines at ${TERMINAL_LINE_BYTES} bytes. Break it into lines, or send a file: wakeful send NAME - < FILE\n`,
      );
    } else if (io.stdin.isTTY) yield lines.join("\n");
    else yield* lines;
  }
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
