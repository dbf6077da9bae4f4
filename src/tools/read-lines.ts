import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { prefixOf } from "../base/text.ts";
import { MAX_HASHED_BYTES } from "./fingerprint.ts";
import { markBytes, type TextForm } from "./text-form.ts";

export interface LineRequest {
  /** Bytes of the file as its directory entry says; 0 for files that are made as they are read. */
  readonly size: bigint;
  readonly form: TextForm;
  /** First line, 1-based. */
  readonly offset: number;
  readonly limit: number;
  readonly maxChars: number;
  readonly signal: AbortSignal;
}

/** A part of a file, by whole lines unless one line alone is too long. */
export interface LineWindow {
  /** As stored, except that CRLF line ends are LF. */
  readonly text: string;
  /** Lines in `text`. */
  readonly lines: number;
  /** `text` ends inside a line that is longer than the cap. */
  readonly cutInLine: boolean;
  /** Lines of the whole file; undefined when it was not read to its end. */
  readonly totalLines: number | undefined;
  readonly crlf: boolean;
  /** SHA-256 of the whole file, hex; undefined when it was too big or not read to its end. */
  readonly sha256: string | undefined;
}

const CHUNK_BYTES = 64 * 1024;
/** A file without line breaks or with a far offset is searched this far. Bounds the time, as a sparse file can be endless (B109). */
const MAX_SCANNED_BYTES = 1024 * 1024 * 1024;

/**
 * Reads lines out of an open file, in chunks: memory does not grow with the file (B109). Small files are read to their end, for the line count
 * and the fingerprint; a big one only as far as it is needed. Undecodable bytes become U+FFFD (B113). Rejects when the signal aborts.
 */
export async function readLines(handle: FileHandle, request: LineRequest): Promise<LineWindow> {
  const { form, signal } = request;
  const toEnd = request.size <= MAX_HASHED_BYTES;
  const decoder = new TextDecoder(form.encoding === "utf8" ? "utf-8" : form.encoding === "utf16le" ? "utf-16le" : "utf-16be", {
    ignoreBOM: true,
  });
  const picker = new LinePicker(request);
  const hash = createHash("sha256");
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let position = 0;
  let atEnd = false;
  let skip = markBytes(form).length;
  while ((toEnd && position <= MAX_HASHED_BYTES) || (!picker.done && position < MAX_SCANNED_BYTES)) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
    if (bytesRead === 0) {
      atEnd = true;
      break;
    }
    const bytes = chunk.subarray(0, bytesRead);
    if (toEnd && position <= MAX_HASHED_BYTES) hash.update(bytes);
    picker.take(decoder.decode(bytes.subarray(skip), { stream: true }));
    skip = Math.max(0, skip - bytesRead);
    position += bytesRead;
  }
  if (atEnd) picker.take(decoder.decode());
  return { ...picker.result(atEnd), sha256: atEnd && toEnd && position <= MAX_HASHED_BYTES ? hash.digest("hex") : undefined };
}

/** Collects the asked lines out of pieces of text, and counts all. */
class LinePicker {
  readonly #request: LineRequest;
  readonly #parts: string[] = [];
  #chars = 0;
  #line = 1;
  #atLineStart = true;

  constructor(request: LineRequest) {
    this.#request = request;
  }

  /** True when nothing that follows can be part of the window. */
  get done(): boolean {
    return this.#line >= this.#request.offset + this.#request.limit || this.#chars > this.#collectedChars;
  }

  /** CRLF become one character later, so up to twice the cap may be needed. */
  get #collectedChars(): number {
    return this.#request.maxChars * 2;
  }

  take(piece: string): void {
    for (let from = 0; from < piece.length; ) {
      const lineEnd = piece.indexOf("\n", from);
      const to = lineEnd === -1 ? piece.length : lineEnd + 1;
      if (this.#line >= this.#request.offset && !this.done) this.#collect(piece.slice(from, to));
      this.#atLineStart = lineEnd !== -1;
      if (lineEnd !== -1) this.#line++;
      from = to;
    }
  }

  #collect(text: string): void {
    const part = prefixOf(text, this.#collectedChars - this.#chars + 2);
    this.#parts.push(part);
    this.#chars += part.length;
  }

  result(atEnd: boolean): Omit<LineWindow, "sha256"> {
    const collected = this.#parts.join("");
    const all = collected.replaceAll("\r\n", "\n");
    const crlf = all.length < collected.length;
    const totalLines = atEnd ? this.#line - (this.#atLineStart ? 1 : 0) : undefined;
    const { maxChars } = this.#request;
    if (all.length <= maxChars) return { text: all, lines: countLines(all), cutInLine: false, totalLines, crlf };
    const lastEnd = all.lastIndexOf("\n", maxChars - 1);
    const text = lastEnd === -1 ? prefixOf(all, maxChars) : all.slice(0, lastEnd + 1);
    return { text, lines: countLines(text), cutInLine: lastEnd === -1, totalLines, crlf };
  }
}

function countLines(text: string): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines++;
  return lines + (text === "" || text.endsWith("\n") ? 0 : 1);
}
