import * as z from "zod";
import { ReasoningEffort } from "./session-config.ts";

/**
 * How a Pod process is started (orchestration.md, Places): the starter writes one `LaunchOrder` as JSON to the new process's
 * standard input and closes it; the process answers with one `LaunchReport` line on file descriptor 3 and closes that.
 * No polling, nothing in argv or the environment that others could read.
 */
export const LaunchOrder = z.object({
  /** Where the Pod works: its default scope, its shell's directory, where project configuration is looked for. */
  cwd: z.string().min(1),
  /** What to open: a new session, or an existing one by Pod name or session id, or the latest one started in `cwd`. */
  open: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("new"), name: z.string().optional() }),
    /** A new session under this name, or the stopped one of that name. */
    z.object({ kind: z.literal("named"), name: z.string() }),
    z.object({ kind: z.literal("restore"), target: z.string() }),
    z.object({ kind: z.literal("latest") }),
  ]),
  model: z.string().optional(),
  reasoning: ReasoningEffort.optional(),
  /** `PATH[:read|write]` as typed, relative to `cwd`; absent = the default scope. */
  scope: z.array(z.string()).optional(),
  /** True when the starter will end the Pod itself: it then ends by itself if nobody claims it (attaches or runs) within 30 s. */
  claimed: z.boolean().default(false),
});
export type LaunchOrder = z.input<typeof LaunchOrder>;

export const LaunchReport = z.discriminatedUnion("ok", [
  z.object({
    ok: z.literal(true),
    name: z.string(),
    session: z.string(),
    /** `unix:<path>` */
    address: z.string(),
    pid: z.int(),
    restored: z.boolean(),
    /** What a person should know at the start, such as that the shell is not fenced or that settings differ from the configuration. */
    notes: z.array(z.string()),
  }),
  /** `code` is an `ErrorCode` of base/errors.ts. */
  z.object({ ok: z.literal(false), code: z.string(), message: z.string(), hint: z.string().optional() }),
]);
export type LaunchReport = z.infer<typeof LaunchReport>;
