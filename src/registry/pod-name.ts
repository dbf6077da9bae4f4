import { createHash } from "node:crypto";
import { basename } from "node:path";
import { AppError } from "../base/errors.ts";
import { randomText } from "../base/ids.ts";
import { toSafeText, utf8Bytes } from "../base/text.ts";

/** Longest Pod name, UTF-8 bytes. */
export const MAX_NAME_BYTES = 255;
// A default name stays readable in a table; the hash tells equal ones apart.
const MAX_FOLDER_BYTES = 48;
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/**
 * The Pod name in the form it is stored and compared in (Unicode NFC): 1 to 255 bytes, no `/`, no control character, no leading `-`
 * (it would be read as an option), not `.` or `..`. Throws `invalid_input` saying which rule is broken.
 */
export function parsePodName(text: string): string {
  const name = text.normalize("NFC");
  const fault = faultOf(name);
  if (fault === undefined) return name;
  throw new AppError(
    "invalid_input",
    `'${toSafeText(name).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, "?")}' cannot be the name of a Pod: ${fault}`,
    {
      hint: `A name has 1 to ${MAX_NAME_BYTES} bytes, no '/', no control characters and no leading '-'.`,
    },
  );
}

function faultOf(name: string): string | undefined {
  if (name === "") return "it is empty";
  if (!name.isWellFormed()) return "it is not valid Unicode";
  if (utf8Bytes(name) > MAX_NAME_BYTES) return `it has ${utf8Bytes(name)} bytes`;
  if (name.includes("/")) return "it contains '/'";
  if (CONTROL.test(name)) return "it contains a control character";
  if (name.startsWith("-")) return "it begins with '-'";
  if (name === "." || name === "..") return "it means a folder";
  return undefined;
}

/** The name of a directory's own Pod: its folder's name and a short hash of its whole path. `cwd` is a real path. */
export function defaultPodName(cwd: string): string {
  return `${folderPart(cwd)}-${createHash("sha256").update(cwd).digest("hex").slice(0, 6)}`;
}

/** A name for one more Pod in a directory: its folder's name and random characters. */
export function freshPodName(cwd: string): string {
  return `${folderPart(cwd)}-${randomText(6)}`;
}

function folderPart(cwd: string): string {
  const folder = toSafeText(basename(cwd)).normalize("NFC");
  // Separated by characters, so that cutting leaves no half one.
  let part = "";
  for (const character of folder.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\p{Zs}]/gu, "-").replace(/^[-.]+/u, "")) {
    if (utf8Bytes(part + character) > MAX_FOLDER_BYTES) break;
    part += character;
  }
  return part === "" ? "pod" : part;
}
