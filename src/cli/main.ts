import { runCli } from "./dispatch.ts";
import { EXIT } from "./io.ts";
import { processIo } from "./process-io.ts";

/** The program `wakeful`: runs the command line it was given and exits with its code. */
const { io, flush, readerIsGone } = processIo();
const code = await runCli(process.argv.slice(2), io);
await flush();
// Explicitly: an open standard input must not keep a finished command alive.
process.exit(readerIsGone() ? EXIT.done : code);
