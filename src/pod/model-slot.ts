import { runDetached } from "../base/detach.ts";
import type { Model } from "../llm/model.ts";

/** The session's present model, opened once and kept until the session changes to another. */
export class ModelSlot {
  readonly #open: (ref: string) => Promise<Model>;
  #current: { readonly ref: string; readonly opened: Promise<Model> } | undefined;

  constructor(open: (ref: string) => Promise<Model>) {
    this.#open = open;
  }

  /** The model for `ref`. One that could not be opened (no key yet) is tried again with the next call. */
  get(ref: string): Promise<Model> {
    if (this.#current?.ref === ref) return this.#current.opened;
    const opened = this.#open(ref);
    this.#current = { ref, opened };
    runDetached(opened, () => {
      if (this.#current?.opened === opened) this.#current = undefined;
    });
    return opened;
  }
}
