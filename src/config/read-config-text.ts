import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from "node:fs";
import { AppError, systemCode } from "../base/errors.ts";

/** Far more than anybody writes by hand: what is larger is the wrong file. */
export const MAX_CONFIG_BYTES = 1024 * 1024;

/**
 * The text of a configuration or prompt file; undefined when there is none. Throws `configuration` naming the file when it is there and
 * cannot be used: no permission, a folder or a device, not UTF-8, too large.
 */
export function readConfigText(path: string): string | undefined {
  let descriptor: number;
  try {
    // NONBLOCK: opening a FIFO would wait for a writer for ever.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (thrown) {
    const code = systemCode(thrown);
    if (code === "ENOENT" && isLink(path)) throw cannotRead(path, "it is a link that leads nowhere", thrown);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw cannotRead(path, code === "EACCES" ? "there is no permission" : String(code), thrown);
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw cannotRead(path, stats.isDirectory() ? "it is a folder" : "it is not a file");
    if (stats.size > MAX_CONFIG_BYTES) throw cannotRead(path, `it has ${stats.size} bytes, more than ${MAX_CONFIG_BYTES}`);
    return decode(path, readFileSync(descriptor));
  } finally {
    closeSync(descriptor);
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function decode(path: string, bytes: Uint8Array): string {
  try {
    // Drops a leading byte order mark.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (thrown) {
    throw cannotRead(path, "it is not UTF-8 text", thrown);
  }
}

function cannotRead(path: string, why: string, cause?: unknown): AppError {
  return new AppError("configuration", `cannot read ${path}: ${why}`, { hint: "Mend the file or move it away.", cause });
}
