import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../base/errors.ts";
import { isJsonObject, parseJson } from "../base/json.ts";
import type { Places } from "../registry/places.ts";
import type { PodRow } from "../registry/pod-row.ts";

/** A session whose log cannot be opened. */
export interface DamagedSession {
  readonly session: string;
  readonly reason: string;
}

/** Most of a first line that is looked at: enough to tell a log from rubbish without reading it whole. */
const LOOK_BYTES = 64 * 1024;
const EMPTY = " is empty";
const UNFINISHED = ": line 1 is not finished";

/**
 * Session folders whose log does not even begin as one (field report B84): a quick look, the proof is `wakeful log verify`. Those of
 * living Pods are left out. One bad folder never hides another.
 */
export async function damagedSessions(places: Pick<Places, "data">, rows: readonly PodRow[]): Promise<readonly DamagedSession[]> {
  const directory = join(places.data, "sessions");
  const living = new Set(rows.filter((row) => row.alive).map((row) => row.session));
  const names = await readdir(directory).catch(() => []); // No sessions yet.
  const looked = await Promise.all(
    names
      .filter((name) => !living.has(name))
      .map(async (session) => ({ session, reason: await faultOf(join(directory, session)) })),
  );
  return looked.filter((one): one is DamagedSession => one.reason !== undefined);
}

async function faultOf(folder: string): Promise<string | undefined> {
  try {
    if (!(await stat(folder)).isDirectory()) return undefined; // Not a session.
    const files = (await readdir(folder)).filter((name) => /^\d{6,}\.jsonl$/.test(name)).sort();
    const newest = files.at(-1);
    if (newest === undefined) return "it has no log";
    const fault = await faultOfFile(join(folder, newest), newest);
    // A later file that was only begun is removed by the next start, which goes on in the one before it.
    const before = files.at(-2);
    const isBegun = fault?.endsWith(UNFINISHED) || fault?.endsWith(EMPTY);
    return isBegun && before !== undefined ? await faultOfFile(join(folder, before), before) : fault;
  } catch (thrown) {
    return `it cannot be read (${systemCode(thrown) ?? "error"})`;
  }
}

async function faultOfFile(path: string, name: string): Promise<string | undefined> {
  const stats = await stat(path);
  if (!stats.isFile()) return `${name} is not a file`;
  if (stats.size === 0) return `${name}${EMPTY}`;
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(LOOK_BYTES), 0, LOOK_BYTES, 0);
    const end = buffer.subarray(0, bytesRead).indexOf(0x0a);
    // A first line longer than the look is judged by its beginning.
    if (end === -1 && bytesRead === LOOK_BYTES) return buffer[0] === 0x7b ? undefined : `${name}: line 1 is not an entry`;
    if (end === -1) return `${name}${UNFINISHED}`;
    const line = parseJson(buffer.toString("utf8", 0, end));
    return line.ok && isJsonObject(line.value) && line.value["type"] !== undefined
      ? undefined
      : `${name}: line 1 is not an entry`;
  } finally {
    await file.close();
  }
}
