import { statSync } from "node:fs";
import { AppError } from "../base/errors.ts";
import { prefixOf, toSafeText } from "../base/text.ts";
import { type Places, sessionDir } from "../registry/places.ts";
import type { PodRow } from "../registry/pod-row.ts";
import { openRegistry } from "../registry/registry.ts";
import { nearNames } from "./near-names.ts";
import { shellWord } from "./shell-word.ts";

/** What a name or session id stands for. */
export type FoundPod =
  | { readonly kind: "living"; readonly row: PodRow }
  /** Not alive, but restorable. `row` is undefined for a session that only its folder tells of (a lost registry). */
  | { readonly kind: "stopped"; readonly name: string; readonly row: PodRow | undefined }
  | { readonly kind: "unknown"; readonly near: readonly string[] };

/** Looks up a Pod by name or session id. Throws what the registry throws. */
export async function findPod(
  places: Places,
  target: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<FoundPod> {
  await using registry = openRegistry(places);
  const row = await registry.find(target, options);
  if (row?.alive) return { kind: "living", row };
  if (row !== undefined) return { kind: "stopped", name: row.name, row };
  if (hasSessionFolder(places, target)) return { kind: "stopped", name: target, row: undefined };
  const rows = await registry.list({ ...options, all: true });
  const near = nearNames(
    target,
    rows.flatMap((other) => [other.name, other.session]),
  );
  return { kind: "unknown", near };
}

/** The living Pod of that name, or the `not_found` error that says what to do instead. */
export async function findLivingPod(
  places: Places,
  target: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<PodRow> {
  const found = await findPod(places, target, options);
  if (found.kind === "living") return found.row;
  throw notFound(target, found);
}

/** Why there is no living Pod of that name. */
export function notFound(target: string, found: Exclude<FoundPod, { readonly kind: "living" }>): AppError {
  const shown = shellWord(prefixOf(toSafeText(target), 255));
  if (found.kind === "stopped") {
    return new AppError("not_found", `Pod ${shown} is not running`, {
      hint: `bring it back: wakeful restore ${shellWord(found.name)}`,
    });
  }
  const hint =
    found.near.length > 0 ? `did you mean ${found.near.map(shellWord).join(", ")}?` : "wakeful ps --all lists what there is";
  return new AppError("not_found", `no Pod or session is called ${shown}`, { hint });
}

function hasSessionFolder(places: Places, target: string): boolean {
  try {
    return statSync(sessionDir(places, target)).isDirectory();
  } catch {
    return false; // Not a session id, or no such folder.
  }
}
