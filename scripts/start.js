// `npm start -- ARGS` is `wakeful ARGS`. Without arguments it is `wakeful --or-demo`: what `wakeful` opens, or the demo where
// there is no terminal or no model is configured. Which of the two is the command's to decide.
import { fileURLToPath } from "node:url";

const args = process.argv.slice(2);
const launcher = fileURLToPath(new URL("../bin/wakeful.js", import.meta.url));
process.argv = [process.execPath, launcher, ...(args.length > 0 ? args : ["--or-demo"])];
await import("../bin/wakeful.js");
