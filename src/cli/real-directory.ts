import { realpathSync } from "node:fs";
import { AppError } from "../base/errors.ts";

/** The real path of the directory a command was called in. Throws `not_found` when it was deleted meanwhile (field report B96). */
export function realDirectory(cwd: string): string {
  try {
    return realpathSync(cwd);
  } catch (thrown) {
    throw new AppError("not_found", `the working directory ${cwd} is not there`, {
      hint: "make it, or start in another one",
      cause: thrown,
    });
  }
}
