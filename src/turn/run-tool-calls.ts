import { messageOf } from "../base/errors.ts";
import { prefixOf, toSafeText } from "../base/text.ts";
import type { LoggedToolResult } from "../session-log/logged-item.ts";
import type { OpenCall } from "../session-log/session-state.ts";
import type { ToolOutput } from "../tools/tool.ts";
import { findTool, parseToolInput, unknownToolMessage } from "../tools/tool-input.ts";
import { openCalls, syntheticResult } from "./restore.ts";
import type { TurnPort, TurnSignals } from "./turn-port.ts";

/**
 * Runs the open calls of a batch, several at a time, and commits each result as its call ends.
 *
 * T1 A call's `tool_started` is committed before it runs, and on disk before a tool that may change something runs (I2).
 * T2 Whatever happens, each call that was to run ends with exactly one result (I5); after a pause the ones that never started stay open.
 * T3 No call's failure touches another call of the batch (field reports B39, B76).
 */
export async function runToolCalls(port: TurnPort, signals: TurnSignals): Promise<void> {
  const waiting = openCalls(port.state);
  const runNext = async (): Promise<void> => {
    for (;;) {
      if (signals.pause.aborted && !signals.cancel.aborted) return;
      const call = waiting.shift();
      if (!call) return;
      const result = signals.cancel.aborted
        ? syntheticResult(call, "cancelled", "Cancelled before this call started. It has not run.")
        : await runOne(port, signals.cancel, call);
      port.commit([{ type: "tool_results", items: [result] }]); // T2
    }
  };
  const lanes = Math.min(port.state.config.limits.parallel_tool_calls, waiting.length);
  const settled = await Promise.allSettled(Array.from({ length: lanes }, runNext));
  // Only storage can fail here; every lane has ended before it is passed on.
  for (const lane of settled) if (lane.status === "rejected") throw lane.reason;
}

/** How long a tool may take to stop after a cancel before its call gets a result without it. */
const CANCEL_GRACE_MS = 5000;

async function runOne(port: TurnPort, cancel: AbortSignal, call: OpenCall): Promise<LoggedToolResult> {
  const tool = findTool(port.tools, call.name);
  if (!tool) return syntheticResult(call, "unknown tool", unknownToolMessage(call.name, port.tools));
  const input = parseToolInput(tool, call.arguments);
  if (!input.ok) return syntheticResult(call, "bad arguments", input.message);
  for (const interceptor of port.interceptors) {
    const decision = await interceptor.preToolCall?.(call);
    if (decision?.kind === "refuse") return syntheticResult(call, "refused", decision.reason);
  }
  port.commit([{ type: "tool_started", call_id: call.callId }]); // T1
  if (tool.effect === "write") await port.synced(); // T1
  const onProgress = (text: string) => port.publishLive({ type: "tool_progress", call_id: call.callId, text: toSafeText(text) });
  let output: ToolOutput;
  try {
    const running = tool.run(input.input, port.toolContext({ callId: call.callId, signal: cancel, onProgress }));
    output = await withinGrace(port, cancel, running);
  } catch (thrown) {
    output = { summary: "the tool failed", content: `The tool ${call.name} failed: ${messageOf(thrown)}`, isError: true };
  }
  let result: LoggedToolResult = {
    kind: "tool_result",
    call_id: call.callId,
    name: call.name,
    summary: prefixOf(toSafeText(output.summary).replaceAll("\n", " "), 200),
    ...(output.content === undefined ? {} : { content: toSafeText(output.content) }),
    is_error: output.isError,
  };
  for (const interceptor of port.interceptors) result = (await interceptor.postToolCall?.(call, result)) ?? result;
  return result;
}

/** The tool's output, or a plain result when it does not stop in time after a cancel: a stuck tool never holds a turn. */
async function withinGrace(port: TurnPort, cancel: AbortSignal, running: Promise<ToolOutput>): Promise<ToolOutput> {
  const over = new AbortController();
  const afterGrace = async (): Promise<ToolOutput> => {
    await aborted(cancel, over.signal);
    await port.clock.sleep(CANCEL_GRACE_MS, { signal: over.signal });
    return {
      summary: "cancelled",
      content: "Cancelled. The tool did not stop in time; it may still have taken effect.",
      isError: true,
    };
  };
  try {
    const late = afterGrace();
    late.catch(() => {}); // it rejects when the tool was in time, which is the normal case
    return await Promise.race([running, late]);
  } finally {
    over.abort();
  }
}

function aborted(signal: AbortSignal, giveUp: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true, signal: giveUp });
    giveUp.addEventListener("abort", () => reject(giveUp.reason), { once: true });
  });
}
