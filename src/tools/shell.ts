import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { isAbsolute, join } from "node:path";

const known = new Map<string, string>();

/** The shell that runs commands: bash from `PATH` or its usual places, else `/bin/sh` (B107: PATH may be empty). Looked up once for each PATH. */
export async function findShell(path: string | undefined): Promise<string> {
  const key = path ?? "";
  const before = known.get(key);
  if (before !== undefined) return before;
  const directories = [...key.split(":").filter((directory) => isAbsolute(directory)), "/bin", "/usr/bin", "/usr/local/bin"];
  for (const directory of directories) {
    const candidate = join(directory, "bash");
    if (await isExecutable(candidate)) {
      known.set(key, candidate);
      return candidate;
    }
  }
  return "/bin/sh";
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
