import { VERSION } from "../base/version.ts";
import { type MethodCall, PROTOCOL_VERSION } from "../protocol/method.ts";
import type { EventSink } from "./broadcaster.ts";
import type { Outcome, Pod } from "./pod.ts";

/** Which method goes where: the reading ones are answered at once, the changing ones by the Pod's decision. */
export class Controller {
  readonly #pod: Pod;
  readonly #attached = new Set<EventSink>();
  readonly #onClaimed: () => void;

  /** `onClaimed`: somebody attached or sent something; a Pod that nobody claims ends by itself. */
  constructor(pod: Pod, onClaimed: () => void) {
    this.#pod = pod;
    this.#onClaimed = onClaimed;
  }

  /**
   * Handles one call of a client. Changing methods are decided and accepted before this returns its promise, so order is arrival. The
   * others have their outcome at once: an attached client's snapshot is written before the first event that is newer.
   */
  handle(call: MethodCall, client: EventSink): Outcome<unknown> | Promise<Outcome<unknown>> {
    switch (call.name) {
      case "hello":
        return answer({ pod: this.#pod.state.pod, version: VERSION, protocol: PROTOCOL_VERSION });
      case "attach": {
        this.#onClaimed();
        this.#attached.add(client);
        return answer(this.#pod.attach(client, call.params));
      }
      case "detach":
        this.detached(client);
        return answer({});
      case "history":
        return answer(this.#pod.history(call.params));
      case "read_output":
        return answer(this.#pod.readOutput(call.params));
      case "status":
        return answer(this.#pod.status);
      case "run":
      case "notify":
      case "pause":
      case "resume":
      case "cancel":
      case "set_config":
      case "shutdown":
        this.#onClaimed();
        return this.#pod.change(call);
    }
  }

  isAttached(client: EventSink): boolean {
    return this.#attached.has(client);
  }

  /** The connection can take more events. */
  drained(client: EventSink): void {
    this.#pod.drained(client);
  }

  /** The connection is gone or wants no more events. */
  detached(client: EventSink): void {
    this.#attached.delete(client);
    this.#pod.detach(client);
  }
}

function answer(result: unknown): Outcome<unknown> {
  return { ok: true, result };
}
