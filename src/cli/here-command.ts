import { findPod } from "../client/find-pod.ts";
import { launchPod } from "../client/launched-pod.ts";
import { loadConfig } from "../config/load-config.ts";
import { defaultPodName } from "../registry/pod-name.ts";
import { attachTo } from "./attach-command.ts";
import type { CliIo } from "./io.ts";
import { placesOf, reachPod, showNotes } from "./reach.ts";
import { realDirectory } from "./real-directory.ts";

/** `wakeful` alone in a terminal: talk with this directory's Pod, which is started or restored if it does not live. */
export async function runHere(io: CliIo): Promise<number> {
  const cwd = realDirectory(io.cwd);
  const name = defaultPodName(cwd);
  const places = placesOf(io);
  const found = await findPod(places, name, { signal: io.signal });
  if (found.kind !== "unknown") return attachTo((await reachPod(name, io, { restore: true })).session, io, { json: false });
  const pod = await launchPod({ cwd, open: { kind: "named", name } }, { places, env: io.env, signal: io.signal });
  showNotes(pod, io);
  return attachTo(pod.session, io, { json: false });
}

/** Whether a new Pod in this directory would have a model. */
export function isModelConfigured(io: CliIo): boolean {
  return loadConfig({ cwd: io.cwd, env: io.env, places: placesOf(io) }).model.default !== undefined;
}
