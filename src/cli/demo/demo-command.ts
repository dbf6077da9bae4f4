import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, systemCode } from "../../base/errors.ts";
import { plural } from "../../base/text.ts";
import { type CliIo, EXIT } from "../io.ts";
import { Story } from "./story.ts";
import { createTeller } from "./teller.ts";

/** `wakeful demo [--json]`: the whole story without a key, in a temporary directory, verified at the end. 1 if a claim does not hold. */
export async function runDemo(args: readonly string[], io: CliIo): Promise<number> {
  const teller = createTeller(io, { json: args.includes("--json") });
  const directory = makeStage();
  let failed: number;
  try {
    failed = await new Story(directory, io, teller).tell();
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  if (failed > 0) {
    teller.end(`${plural(failed, "claim")} did not hold.`);
    return EXIT.failed;
  }
  teller.end('All of it is true. Next: set ANTHROPIC_API_KEY and try  wakeful run "list the files here"');
  return EXIT.done;
}

/** A folder of its own for the story. */
function makeStage(): string {
  try {
    return realpathSync(mkdtempSync(join(tmpdir(), "wakeful-demo-")));
  } catch (thrown) {
    throw new AppError("storage_failed", `no folder can be made in ${tmpdir()} (${systemCode(thrown) ?? "error"})`, {
      hint: "set TMPDIR to a folder that you may write",
      cause: thrown,
    });
  }
}
