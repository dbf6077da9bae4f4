import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

/** Before the end-to-end tests: builds `dist/` if the sources changed, so that they never run a stale bundle. */
export async function setup(): Promise<void> {
  const root = join(import.meta.dirname, "..", "..");
  const { stderr } = await promisify(execFile)(process.execPath, [join(root, "scripts", "build.ts"), "--if-stale"], {
    cwd: root,
  });
  process.stderr.write(stderr);
}
