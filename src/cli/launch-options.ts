import type { LaunchOrder } from "../protocol/launch.ts";
import { usageError } from "./exit.ts";
import type { ParsedArgs } from "./parse-args.ts";

const EFFORTS = ["default", "none", "minimal", "low", "medium", "high", "xhigh"] as const;

/** The settings of a Pod that command-line options name. Checked here where that costs nothing, so that wrong usage is told at once. */
export function launchOptions(args: ParsedArgs): Pick<LaunchOrder, "model" | "reasoning" | "scope"> {
  const model = args.value("model");
  const scope = args.values("scope");
  const effort = args.value("reasoning");
  const reasoning = EFFORTS.find((known) => known === effort);
  if (effort !== undefined && reasoning === undefined)
    throw usageError(`--reasoning: '${effort}' is no effort`, `one of ${EFFORTS.join(", ")}`);
  if (model === "") throw usageError("--model is empty", "<provider>/<model>, or script:FILE");
  return {
    ...(model === undefined ? {} : { model }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(scope.length === 0 ? {} : { scope: [...scope] }),
  };
}
