import { connect, type PodConnection } from "../client/connection.ts";
import { findPod, notFound } from "../client/find-pod.ts";
import { launchPod, type ReadyPod } from "../client/launched-pod.ts";
import type { Chain } from "../protocol/chain.ts";
import { Chain as ChainSchema } from "../protocol/chain.ts";
import { type Places, resolvePlaces } from "../registry/places.ts";
import { toInert } from "./inert.ts";
import type { CliIo } from "./io.ts";
import { paintFor } from "./paint.ts";

/** A living Pod a command talks to. */
export interface ReachedPod {
  readonly name: string;
  readonly session: string;
  readonly address: string;
  readonly pid: number;
  readonly cwd: string;
  /** True when this command brought it back. */
  readonly restored: boolean;
}

/** The living Pod called `target`; with `restore`, a stopped one is brought back. Throws `not_found` saying what to do. */
export async function reachPod(target: string, io: CliIo, options: { readonly restore: boolean }): Promise<ReachedPod> {
  const places = resolvePlaces(io.env);
  const found = await findPod(places, target, { signal: io.signal });
  if (found.kind === "living") {
    const { name, session, address, process, cwd } = found.row;
    return { name, session, address, pid: process.pid, cwd, restored: false };
  }
  if (found.kind === "unknown" || !options.restore) throw notFound(target, found);
  const cwd = found.row?.cwd ?? io.cwd;
  const order = { cwd, open: { kind: "restore" as const, target: found.row?.session ?? target } };
  const ready = await launchPod(order, { places, env: io.env, signal: io.signal });
  showNotes(ready, io);
  return { ...ready, cwd, restored: true };
}

/** Connects to the Pod called `target`, does `work` and closes the connection. */
export async function withPod<Result>(
  target: string,
  io: CliIo,
  options: { readonly restore: boolean },
  work: (connection: PodConnection, pod: ReachedPod) => Promise<Result>,
): Promise<Result> {
  const pod = await reachPod(target, io, options);
  await using connection = await connect(pod.address, { signal: io.signal });
  return await work(connection, pod);
}

/** Where this user's Wakeful lives. */
export function placesOf(io: CliIo): Places {
  return resolvePlaces(io.env);
}

/** Tells people what a Pod says at its start. */
export function showNotes(pod: Pick<ReadyPod, "notes">, io: CliIo): void {
  const paint = paintFor(io.stderr, io.env);
  for (const note of pod.notes) io.stderr.write(`${paint.dim(`note: ${toInert(note)}`)}\n`);
}

/**
 * The causal chain this command was called in: a Pod's shell names it in `WAKEFUL_CHAIN` as `id:hops`, and what is caused through it is
 * one hop further (N11). Undefined when a person calls, or the value is not one of ours.
 */
export function chainOf(io: CliIo): Chain | undefined {
  const text = io.env["WAKEFUL_CHAIN"] ?? "";
  const colon = text.lastIndexOf(":");
  if (colon === -1 || !/^\d{1,7}$/.test(text.slice(colon + 1))) return undefined;
  const chain = ChainSchema.safeParse({ id: text.slice(0, colon), hops: Number(text.slice(colon + 1)) + 1 });
  return chain.success ? chain.data : undefined;
}
