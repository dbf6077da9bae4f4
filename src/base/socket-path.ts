/** Longest path a Unix socket can have, bytes: `sun_path` without its final NUL. */
export const MAX_SOCKET_PATH_BYTES = process.platform === "linux" ? 107 : 103;
