import { runCli } from "./dispatch.ts";
import { reportError } from "./exit.ts";
import { EXIT } from "./io.ts";
import { processIo } from "./process-io.ts";

/** The program `wakeful`: runs the command line it was given and exits with its code. */
const { io, flush, readerIsGone, failure } = processIo();
let code = await runCli(process.argv.slice(2), io);
await flush();
if (readerIsGone()) code = EXIT.done;
const notWritten = failure();
if (notWritten !== undefined) code = reportError(notWritten, io, { json: false }); // Whatever it did, nobody got all of it.
// Explicitly: an open standard input must not keep a finished command alive.
process.exit(code);
