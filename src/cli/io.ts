import type { Environment } from "../registry/places.ts";

/** Where a command's words go. `write` never throws; a reader that went away aborts `CliIo.signal`. */
export interface Output {
  write(text: string): void;
  readonly isTTY: boolean;
  /** Width of the terminal now; undefined where there is none. */
  readonly columns?: number | undefined;
}

/** Everything a command may touch of its process, so that tests can hand it something else. */
export interface CliIo {
  /** Bytes of standard input. */
  readonly stdin: AsyncIterable<Uint8Array> & { readonly isTTY: boolean };
  /** The command's result: with `--json` pure JSON, nothing else. */
  readonly stdout: Output;
  /** Messages, progress and errors for people. */
  readonly stderr: Output;
  readonly env: Environment;
  /** The directory the command was called in, absolute. */
  readonly cwd: string;
  /** Aborts when nobody reads our output any more, or at SIGTERM and SIGHUP: clean up and return. */
  readonly signal: AbortSignal;
  /**
   * Calls `handler` at each Ctrl-C instead of ending the process, until the returned function is called. Without a handler a Ctrl-C
   * aborts `signal`.
   */
  onInterrupt(handler: () => void): () => void;
}

/** Exit codes of every command (docs/cli.md). */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  refused: 4,
  storage: 5,
  timedOut: 124,
  interrupted: 130,
} as const;
