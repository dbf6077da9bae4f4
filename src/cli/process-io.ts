import { isatty, type WriteStream } from "node:tty";
import { AppError, systemCode } from "../base/errors.ts";
import { SILENT } from "./exit.ts";
import type { CliIo, Output } from "./io.ts";

/** The command's process as a {@link CliIo}, and what its main program needs besides. */
export interface ProcessIo {
  readonly io: CliIo;
  /** Resolves when everything written has left the process. */
  flush(): Promise<void>;
  /** True once the reader of standard output went away: not an error of ours. */
  readerIsGone(): boolean;
  /** Why standard output could not be written, such as a full disk; undefined while it can. */
  failure(): AppError | undefined;
}

/** Takes over the process's streams and signals. */
export function processIo(): ProcessIo {
  const ending = new AbortController();
  let isGone = false;
  let failure: AppError | undefined;
  const onStreamError = (thrown: Error) => {
    const code = systemCode(thrown) ?? "error";
    // A reader that left (`| head`) ends the command, quietly; so does a terminal that was closed.
    if (code === "EPIPE" || code === "EIO" || code === "ERR_STREAM_DESTROYED") isGone = true;
    else {
      const hint = code === "ENOSPC" ? "there is no space left where it goes" : "check where it goes";
      failure ??= new AppError("storage_failed", `standard output cannot be written (${code})`, { hint, cause: thrown });
    }
    ending.abort(new AppError("cancelled", `standard output cannot be written (${code})`, { details: SILENT, cause: thrown }));
  };
  process.stdout.on("error", onStreamError);
  // Nobody to tell when standard error is gone.
  process.stderr.on("error", () => undefined);
  const handlers: (() => void)[] = [];
  process.on("SIGINT", () => {
    const handler = handlers.at(-1);
    if (handler !== undefined) handler();
    else ending.abort(new AppError("cancelled", "interrupted"));
  });
  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => ending.abort(new AppError("cancelled", `ended by ${signal}`)));
  }
  const io: CliIo = {
    // Touched only when it is read: an open standard input would keep the process alive.
    stdin: { isTTY: isatty(0), [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator]() },
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    env: process.env,
    cwd: currentDirectory(),
    signal: ending.signal,
    onInterrupt(handler) {
      handlers.push(handler);
      return () => {
        const index = handlers.lastIndexOf(handler);
        if (index !== -1) handlers.splice(index, 1);
      };
    },
  };
  const flush = async () => {
    for (const stream of [process.stdout, process.stderr]) {
      if (stream.writable) await new Promise<void>((resolve) => stream.write("", () => resolve()));
    }
    // A failed write to a file is reported only behind the call that made it.
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { io, flush, readerIsGone: () => isGone, failure: () => failure };
}

/** The directory we were called in; one that was deleted keeps its name where the shell told it, so that messages can say it. */
function currentDirectory(): string {
  try {
    return process.cwd();
  } catch {
    return process.env["PWD"] ?? "/";
  }
}

function outputOf(stream: WriteStream): Output {
  return {
    write: (text) => {
      if (stream.writable) stream.write(text);
    },
    isTTY: stream.isTTY === true,
    get columns() {
      return stream.isTTY && stream.columns > 0 ? stream.columns : undefined;
    },
  };
}
