import { AppError } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import type { MethodInput } from "../protocol/method.ts";
import type { Answer, PodConnection } from "./connection.ts";

/**
 * Sends a human's input exactly once (field report B35). Where the connection is lost before the answer, nobody knows whether the Pod
 * took it: `reconnect` is asked for a new one and the same `submission` goes again, which the Pod answers with the first result.
 * Returns the connection the answer came on. Throws what `reconnect` throws, and `timed_out`.
 */
export async function submitRun(
  connection: PodConnection,
  params: Omit<MethodInput<"run">, "submission"> & { readonly submission?: string },
  options: { readonly reconnect: () => Promise<PodConnection>; readonly signal?: AbortSignal; readonly deadlineMs?: number },
): Promise<{ readonly answer: Answer<"run">; readonly connection: PodConnection; readonly submission: string }> {
  const submission = params.submission ?? newId("sub");
  const { reconnect, ...waiting } = options;
  let current = connection;
  for (let attempt = 1; ; attempt++) {
    try {
      return { answer: await current.request("run", { ...params, submission }, waiting), connection: current, submission };
    } catch (thrown) {
      const isLost = thrown instanceof AppError && thrown.code === "unavailable";
      if (!isLost || attempt === MAX_ATTEMPTS) throw thrown;
      current = await reconnect();
    }
  }
}

const MAX_ATTEMPTS = 3;
