/**
 * The few lines of `dist/cli.js` and `dist/pod.js`: turn the compile cache on, then load the bundle. They are the only files of
 * a build that are replaced in place, each in one rename; what they import carries its hash in its name.
 *
 * The cache lies in a folder of our own and not in the system's temporary folder, where others could plant code.
 */
export function distEntry(chunk: string): string {
  return `import { existsSync } from "node:fs";
import { enableCompileCache } from "node:module";
const { HOME: home, XDG_CACHE_HOME: xdg } = process.env;
const user = xdg?.startsWith("/") ? xdg : home?.startsWith("/") ? home + "/.cache" : undefined;
const cache = existsSync(new URL("../scripts/build.ts", import.meta.url))
  ? import.meta.dirname + "/../node_modules/.cache/wakeful"
  : user && user + "/wakeful/compile";
if (cache) enableCompileCache(cache);
await import("./${chunk}");
`;
}
