import { Buffer } from "node:buffer";
import { prefixOf, suffixOf, toSafeText, utf8Bytes } from "../base/text.ts";
import { sizeText } from "./tool-output.ts";

/** Characters for the note about what is left out. */
const NOTE_CHARS = 60;

/**
 * Takes a program's output of any length and keeps its start and its end: memory is bounded by the cap, whatever comes (B109). Bytes are
 * decoded as UTF-8 with U+FFFD for what is not (B113), NUL is shown as U+2400 (B111).
 */
export class OutputCollector {
  /** Bytes kept of each end: half the characters, at most four bytes each. */
  readonly #endBytes: number;
  readonly #head: Buffer;
  #headLength = 0;
  /** A ring: the newest byte is before `#tailNext`. Made when the head is full. */
  #tail: Buffer | undefined;
  #tailNext = 0;
  #total = 0;

  constructor(maxChars: number) {
    this.#endBytes = maxChars * 2;
    this.#head = Buffer.alloc(this.#endBytes);
  }

  /** Bytes that came. */
  get totalBytes(): number {
    return this.#total;
  }

  add(chunk: Buffer): void {
    this.#total += chunk.length;
    const toHead = Math.min(chunk.length, this.#endBytes - this.#headLength);
    if (toHead > 0) {
      chunk.copy(this.#head, this.#headLength, 0, toHead);
      this.#headLength += toHead;
    }
    if (toHead < chunk.length) this.#addToTail(chunk.subarray(toHead));
  }

  #addToTail(bytes: Buffer): void {
    this.#tail ??= Buffer.alloc(this.#endBytes);
    const newest = bytes.length > this.#endBytes ? bytes.subarray(bytes.length - this.#endBytes) : bytes;
    const first = Math.min(newest.length, this.#endBytes - this.#tailNext);
    newest.copy(this.#tail, this.#tailNext, 0, first);
    newest.copy(this.#tail, 0, first);
    this.#tailNext = (this.#tailNext + newest.length) % this.#endBytes;
  }

  /** The output in at most `maxChars` characters; where something is left out in its middle a note says how much (I10). */
  text(maxChars: number): string {
    const tail = this.#tailBytes();
    const headBytes = this.#head.subarray(0, this.#headLength);
    const isWhole = headBytes.length + tail.length === this.#total;
    if (isWhole) {
      const whole = decode(Buffer.concat([headBytes, tail]));
      if (whole.length <= maxChars) return whole;
      return this.#cut(whole, whole, maxChars);
    }
    return this.#cut(decode(withoutCutEnd(headBytes)), decode(withoutCutStart(tail)), maxChars);
  }

  #cut(head: string, tail: string, maxChars: number): string {
    const half = Math.max(0, Math.floor((maxChars - NOTE_CHARS) / 2));
    const start = prefixOf(head, half);
    const end = suffixOf(tail, half);
    // Replaced bytes count as what they are shown as: hence "about".
    const leftOut = Math.max(1, this.#total - utf8Bytes(start) - utf8Bytes(end));
    return `${start}\n[... about ${sizeText(leftOut)} left out ...]\n${end}`;
  }

  #tailBytes(): Buffer {
    if (this.#tail === undefined) return Buffer.alloc(0);
    const came = this.#total - this.#headLength;
    if (came <= this.#endBytes) return this.#tail.subarray(0, came);
    return Buffer.concat([this.#tail.subarray(this.#tailNext), this.#tail.subarray(0, this.#tailNext)]);
  }
}

function decode(bytes: Uint8Array): string {
  return toSafeText(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
}

/** Drops continuation bytes of a character whose start is missing. */
export function withoutCutStart(bytes: Buffer): Buffer {
  let start = 0;
  while (start < Math.min(3, bytes.length) && isContinuation(bytes[start])) start++;
  return bytes.subarray(start);
}

/** Drops the start of a character whose end is missing. */
export function withoutCutEnd(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if (isContinuation(byte) || byte === undefined) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
