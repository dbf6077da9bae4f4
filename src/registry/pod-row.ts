import * as z from "zod";
import { isProcessAlive, type ProcessIdentity } from "../base/process-identity.ts";
import {
  type Scope,
  type ScopeEnforcement,
  ScopeEnforcement as ScopeEnforcementSchema,
  Scope as ScopeSchema,
} from "../protocol/scope-rule.ts";
import { PodState, TurnOutcome, TurnTrigger, Usage, WakeHeld } from "../protocol/status.ts";

/** What the registry knows of one session: who runs it now, or ran it last. Stopped and crashed ones stay: they can be restored. */
export interface PodRow {
  readonly session: string;
  readonly name: string;
  /** Judged from the system at the moment of reading, never from what is stored (B99). */
  readonly alive: boolean;
  readonly process: ProcessIdentity;
  /** `unix:<path>`; of use only while `alive`. */
  readonly address: string;
  /** Real path. */
  readonly cwd: string;
  readonly model: string;
  readonly scope: Scope;
  readonly scopeEnforcement: ScopeEnforcement;
  /** `stopped` whenever it is not alive, whatever was written last. */
  readonly status: z.infer<typeof PodState>;
  readonly turn: number;
  readonly trigger: z.infer<typeof TurnTrigger> | null;
  readonly pending: number;
  readonly wakeHeld: z.infer<typeof WakeHeld> | null;
  readonly lastOutcome: z.infer<typeof TurnOutcome> | null;
  readonly usage: z.infer<typeof Usage>;
  /** Newest place of the log that is known to be synced, and when it was noted. */
  readonly head: HeadMark | null;
  /** Process groups its tools started and that had not ended when it last said so. */
  readonly processGroups: readonly ProcessGroup[];
  /** When the session first, and when its latest process, started; Unix ms. */
  readonly createdAtMs: number;
  readonly startedAtMs: number;
  readonly lastSeenAtMs: number;
  /** How the latest process ended: `crashed`, or the reason it gave itself. Null while it runs, and of one that died unnoticed. */
  readonly ended: { readonly reason: string; readonly atMs: number } | null;
}

/** A synced place of a log (session-log.md, head mark). */
export interface HeadMark {
  readonly seq: number;
  readonly hash: string;
  readonly atMs: number;
}

/** A process group, with the start time of its leader so that a reused number is not taken for it. */
export interface ProcessGroup {
  readonly group: number;
  readonly leaderStartTime: string;
}

export const ProcessGroups = z.array(z.object({ group: z.int().min(2), leaderStartTime: z.string() }));

const DatabaseRow = z.object({
  session: z.string(),
  name: z.string(),
  boot_id: z.string(),
  pid: z.int(),
  process_start: z.string(),
  address: z.string(),
  cwd: z.string(),
  model: z.string(),
  scope: json(ScopeSchema),
  scope_enforcement: ScopeEnforcementSchema,
  status: PodState,
  turn: z.int(),
  trigger_kind: TurnTrigger.nullable(),
  pending: z.int(),
  wake_held: json(WakeHeld).nullable(),
  last_outcome: TurnOutcome.nullable(),
  usage: json(Usage),
  head_seq: z.int().nullable(),
  head_hash: z.string().nullable(),
  head_at: z.number().nullable(),
  process_groups: json(ProcessGroups),
  created_at: z.number(),
  started_at: z.number(),
  last_seen_at: z.number(),
  end_reason: z.string().nullable(),
  ended_at: z.number().nullable(),
});

/** Reads one row of the table `pods`; a message when it is not what this version writes. */
export function toPodRow(
  row: unknown,
): { readonly ok: true; readonly row: PodRow } | { readonly ok: false; readonly reason: string } {
  const parsed = DatabaseRow.safeParse(row);
  if (!parsed.success) return { ok: false, reason: z.prettifyError(parsed.error).replaceAll("\n", " ") };
  const raw = parsed.data;
  const identity = { bootId: raw.boot_id, pid: raw.pid, startTime: raw.process_start };
  const alive = raw.end_reason === null && isProcessAlive(identity);
  return {
    ok: true,
    row: {
      session: raw.session,
      name: raw.name,
      alive,
      process: identity,
      address: raw.address,
      cwd: raw.cwd,
      model: raw.model,
      scope: raw.scope,
      scopeEnforcement: raw.scope_enforcement,
      status: alive ? raw.status : "stopped",
      turn: raw.turn,
      trigger: raw.trigger_kind,
      pending: raw.pending,
      wakeHeld: raw.wake_held,
      lastOutcome: raw.last_outcome,
      usage: raw.usage,
      head:
        raw.head_seq === null || raw.head_hash === null || raw.head_at === null
          ? null
          : { seq: raw.head_seq, hash: raw.head_hash, atMs: raw.head_at },
      processGroups: raw.process_groups,
      createdAtMs: raw.created_at,
      startedAtMs: raw.started_at,
      lastSeenAtMs: raw.last_seen_at,
      ended: raw.end_reason === null ? null : { reason: raw.end_reason, atMs: raw.ended_at ?? raw.last_seen_at },
    },
  };
}

function json<Schema extends z.ZodType>(schema: Schema) {
  return z
    .string()
    .transform((text, context): unknown => {
      try {
        return JSON.parse(text);
      } catch {
        context.addIssue("is not JSON");
        return z.NEVER;
      }
    })
    .pipe(schema);
}
