import { execFile } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

/**
 * Packages that stay packages: the bundle imports them and the published manifest names them. ripgrep is a program, in one package for
 * each platform, of which npm installs the right one.
 */
export const NOT_BUNDLED: readonly string[] = ["@vscode/ripgrep"];

/**
 * Adds to `dist/` what is published: a manifest of its own (no pinned Node, and of the dependencies only what is not bundled), the launcher,
 * the licences and the protocol's schema. `built` are the files of the current build; others in the folder are not published.
 */
export async function writePackage(root: string, built: readonly string[]): Promise<void> {
  const dist = join(root, "dist");
  const manifest = readManifest(join(root, "package.json"));
  mkdirSync(join(dist, "bin"), { recursive: true });
  copyFileSync(join(root, "bin", "wakeful.js"), join(dist, "bin", "wakeful.js"));
  for (const name of ["LICENSE", "README.md"]) if (existsSync(join(root, name))) copyFileSync(join(root, name), join(dist, name));
  writeFileSync(join(dist, "THIRD-PARTY-LICENSES"), bundledLicences(root, Object.keys(manifest.dependencies).filter(isBundled)));
  writeFileSync(join(dist, "protocol.schema.json"), await protocolSchema(dist));
  const { name, version, description, license, type, engines, bin, repository, keywords } = manifest;
  const files = [...built, "bin", "THIRD-PARTY-LICENSES", "protocol.schema.json"];
  const dependencies = Object.fromEntries(Object.entries(manifest.dependencies).filter(([dependency]) => !isBundled(dependency)));
  const published = { name, version, description, keywords, license, repository, type, engines, bin, files, dependencies };
  writeFileSync(join(dist, "package.json"), `${JSON.stringify(published, undefined, 2)}\n`);
}

function isBundled(dependency: string): boolean {
  return !NOT_BUNDLED.includes(dependency);
}

/** What the bundled command itself says the protocol is, so that the schema is never of another version than the code. */
async function protocolSchema(dist: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [join(dist, "cli.js"), "schema"], {
    maxBuffer: 64 * 1024 * 1024,
  });
  JSON.parse(stdout);
  return stdout;
}

/** The licence texts of everything bundled: the dependencies and what they depend on in turn. */
function bundledLicences(root: string, dependencies: readonly string[]): string {
  const seen = new Map<string, string>();
  const open = [...dependencies];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const home = join(root, "node_modules", name);
    if (seen.has(name) || !existsSync(home)) continue;
    const manifest = readManifest(join(home, "package.json"));
    const file = readdirSync(home).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? `Licence: ${manifest["license"]}` : readFileSync(join(home, file), "utf8").trim();
    seen.set(name, `${name} ${manifest["version"]}\n\n${text}\n`);
    open.push(...Object.keys(manifest.dependencies));
  }
  return [...seen.keys()]
    .sort()
    .map((name) => seen.get(name))
    .join(`\n${"-".repeat(80)}\n\n`);
}

interface Manifest {
  readonly [field: string]: unknown;
  readonly dependencies: object;
}

function readManifest(path: string): Manifest {
  const manifest: { readonly [field: string]: unknown } = JSON.parse(readFileSync(path, "utf8"));
  const dependencies = manifest["dependencies"];
  return { ...manifest, dependencies: typeof dependencies === "object" && dependencies !== null ? dependencies : {} };
}
