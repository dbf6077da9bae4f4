import { AppError } from "../base/errors.ts";

/**
 * Bytes of a stream to lines of text (protocol.md). Rules:
 * 1. A line ends at `\n` and nowhere else: U+2028, U+2029 and U+0085 are legal inside JSON strings.
 * 2. One trailing `\r` is tolerated, empty lines are skipped.
 * 3. What a read cuts, a line or a character, is kept until its end arrives (field report B104).
 * 4. Longer than `maxBytes` (line break not counted) or not UTF-8: one error, once; afterwards the stream is not read any more,
 *    because nothing says where its next line begins. Memory stays below the cap whatever arrives.
 * 5. Time is linear in the bytes, however they are cut: a line that arrives byte by byte is copied into a buffer that doubles.
 * 6. Bytes after the last `\n` are never a line: whoever reads the end of the stream drops the decoder with them.
 */
export class LineDecoder {
  readonly #maxBytes: number;
  readonly #utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #buffer = Buffer.alloc(0);
  #length = 0;
  #failed = false;

  constructor(options: { readonly maxBytes: number }) {
    this.#maxBytes = options.maxBytes;
  }

  /** Bytes of the unfinished line. */
  get pendingBytes(): number {
    return this.#length;
  }

  /** True once `push` reported an error: everything later is ignored. */
  get failed(): boolean {
    return this.#failed;
  }

  /**
   * Takes what one read gave. Returns the lines that were completed, in order, and at most once in the life of the decoder an error
   * (`too_large` or `invalid_input`), which stands behind the lines before it. The bytes are not kept.
   */
  push(chunk: Uint8Array): DecodedLines {
    if (this.#failed) return { lines: [], error: undefined };
    const lines: string[] = [];
    let start = 0;
    while (start < chunk.length) {
      const end = chunk.indexOf(NEWLINE, start);
      if (end === -1) {
        const error = this.#keep(chunk.subarray(start));
        return error ? this.#fail(lines, error) : { lines, error: undefined };
      }
      const error = this.#finish(chunk.subarray(start, end), lines);
      if (error) return this.#fail(lines, error);
      start = end + 1;
    }
    return { lines, error: undefined };
  }

  #finish(rest: Uint8Array, lines: string[]): AppError | undefined {
    let line = rest;
    if (this.#length > 0) {
      const error = this.#keep(rest);
      if (error) return error;
      line = this.#buffer.subarray(0, this.#length);
    }
    const size = line.at(-1) === CARRIAGE_RETURN ? line.length - 1 : line.length;
    if (size > this.#maxBytes) return this.#tooLong();
    if (size > 0) {
      try {
        lines.push(this.#utf8.decode(line.subarray(0, size)));
      } catch (thrown) {
        return new AppError("invalid_input", "a line is not valid UTF-8", {
          cause: thrown,
          hint: "send one JSON object a line, in UTF-8",
        });
      }
    }
    this.#release();
    return undefined;
  }

  #keep(part: Uint8Array): AppError | undefined {
    const length = this.#length + part.length;
    // One byte more than the cap can still turn out to be the `\r` of the line break.
    if (length > this.#maxBytes + 1) return this.#tooLong();
    if (length > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.min(Math.max(length, this.#buffer.length * 2, MIN_BUFFER_BYTES), this.#maxBytes + 1));
      this.#buffer.copy(grown, 0, 0, this.#length);
      this.#buffer = grown;
    }
    this.#buffer.set(part, this.#length);
    this.#length = length;
    return length > this.#maxBytes && this.#buffer[length - 1] !== CARRIAGE_RETURN ? this.#tooLong() : undefined;
  }

  #tooLong(): AppError {
    return new AppError("too_large", `a line is longer than ${this.#maxBytes} bytes`, { hint: "send less in one message" });
  }

  #fail(lines: readonly string[], error: AppError): DecodedLines {
    this.#failed = true;
    this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    return { lines, error };
  }

  #release(): void {
    this.#length = 0;
    // An idle connection must not hold on to the memory of its longest line.
    if (this.#buffer.length > KEEP_BUFFER_BYTES) this.#buffer = Buffer.alloc(0);
  }
}

/** What one read completed. */
export interface DecodedLines {
  readonly lines: readonly string[];
  readonly error: AppError | undefined;
}

const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const MIN_BUFFER_BYTES = 1024;
const KEEP_BUFFER_BYTES = 64 * 1024;
