import { Buffer } from "node:buffer";

/**
 * How a text file is stored. The file tools work on *units*: a string with one character for each byte (UTF-8, and whatever else is not
 * UTF-16) or for each 16-bit unit (UTF-16), without the byte order mark. Units hold every byte, also those that are no valid text, so what a
 * change does not touch stays as it is; line breaks are "\n" and "\r\n" in both.
 */
export interface TextForm {
  readonly encoding: "utf8" | "utf16le" | "utf16be";
  /** Whether the file begins with a byte order mark. UTF-16 is only recognised by it. */
  readonly mark: boolean;
}

/** The form of new files. */
export const PLAIN_FORM: TextForm = { encoding: "utf8", mark: false };

const MARK = "\ufeff";
const UTF8_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const UTF16LE_MARK = Buffer.from([0xff, 0xfe]);
const UTF16BE_MARK = Buffer.from([0xfe, 0xff]);
const UTF32LE_MARK = Buffer.from([0xff, 0xfe, 0, 0]);

/** The form that the first bytes of a file show. */
export function textFormOf(head: Uint8Array): TextForm {
  if (startsWith(head, UTF8_MARK)) return { encoding: "utf8", mark: true };
  if (startsWith(head, UTF32LE_MARK)) return PLAIN_FORM;
  if (startsWith(head, UTF16LE_MARK)) return { encoding: "utf16le", mark: true };
  if (startsWith(head, UTF16BE_MARK)) return { encoding: "utf16be", mark: true };
  return PLAIN_FORM;
}

/** Bytes of the byte order mark. */
export function markBytes(form: TextForm): Buffer {
  if (!form.mark) return Buffer.alloc(0);
  switch (form.encoding) {
    case "utf8":
      return UTF8_MARK;
    case "utf16le":
      return UTF16LE_MARK;
    case "utf16be":
      return UTF16BE_MARK;
  }
}

/** The units of a whole file; undefined for UTF-16 with an odd number of bytes, which no string can hold. */
export function toUnits(bytes: Buffer, form: TextForm): string | undefined {
  const body = bytes.subarray(markBytes(form).length);
  if (form.encoding === "utf8") return body.toString("latin1");
  if (body.length % 2 !== 0) return undefined;
  return form.encoding === "utf16le" ? body.toString("utf16le") : Buffer.from(body).swap16().toString("utf16le");
}

/** The bytes of a whole file: the inverse of {@link toUnits}. */
export function fromUnits(units: string, form: TextForm): Buffer {
  const body = Buffer.from(units, form.encoding === "utf8" ? "latin1" : "utf16le");
  return Buffer.concat([markBytes(form), form.encoding === "utf16be" ? body.swap16() : body]);
}

/** A text from the model as units. A byte order mark at its start is dropped: the form has it, once (B129). */
export function textToUnits(text: string, form: TextForm): string {
  const plain = text.startsWith(MARK) && form.mark ? text.slice(1) : text;
  return form.encoding === "utf8" ? Buffer.from(plain, "utf8").toString("latin1") : plain;
}

/** Units as text for people and models; what is not valid becomes U+FFFD. */
export function unitsToText(units: string, form: TextForm): string {
  return form.encoding === "utf8" ? Buffer.from(units, "latin1").toString("utf8") : units.toWellFormed();
}

/** How the lines of some text end: `mixed` when both kinds occur, `none` without any line break. */
export function lineEndsOf(units: string): "lf" | "crlf" | "mixed" | "none" {
  let crlf = 0;
  let lf = 0;
  for (let at = units.indexOf("\n"); at !== -1; at = units.indexOf("\n", at + 1)) {
    if (units[at - 1] === "\r") crlf++;
    else lf++;
    if (crlf > 0 && lf > 0) return "mixed";
  }
  return crlf > 0 ? "crlf" : lf > 0 ? "lf" : "none";
}

function startsWith(bytes: Uint8Array, start: Uint8Array): boolean {
  return bytes.length >= start.length && start.every((byte, i) => bytes[i] === byte);
}
