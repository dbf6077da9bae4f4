import type { CliIo } from "../../src/cli/io.ts";

/** A command's surroundings without a process: what was written is kept, Ctrl-C and the end are called by the test. */
export interface FakeIo extends CliIo {
  out(): string;
  err(): string;
  /** Standard output as JSON lines. */
  lines(): unknown[];
  /** Ctrl-C; before anybody listens it is kept for the first who does. */
  interrupt(): void;
  /** Adds to standard input; `null` ends it. */
  type(text: string | Uint8Array | null): void;
}

export function fakeIo(
  options: { env?: Record<string, string>; cwd?: string; isTTY?: boolean; stdin?: string | Uint8Array } = {},
): FakeIo {
  const { env = {}, cwd = "/", isTTY = false } = options;
  const written = { out: "", err: "" };
  const handlers: (() => void)[] = [];
  const input = new TransformStream<Uint8Array, Uint8Array>(undefined, { highWaterMark: 100 }, { highWaterMark: 100 });
  const writer = input.writable.getWriter();
  const type = (text: string | Uint8Array | null) => {
    const done = text === null ? writer.close() : writer.write(typeof text === "string" ? Buffer.from(text) : text);
    done.catch(() => undefined); // Nobody reads any more.
  };
  if (options.stdin !== undefined) {
    type(options.stdin);
    type(null);
  }
  const keep = (stream: "out" | "err") => (text: string) => {
    written[stream] += text;
  };
  let owed = 0;
  return {
    stdin: { isTTY, [Symbol.asyncIterator]: () => input.readable[Symbol.asyncIterator]() },
    stdout: { isTTY, write: keep("out") },
    stderr: { isTTY, write: keep("err") },
    env,
    cwd,
    signal: new AbortController().signal,
    onInterrupt(handler) {
      handlers.push(handler);
      for (; owed > 0; owed--) queueMicrotask(handler);
      return () => void handlers.splice(handlers.indexOf(handler), 1);
    },
    out: () => written.out,
    err: () => written.err,
    lines: () =>
      written.out
        .split("\n")
        .filter((line) => line !== "")
        .map((line): unknown => JSON.parse(line)),
    interrupt: () => {
      const handler = handlers.at(-1);
      if (handler === undefined) owed++;
      else handler();
    },
    type,
  };
}
