import { setImmediate as nextTick } from "node:timers/promises";
import { abortReason } from "../base/clock.ts";
import { EMPTY_HEAD } from "./line.ts";
import type { LineWalk, ScanEnd, ScannedLine } from "./log-scan.ts";

/** Lines between two looks at the signal, and the bytes that count as much. */
const LINES_A_TICK = 500;
const BYTES_A_TICK = 8 * 1024 * 1024;

export interface StepOptions {
  readonly signal?: AbortSignal | undefined;
  /** Awaited between two steps: until a slow reader of what was made of the lines has caught up. */
  readonly between?: (() => Promise<void>) | undefined;
}

/**
 * `scanLines` for commands: lets the event loop run every few hundred lines, so that Ctrl-C and a closed pipe end a walk through a log of
 * any size. `onLine` may object as there. Throws the abort reason.
 */
export async function scanInSteps(
  lines: LineWalk,
  onLine: (line: ScannedLine) => string | undefined,
  { signal, between }: StepOptions = {},
): Promise<ScanEnd> {
  try {
    let linesLeft = LINES_A_TICK;
    let bytesLeft = BYTES_A_TICK;
    let step = lines.next();
    while (!step.done) {
      const { bytes } = step.value;
      linesLeft -= 1;
      bytesLeft -= bytes.length;
      step = lines.next(onLine(step.value));
      if (linesLeft > 0 && bytesLeft > 0) continue;
      await nextTick();
      await between?.();
      if (signal?.aborted) throw abortReason(signal);
      linesLeft = LINES_A_TICK;
      bytesLeft = BYTES_A_TICK;
    }
    return step.value;
  } finally {
    lines.return({ kind: "whole", file: "", head: EMPTY_HEAD, size: 0, line: 1 }); // Closes the file when the walk was left early.
  }
}
