import type { DatabaseSync } from "node:sqlite";
import type { ProcessIdentity } from "../base/process-identity.ts";
import { isSameProcess } from "../base/process-identity.ts";
import type { Scope, ScopeEnforcement } from "../protocol/scope-rule.ts";
import { NO_USAGE } from "../protocol/status.ts";
import type { PodRow } from "./pod-row.ts";
import { leftoverGroups } from "./process-groups.ts";
import { overlap } from "./scope.ts";

/** What a process asks for when it becomes a Pod. */
export interface ClaimRequest {
  /** As `parsePodName` returns it. */
  readonly name: string;
  readonly session: string;
  /** Real path. */
  readonly cwd: string;
  readonly address: string;
  readonly scope: Scope;
  readonly scopeEnforcement: ScopeEnforcement;
  readonly model: string;
  /** True when the session exists already; a new session under an id that is known is refused. */
  readonly isRestore: boolean;
}

/** What a dead Pod left running: to be ended before anybody works in its scope. */
export interface Leftover {
  readonly session: string;
  readonly name: string;
  /** Process groups that still run: `process.kill(-group, ...)`. */
  readonly groups: readonly number[];
}

/** The registry's answer. `reclaimed` is there in every case: the leftovers must be ended whether the claim went through or not. */
export type ClaimResult = {
  readonly reclaimed: readonly Leftover[];
} & (
  | { readonly kind: "claimed" }
  | { readonly kind: "name_taken"; readonly holder: PodRow }
  | { readonly kind: "session_taken"; readonly holder: PodRow }
  | { readonly kind: "scope_held"; readonly holder: PodRow; readonly path: string }
);

/**
 * The one place where names, sessions and write scopes are given out; runs inside one transaction. First what dead Pods held comes back:
 * their rows are marked crashed, their groups reported (again with every claim until they are gone, so a starter that dies between claim
 * and kill loses nothing). Then: one living Pod a name, one process a session, one writer a path (I9).
 */
export function claimPod(
  database: DatabaseSync,
  request: ClaimRequest,
  claimer: { readonly process: ProcessIdentity; readonly nowMs: number; readonly rows: readonly PodRow[] },
): ClaimResult {
  const { rows, nowMs } = claimer;
  const reclaimed = rows.filter((row) => !row.alive).flatMap((row) => reclaim(database, row, nowMs));
  const living = rows.filter((row) => row.alive);

  const known = rows.find((row) => row.session === request.session);
  if (known !== undefined && (known.alive ? !isSameProcess(known.process, claimer.process) : !request.isRestore)) {
    return { kind: "session_taken", holder: known, reclaimed };
  }
  const others = living.filter((row) => row.session !== request.session);
  const namesake = others.find((row) => row.name === request.name);
  if (namesake !== undefined) return { kind: "name_taken", holder: namesake, reclaimed };
  for (const holder of others) {
    const path = overlap(request.scope, holder.scope);
    if (path !== undefined) return { kind: "scope_held", holder, path, reclaimed };
  }
  write(database, request, claimer);
  return { kind: "claimed", reclaimed };
}

function reclaim(database: DatabaseSync, row: PodRow, nowMs: number): readonly Leftover[] {
  if (row.ended === null) {
    database
      .prepare("UPDATE pods SET status = 'stopped', end_reason = 'crashed', ended_at = ?, trigger_kind = NULL WHERE session = ?")
      .run(nowMs, row.session);
  }
  if (row.processGroups.length === 0) return [];
  const groups = leftoverGroups(row);
  if (groups.length !== row.processGroups.length) {
    database.prepare("UPDATE pods SET process_groups = ? WHERE session = ?").run(JSON.stringify(groups), row.session);
  }
  return groups.length === 0 ? [] : [{ session: row.session, name: row.name, groups: groups.map(({ group }) => group) }];
}

function write(
  database: DatabaseSync,
  request: ClaimRequest,
  claimer: { readonly process: ProcessIdentity; readonly nowMs: number },
): void {
  const { process, nowMs } = claimer;
  // What the log knows better (turn, usage, head) stays from the last time until the Pod has read its log and says so.
  database
    .prepare(
      `INSERT INTO pods (session, name, start_number, boot_id, pid, process_start, address, cwd, model, scope, scope_enforcement,
         status, turn, trigger_kind, pending, usage, process_groups, created_at, started_at, last_seen_at)
       VALUES (:session, :name, (SELECT coalesce(max(start_number), 0) + 1 FROM pods), :boot_id, :pid, :process_start, :address, :cwd,
         :model, :scope, :scope_enforcement, 'idle', 0, NULL, 0, :usage, '[]', :now, :now, :now)
       ON CONFLICT (session) DO UPDATE SET name = excluded.name, start_number = excluded.start_number, boot_id = excluded.boot_id,
         pid = excluded.pid, process_start = excluded.process_start, address = excluded.address, cwd = excluded.cwd,
         model = excluded.model, scope = excluded.scope, scope_enforcement = excluded.scope_enforcement, status = 'idle',
         trigger_kind = NULL, wake_held = NULL, started_at = excluded.started_at, last_seen_at = excluded.last_seen_at,
         end_reason = NULL, ended_at = NULL`,
    )
    .run({
      session: request.session,
      name: request.name,
      boot_id: process.bootId,
      pid: process.pid,
      process_start: process.startTime,
      address: request.address,
      cwd: request.cwd,
      model: request.model,
      scope: JSON.stringify(request.scope),
      scope_enforcement: request.scopeEnforcement,
      usage: JSON.stringify(NO_USAGE),
      now: nowMs,
    });
}
