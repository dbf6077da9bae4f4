import type { Usage } from "../protocol/status.ts";
import type { PodRow } from "../registry/pod-row.ts";
import { openRegistry } from "../registry/registry.ts";
import { fitWidth } from "./display-width.ts";
import { toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import { paintFor } from "./paint.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { askStatus } from "./pod-status.ts";
import { placesOf } from "./reach.ts";
import { type DamagedSession, damagedSessions } from "./session-folders.ts";
import { textTable } from "./text-table.ts";

/** `wakeful ps`: living Pods as they are now, with `--all` also what can be restored. */
export async function runPsCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const places = placesOf(io);
  const all = args.has("all");
  await using registry = openRegistry(places);
  const rows = await registry.list({ all, signal: io.signal });
  const listed = await Promise.all(rows.map((row) => toListed(row, io)));
  const broken = await damagedSessions(places, rows);
  const marked = listed.map((pod) => {
    const damage = broken.find((one) => one.session === pod.session);
    return damage === undefined || pod.status !== "stopped" ? pod : { ...pod, status: "damaged" as const, reason: damage.reason };
  });
  const unlisted = all ? broken.filter((one) => !rows.some((row) => row.session === one.session)).map(toListedDamage) : [];
  const pods = [...marked, ...unlisted];
  if (args.has("json")) io.stdout.write(`${JSON.stringify(pods)}\n`);
  else if (pods.length > 0) show(pods, io);
  else io.stderr.write(all ? "no Pod and no session\n" : "no Pod is alive; sessions that can be restored: wakeful ps --all\n");
  return EXIT.done;
}

interface ListedPod {
  readonly name: string | null;
  readonly status: string;
  readonly pid: number | null;
  readonly address: string | null;
  readonly session: string;
  readonly cwd: string | null;
  readonly turn: number;
  readonly trigger: string | null;
  readonly pending: number;
  readonly wake_held: unknown;
  readonly scope: readonly unknown[];
  readonly scope_enforcement: string | null;
  readonly model: string | null;
  readonly usage: Usage | null;
  readonly started_at: number | null;
  readonly reason?: string;
}

async function toListed(row: PodRow, io: CliIo): Promise<ListedPod> {
  const said = row.alive ? await askStatus(row, io) : undefined;
  const reason = row.alive ? (said === undefined ? "does not answer" : undefined) : (row.ended?.reason ?? "died");
  return {
    name: row.name,
    // Never what was stored for a process that is gone (field report B99): the row says `stopped` by itself then.
    status: said?.state ?? row.status,
    pid: row.alive ? row.process.pid : null,
    address: row.alive ? row.address : null,
    session: row.session,
    cwd: row.cwd,
    turn: said?.turn ?? row.turn,
    trigger: row.alive ? (said?.trigger ?? row.trigger) : null,
    pending: said?.pending ?? row.pending,
    wake_held: said === undefined ? row.wakeHeld : said.wake_held,
    scope: row.scope.allow,
    scope_enforcement: row.scopeEnforcement,
    model: said?.model ?? row.model,
    usage: said?.usage ?? row.usage,
    started_at: row.startedAtMs,
    ...(reason === undefined ? {} : { reason }),
  };
}

function toListedDamage(damage: DamagedSession): ListedPod {
  return {
    name: null,
    status: "damaged",
    pid: null,
    address: null,
    session: damage.session,
    cwd: null,
    turn: 0,
    trigger: null,
    pending: 0,
    wake_held: null,
    scope: [],
    scope_enforcement: null,
    model: null,
    usage: null,
    started_at: null,
    reason: damage.reason,
  };
}

function show(pods: readonly ListedPod[], io: CliIo): void {
  const paint = paintFor(io.stdout, io.env);
  const [head = "", ...lines] = textTable(
    [
      ["NAME", "STATUS", "TURN", "PENDING", "TOKENS", "MODEL", "DIRECTORY"],
      ...pods.map((pod) => [
        fitWidth(toInertLine(pod.name ?? pod.session, 255), 40),
        pod.status + (pod.reason === undefined ? "" : ` (${toInertLine(pod.reason, 60)})`),
        String(pod.turn),
        String(pod.pending),
        pod.usage === null ? "-" : `${shortCount(pod.usage.input)}/${shortCount(pod.usage.output)}`,
        toInertLine(pod.model ?? "-", 60),
        toInertLine(pod.cwd ?? "-", 120),
      ]),
    ],
    { columns: io.stdout.columns },
  );
  io.stdout.write(`${paint.bold(head)}\n`);
  for (const [index, line] of lines.entries()) {
    const isAlive = pods[index]?.pid !== null;
    io.stdout.write(`${isAlive ? line : paint.dim(line)}\n`);
  }
}

/** `950`, `12k`, `3.4M`: a count where its size is what matters. */
function shortCount(count: number): string {
  if (count < 1000) return String(count);
  const [value, unit] = count < 999_500 ? [count / 1000, "k"] : [count / 1_000_000, "M"];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)}${unit}`;
}
