import manifest from "../../package.json" with { type: "json" };

/** The version of this build, from the package's own manifest: what `hello`, `--version` and the log entries say. */
export const VERSION: string = manifest.version;
