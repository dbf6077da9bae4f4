import { currentBootId, isProcessGroupAlive, processStartTime } from "../base/process-identity.ts";
import type { PodRow, ProcessGroup } from "./pod-row.ts";

/** Notes who leads each group now, so that the number can be told from a later one. For groups that are just starting. */
export function toProcessGroups(groups: readonly number[], known: readonly ProcessGroup[]): readonly ProcessGroup[] {
  return groups.map(
    (group) => known.find((entry) => entry.group === group) ?? { group, leaderStartTime: processStartTime(group) ?? "" },
  );
}

/**
 * The groups of a dead Pod that still run: same boot, still there, and the number not given to a new process since (the system does not
 * give a number again while a group has it, so another leader under that number means that ours is gone).
 */
export function leftoverGroups(row: PodRow): readonly ProcessGroup[] {
  if (row.process.bootId !== currentBootId()) return [];
  return row.processGroups.filter(({ group, leaderStartTime }) => {
    if (!isProcessGroupAlive(group)) return false;
    const leader = processStartTime(group);
    return leader === undefined || leaderStartTime === "" || leader === leaderStartTime;
  });
}
