import { closeSync, fdatasync, fdatasyncSync, fsyncSync, ftruncateSync, openSync, renameSync, writeSync } from "node:fs";
import { AppError, messageOf, systemCode } from "../base/errors.ts";

/** The system calls behind a log, replaceable so that tests can make a disk slow or fail. */
export class LogDisk {
  write(descriptor: number, bytes: Buffer, offset: number, position: number): number {
    return writeSync(descriptor, bytes, offset, bytes.length - offset, position);
  }

  truncate(descriptor: number, size: number): void {
    ftruncateSync(descriptor, size);
  }

  sync(descriptor: number, done: (error: Error | null) => void): void {
    fdatasync(descriptor, done);
  }

  syncNow(descriptor: number): void {
    fdatasyncSync(descriptor);
  }

  rename(from: string, to: string): void {
    renameSync(from, to);
  }

  /** Makes the names in a folder durable. */
  syncDirectory(path: string): void {
    const descriptor = openSync(path, "r");
    try {
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  }
}

/** Writes all bytes from `position` on, however few the disk takes at a time. */
export function writeWhole(disk: LogDisk, descriptor: number, bytes: Buffer, position: number): void {
  for (let written = 0; written < bytes.length; ) {
    const count = disk.write(descriptor, bytes, written, position + written);
    if (count === 0) throw new Error("the disk took no more bytes");
    written += count;
  }
}

/** The error for a disk that refuses, with what to do. */
export function storageError(what: string, cause: unknown): AppError {
  const code = systemCode(cause);
  const hint =
    code === "ENOSPC" || code === "EDQUOT"
      ? "there is no space left on the disk: free some, then try again"
      : "check the disk and its permissions, then try again";
  return new AppError("storage_failed", `${what}: ${messageOf(cause)}`, { hint, cause });
}
