import { toInert } from "./inert.ts";

/**
 * Writes an answer as it streams, so that what a reader gets is the committed text, once. What a failed attempt had already written is
 * taken as the beginning of the next one while both agree; where they differ, the new text starts on a new line.
 */
export class AnswerPrinter {
  readonly #write: (text: string) => void;
  /** What stands on the screen of the current answer, and what the current attempt has said. */
  #printed = "";
  #current = "";
  #isMidLine = false;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  delta(text: string): void {
    const inStep = this.#current.length === this.#printed.length;
    this.#current += text;
    // The usual case without a comparison: the cost of a delta is its length.
    if (inStep) this.#put(text);
    else this.#catchUp();
  }

  /** The attempt failed: another one begins. */
  reset(): void {
    this.#current = "";
  }

  /** The committed text of one answer: completes what is on the screen. */
  commit(text: string): void {
    this.#current = text;
    this.#catchUp();
    this.end();
  }

  /** Starts a new line on the screen if one is unfinished, for a notice in between; the answer goes on behind it. */
  breakLine(): void {
    if (this.#isMidLine) this.#write("\n");
    this.#isMidLine = false;
  }

  /** Ends an answer that nobody will complete. */
  end(): void {
    this.breakLine();
    this.#printed = "";
    this.#current = "";
  }

  #catchUp(): void {
    if (this.#current.startsWith(this.#printed)) {
      this.#put(this.#current.slice(this.#printed.length));
    } else if (!this.#printed.startsWith(this.#current)) {
      this.breakLine();
      this.#printed = "";
      this.#put(this.#current);
    }
  }

  #put(text: string): void {
    if (text === "") return;
    this.#write(toInert(text));
    this.#printed += text;
    this.#isMidLine = !text.endsWith("\n");
  }
}
