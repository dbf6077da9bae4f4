import { createHash } from "node:crypto";
import type { BigIntStats } from "node:fs";

/** Files up to this size are known by their content, bigger ones by size, time and inode: hashing those at every call would be felt. */
export const MAX_HASHED_BYTES = 8 * 1024 * 1024;

/** Fingerprint of a file known by its content. */
export function contentFingerprint(content: Uint8Array): string {
  return hashFingerprint(createHash("sha256").update(content).digest("hex"));
}

/** The same from a digest that was made while reading. */
export function hashFingerprint(sha256: string): string {
  return `sha256:${sha256}`;
}

/** Fingerprint of a file too big to be hashed. */
export function statFingerprint(stat: Pick<BigIntStats, "size" | "mtimeNs" | "ino">): string {
  return `stat:${stat.size}:${stat.mtimeNs}:${stat.ino}`;
}

/** Fingerprint of a file whose whole content is at hand. */
export function fingerprintOf(content: Uint8Array, stat: BigIntStats): string {
  return content.length <= MAX_HASHED_BYTES ? contentFingerprint(content) : statFingerprint(stat);
}
