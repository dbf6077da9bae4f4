import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { messageOf } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import { findPod, notFound } from "../client/find-pod.ts";
import { shellWord } from "../client/shell-word.ts";
import { loadConfig } from "../config/load-config.ts";
import type { Status } from "../protocol/status.ts";
import type { PodRow } from "../registry/pod-row.ts";
import { openRegistry } from "../registry/registry.ts";
import { toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import { paintFor } from "./paint.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { askStatus } from "./pod-status.ts";
import { placesOf } from "./reach.ts";

/** One thing looked at. `ok` false = something to do. */
interface Finding {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

interface PodFinding {
  readonly name: string;
  readonly status: string;
  readonly why: string;
}

/** `wakeful doctor`: is everything in place, and why is each living Pod (or the named one) idle. */
export async function runDoctorCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const findings = [...basics(io)];
  const { pods, finding } = await podsOf(args.positionals[0], io);
  if (finding !== undefined) findings.push(finding);
  const ok = findings.every((one) => one.ok);
  if (args.has("json")) io.stdout.write(`${JSON.stringify({ ok, findings, pods })}\n`);
  else {
    const paint = paintFor(io.stdout, io.env);
    for (const one of findings)
      io.stdout.write(`${one.ok ? "ok  " : paint.red("FIX ")} ${one.name}: ${toInertLine(one.detail, 400)}\n`);
    for (const pod of pods) io.stdout.write(`pod  ${toInertLine(pod.name)}: ${pod.status}; ${toInertLine(pod.why)}\n`);
  }
  return ok ? EXIT.done : EXIT.failed;
}

function* basics(io: CliIo): Generator<Finding> {
  yield { name: "version", ok: true, detail: `wakeful ${VERSION}, node ${process.versions.node}` };
  try {
    const places = placesOf(io);
    yield { name: "places", ok: true, detail: `data ${places.data}, sockets ${places.runtime}, configuration ${places.config}` };
    for (const note of places.notes) yield { name: "places", ok: true, detail: note };
    yield* configuration(io);
  } catch (thrown) {
    yield { name: "places", ok: false, detail: messageOf(thrown) };
  }
  const bwrap = onPath("bwrap", io);
  yield {
    name: "fence",
    ok: true,
    detail: `scope_enforcement tools_only: file tools keep the scope, the shell is not fenced by this version (bwrap ${bwrap ? "is" : "is not"} installed)`,
  };
}

function* configuration(io: CliIo): Generator<Finding> {
  try {
    const config = loadConfig({ cwd: io.cwd, env: io.env, places: placesOf(io) });
    for (const note of config.notes) yield { name: "configuration", ok: true, detail: note };
    const model = config.model.default;
    const variables = [...config.providers.all.values()].flatMap((provider) => provider.keyVariables);
    const keys = variables.map((variable) => `${variable} is ${io.env[variable]?.trim() ? "set" : "not set"}`);
    yield { name: "keys", ok: true, detail: keys.join(", ") };
    yield model === undefined
      ? {
          name: "model",
          ok: false,
          detail: "none is configured: set a key (see `wakeful models`), or [model] default; without a key: wakeful demo",
        }
      : { name: "model", ok: true, detail: model };
  } catch (thrown) {
    yield { name: "configuration", ok: false, detail: messageOf(thrown) };
  }
}

async function podsOf(
  target: string | undefined,
  io: CliIo,
): Promise<{ readonly pods: readonly PodFinding[]; readonly finding?: Finding }> {
  if (target !== undefined) {
    const found = await findPod(placesOf(io), target, { signal: io.signal });
    if (found.kind === "unknown") throw notFound(target, found);
    if (found.kind === "living") return { pods: [await toFinding(found.row, io)] };
    const reason = found.row?.ended?.reason ?? "its process died";
    return {
      pods: [
        {
          name: found.name,
          status: "stopped",
          why: `${reason === "user" ? "it was stopped on request" : reason}; bring it back: wakeful restore ${shellWord(found.name)}`,
        },
      ],
    };
  }
  try {
    await using registry = openRegistry(placesOf(io));
    const rows = await registry.list({ signal: io.signal });
    const pods = await Promise.all(rows.map((row) => toFinding(row, io)));
    return { pods, finding: { name: "registry", ok: true, detail: `${rows.length} living` } };
  } catch (thrown) {
    return { pods: [], finding: { name: "registry", ok: false, detail: messageOf(thrown) } };
  }
}

async function toFinding(row: PodRow, io: CliIo): Promise<PodFinding> {
  const status = await askStatus(row, io);
  if (status === undefined)
    return { name: row.name, status: row.status, why: `process ${row.process.pid} does not answer at ${row.address}` };
  return { name: row.name, status: status.state, why: reasonOf(status) };
}

/** Why a Pod does what it does now, in words. */
function reasonOf(status: Status): string {
  const waiting = status.pending === 0 ? "nothing waits" : `${status.pending} waiting`;
  switch (status.state) {
    case "running":
      return `turn ${status.turn} (${status.trigger ?? "unknown"}) runs; ${waiting}`;
    case "paused":
      return `turn ${status.turn} is paused; ${waiting} until: wakeful resume`;
    case "stopped":
      return "it is on its way out";
    case "idle":
      return `${heldBecause(status)}; ${waiting}`;
  }
}

function heldBecause({ wake_held: held, last_outcome: last, pending }: Status): string {
  if (held === null) {
    if (pending > 0) return "what waits wakes nobody: it enters the next request";
    return last === null ? "it had no task yet" : `its last turn ended: ${last}`;
  }
  if (held.reason === "paused") return "a wake is owed, but it is paused";
  const until = new Date(held.until).toISOString();
  return held.reason === "bucket_empty"
    ? `a wake is owed, but its automatic turns are used up until ${until}; a message or wakeful resume starts one`
    : `a wake is owed, but its last turn failed: it tries again at ${until}; wakeful resume tries now`;
}

function onPath(program: string, io: CliIo): boolean {
  return (io.env["PATH"] ?? "").split(delimiter).some((directory) => {
    if (directory === "") return false;
    try {
      accessSync(join(directory, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
