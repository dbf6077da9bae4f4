import { connect, resultOf } from "../client/connection.ts";
import type { Status } from "../protocol/status.ts";
import type { PodRow } from "../registry/pod-row.ts";
import type { CliIo } from "./io.ts";

/** A living Pod must say how it is within this time, milliseconds; then what the registry knows is shown. */
const STATUS_DEADLINE_MS = 1500;

/** What a living Pod says about itself, or undefined when it does not answer in time. */
export async function askStatus(row: PodRow, io: CliIo): Promise<Status | undefined> {
  try {
    await using connection = await connect(row.address, { signal: io.signal, deadlineMs: STATUS_DEADLINE_MS });
    return resultOf(await connection.request("status", {}, { signal: io.signal, deadlineMs: STATUS_DEADLINE_MS }));
  } catch {
    return undefined; // It may have ended just now, or hang: `ps` shows that, it does not fail because of it.
  }
}
