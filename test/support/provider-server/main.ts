/**
 * The strict provider server by hand: `node test/support/provider-server/main.ts [--port N] [--say TEXT] [--command COMMAND]`.
 * Prints its URL; set ANTHROPIC_BASE_URL to it and ANTHROPIC_API_KEY to anything. A request that ends with a human's words is answered with
 * a Bash call of COMMAND (none if it is empty), one that ends with results with TEXT. Broken rules are printed to standard error.
 */
import { parseArgs } from "node:util";
import { stream, text, toolCall } from "./answer.ts";
import { startProviderServer } from "./provider-server.ts";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    say: { type: "string", default: "I looked around. All done." },
    command: { type: "string", default: "ls" },
  },
});

const server = await startProviderServer({
  port: Number(values.port),
  answer: (request) => {
    process.stderr.write(`R${request.n}: ${request.bytes.length} bytes\n`);
    const isFirst = request.text.lastIndexOf('"tool_result"') < request.text.lastIndexOf('"role":"user"');
    return isFirst && values.command !== ""
      ? stream(text("Let me look."), toolCall("Bash", { command: values.command }))
      : stream(text(values.say));
  },
});
process.stdout.write(`${server.baseUrl}\n`);

let reported = 0;
setInterval(() => {
  for (const violation of server.violations.slice(reported)) process.stderr.write(`broken rule: ${violation}\n`);
  reported = server.violations.length;
}, 200).unref();

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    server.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}
