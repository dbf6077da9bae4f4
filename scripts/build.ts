/**
 * Makes `dist/`: the command (`cli.js`) and the Pod process (`pod.js`) as bundles whose dynamic imports stay lazy chunks.
 *
 *     node scripts/build.ts              build
 *     node scripts/build.ts --if-stale   build only if the sources changed since the last build
 *     node scripts/build.ts --package    build, then add what is published (package.json, bin, licences, schema)
 *
 * Rules:
 * 1. A build never takes anything away from under a running process: chunks are named by their content and stay a day after
 *    the last build that used them, since a Pod may load one late.
 * 2. Every file appears whole (written aside, then renamed), and the record last: who sees a record sees its build.
 * 3. Several may build at once. The lock only saves work; 1 and 2 hold without it.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { rolldown } from "rolldown";
import { distEntry } from "./dist-entry.ts";
import { NOT_BUNDLED, writePackage } from "./dist-package.ts";
import { isBuildFresh, RECORD_NAME, sourceFingerprint } from "./source-state.js";

const root = resolve(import.meta.dirname, "..");
const dist = join(root, "dist");
/** How long files of former builds stay for the processes that run them, in milliseconds. */
const KEEP_MS = 24 * 60 * 60 * 1000;
/** How long to wait for another build before doing the work ourselves, in milliseconds (a build takes about one second). */
const LOCK_WAIT_MS = 30_000;

/**
 * What nearly everything shares, as a few chunks: left alone, the bundler makes thirty small files of it, and a file costs more than
 * its bytes. `base` holds only what loads nothing itself: `--help` needs it, and neither zod nor `node:crypto`.
 */
const SHARED = [
  // What starting a Pod needs, apart from everything else: it is loaded and run before the rest.
  {
    name: "launch",
    test: /\/src\/client\/spawn-pod|\/src\/registry\/(?:places|private-dir)|\/src\/base\/(?:ids|call-mark|socket-path)/,
    priority: 4,
  },
  {
    name: "base",
    test: /\/src\/base\/(?:assert-never|edit-distance|errors|json|text)|\/src\/client\/(?:near-names|shell-word)/,
    priority: 5,
  },
  { name: "wire", test: /\/node_modules\/zod\/|\/src\/protocol\//, priority: 2 },
  { name: "pods", test: /\/src\/(?:registry|transport|client)\//, priority: 1 },
];

const ENTRIES = { cli: "src/cli/main.ts", pod: "src/pod/main.ts" } as const;

const flags = new Set(process.argv.slice(2));
mkdirSync(dist, { recursive: true });
const unlock = await lock();
try {
  if (!flags.has("--if-stale") || !isBuildFresh(root)) await build();
  if (flags.has("--package")) await writePackage(root, builtFiles());
} catch (error) {
  // The message of the bundler names file and line; its own stack helps nobody.
  process.stderr.write(`wakeful: the build failed: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
} finally {
  unlock();
}

async function build(): Promise<void> {
  const startedAtMs = performance.now();
  const fingerprint = sourceFingerprint(root); // before reading: an edit from here on makes this build stale
  const bundle = await rolldown({
    cwd: root,
    input: ENTRIES,
    platform: "node",
    external: [...NOT_BUNDLED],
    resolve: { conditionNames: ["import", "node"] },
    onLog(level, log, report) {
      if (level === "warn") throw new Error(`the bundler warns: ${log.message}`);
      report(level, log);
    },
  });
  const { output } = await bundle.generate({
    format: "esm",
    entryFileNames: "[name]-[hash].js",
    chunkFileNames: "[name]-[hash].js",
    // Names stay, so that a stack trace can be read; a source map would cost more than the code.
    minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
    comments: { legal: false },
    codeSplitting: { groups: SHARED },
  });
  await bundle.close();

  const files: string[] = [];
  for (const file of output) {
    files.push(file.fileName);
    writeChunk(file.fileName, file.type === "chunk" ? file.code : file.source);
  }
  for (const name of ["cli", "pod"] as const) {
    const chunk = output.find((file) => file.type === "chunk" && file.isEntry && file.name === name);
    if (chunk === undefined) throw new Error(`the bundler made no entry for ${ENTRIES[name]}`);
    files.push(`${name}.js`);
    replaceFile(`${name}.js`, distEntry(chunk.fileName));
  }
  replaceFile(RECORD_NAME, `${JSON.stringify({ fingerprint, files: files.sort() })}\n`);
  removeOldFiles(new Set(files));
  process.stderr.write(`wakeful: built dist/ from the sources (${Math.round(performance.now() - startedAtMs)} ms)\n`);
}

/** The files of the build that the record names. */
function builtFiles(): readonly string[] {
  const record: unknown = JSON.parse(readFileSync(join(dist, RECORD_NAME), "utf8"));
  const files = typeof record === "object" && record !== null && "files" in record ? record.files : undefined;
  if (!Array.isArray(files)) throw new Error(`dist/${RECORD_NAME} names no files; build again`);
  return files.map(String);
}

/** A chunk of that name has that content, so one that is there is only marked as used. */
function writeChunk(name: string, content: string | Uint8Array): void {
  const stat = statSync(join(dist, name), { throwIfNoEntry: false });
  if (stat === undefined || stat.size !== Buffer.byteLength(content)) {
    replaceFile(name, content);
  } else {
    const nowS = Date.now() / 1000;
    utimesSync(join(dist, name), nowS, nowS);
  }
}

function replaceFile(name: string, content: string | Uint8Array): void {
  const aside = join(dist, `.${name}.${process.pid}`);
  writeFileSync(aside, content);
  renameSync(aside, join(dist, name));
}

function removeOldFiles(current: ReadonlySet<string>): void {
  const oldestMs = Date.now() - KEEP_MS;
  for (const folder of [dist, join(root, "node_modules", ".cache", "wakeful")]) {
    for (const entry of listFiles(folder)) {
      const isOurs = folder !== dist || /-[\w-]{8}\.js$|^\..*\.\d+$/.test(entry.name);
      if (!isOurs || current.has(entry.name)) continue;
      const path = join(entry.parentPath, entry.name);
      const stat = statSync(path, { throwIfNoEntry: false });
      if (stat !== undefined && stat.mtimeMs < oldestMs) rmSync(path, { force: true });
    }
  }
}

function listFiles(folder: string) {
  const exists = statSync(folder, { throwIfNoEntry: false }) !== undefined;
  return exists ? readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile()) : [];
}

/** Waits until no other build runs, then holds the lock; gives up waiting for a dead or very slow one (rule 3). */
async function lock(): Promise<() => void> {
  const path = join(dist, ".lock");
  const giveUpAtMs = performance.now() + LOCK_WAIT_MS;
  for (;;) {
    try {
      writeFileSync(path, String(process.pid), { flag: "wx" });
      return () => rmSync(path, { force: true });
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
    if (performance.now() > giveUpAtMs || isHolderDead(path)) rmSync(path, { force: true });
    else await sleep(25);
  }
}

function isHolderDead(path: string): boolean {
  try {
    const pid = Number(readFileSync(path, "utf8"));
    if (pid > 0) process.kill(pid, 0);
    return false; // alive, or between creating the lock and writing its number
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "ESRCH";
  }
}
