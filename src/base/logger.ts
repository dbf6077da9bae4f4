/** Diagnostics of a process: one line each, for the people who run it. Never a way to tell a client or a model anything. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
}

/** Writes `<ISO time> <level> <message>` lines to standard error (a Pod's goes to `pod.stderr` in its session folder). */
export const stderrLogger: Logger = {
  info: (message) => write("info", message),
  warn: (message) => write("warn", message),
};

function write(level: string, message: string): void {
  process.stderr.write(`${new Date().toISOString()} ${level} ${message.replaceAll("\n", "\\n")}\n`);
}
