import { existsSync } from "node:fs";
import { AppError } from "../../base/errors.ts";
import { findPod, notFound } from "../../client/find-pod.ts";
import { sessionDir } from "../../registry/places.ts";
import type { PodRow } from "../../registry/pod-row.ts";
import { usageError } from "../exit.ts";
import { toInert } from "../inert.ts";
import type { CliIo } from "../io.ts";
import type { ParsedArgs } from "../parse-args.ts";
import { placesOf } from "../reach.ts";

/** A session whose log is looked at, living or not. */
export interface FoundSession {
  readonly session: string;
  readonly directory: string;
  /** Undefined where the registry does not know it or cannot be read: the logs are the truth. */
  readonly row: PodRow | undefined;
}

/** The session of that name or id. Throws `not_found` with what looks like it. */
export async function findSession(args: ParsedArgs, io: CliIo): Promise<FoundSession> {
  const target = args.positionals[0] ?? "";
  const places = placesOf(io);
  try {
    const found = await findPod(places, target, { signal: io.signal });
    if (found.kind === "unknown") throw notFound(target, found);
    const session = found.row?.session ?? target;
    return { session, directory: sessionDir(places, session), row: found.row };
  } catch (thrown) {
    if (!(thrown instanceof AppError) || thrown.code === "not_found" || thrown.code === "cancelled") throw thrown;
    if (!/^[A-Za-z0-9_-]{1,128}$/.test(target) || !existsSync(sessionDir(places, target))) throw thrown;
    io.stderr.write(`note: the registry cannot be asked (${toInert(thrown.message)}); the log is read without it\n`);
    return { session: target, directory: sessionDir(places, target), row: undefined };
  }
}

/** The value of an option that is a whole number from 0 on, or undefined. */
export function countOption(args: ParsedArgs, name: string): number | undefined {
  const text = args.value(name);
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw usageError(`--${name} is '${text.slice(0, 100)}', which is no whole number`, `write for example --${name} 20`);
}
