import { Buffer } from "node:buffer";
import type { BigIntStats } from "node:fs";
import { contentFingerprint, MAX_HASHED_BYTES, statFingerprint } from "./fingerprint.ts";
import { reasonOf } from "./real-path.ts";
import { type CheckedPath, type Refused, type ScopeGuard, shown } from "./scope-guard.ts";
import type { ReadFiles } from "./tool.ts";

/** A file as it is before a change. */
export interface ExistingFile {
  readonly ok: true;
  readonly stat: BigIntStats;
  /** The whole content, or its first part when the file is bigger than `maxBytes`. */
  readonly content: Buffer;
  readonly complete: boolean;
}

export interface NoFile {
  readonly ok: true;
  readonly stat: undefined;
}

/**
 * Opens and reads what is about to be changed, up to `maxBytes` (at least MAX_HASHED_BYTES). Refuses when this session saw it in another
 * state: what it knows is stale (B120).
 */
export async function readExisting(
  guard: ScopeGuard,
  path: CheckedPath,
  options: { readonly readFiles: ReadFiles; readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<ExistingFile | NoFile | Refused> {
  if (path.missing.length > 0) return { ok: true, stat: undefined };
  const opened = await guard.openFile(path);
  if (!opened.ok) return opened;
  const { handle, stat } = opened;
  try {
    const content = await readUpTo(handle, options);
    const complete = content.length <= options.maxBytes;
    const known = options.readFiles.get(path.realPath);
    if (known !== undefined) {
      const now = complete && content.length <= MAX_HASHED_BYTES ? contentFingerprint(content) : statFingerprint(stat);
      if (now !== known)
        return {
          ok: false,
          reason: `${shown(path.realPath)} has changed since it was read. Nothing was written: read it again first.`,
        };
    }
    return { ok: true, stat, content, complete };
  } catch (thrown) {
    options.signal.throwIfAborted();
    return { ok: false, reason: `${shown(path.realPath)} ${reasonOf(thrown)}.` };
  } finally {
    await handle.close();
  }
}

const CHUNK_BYTES = 1024 * 1024;

/** At most one chunk more than `maxBytes`, which shows that there is more. */
async function readUpTo(
  handle: { read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ bytesRead: number }> },
  options: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let total = 0;
  while (total <= options.maxBytes) {
    options.signal.throwIfAborted();
    const chunk = Buffer.alloc(total === 0 ? 64 * 1024 : CHUNK_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, total);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    total += bytesRead;
  }
  return Buffer.concat(chunks, total);
}
