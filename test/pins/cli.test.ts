import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { runCli } from "../../src/cli/dispatch.ts";
import { fakeIo } from "../support/fake-io.ts";

let home = "";
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "wk-"));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

async function call(...args: string[]) {
  const io = fakeIo({ env: { WAKEFUL_HOME: home, HOME: home }, cwd: home });
  const code = await runCli(args, io);
  return { code, out: io.out(), err: io.err() };
}

describe("the help of the program", () => {
  const help = `Usage: wakeful [command]

A runtime for LLM agents that stay awake for each other. Without a command, in a terminal: talk with this directory's Pod.

Commands:
  run      run one task and stream the answer; the exit code is the turn's outcome
  start    start a Pod in the background and print its name
  ps       list living Pods: status, turn, tokens (in/out), model
  attach   talk with a Pod in this terminal; a stopped one is restored
  send     send a task to a living Pod
  notify   tell a Pod something; returns when it is durable, wakes it if it is idle
  output   print what a Pod has answered
  pause    stop a running turn at the next safe point
  resume   go on after a pause, or start the turn that is owed
  cancel   abort the running or paused turn
  stop     end a Pod in order; its session can be restored
  restore  bring a stopped or crashed Pod back
  log      look at a session's log: show, follow, verify, audit, export, repair
  demo     the whole story without a key: real Pods, a scripted model, verified at the end
  models   which providers and models can be used, and how to name one
  config   show the configuration and where each value comes from
  doctor   is everything in place, and why is a Pod idle
  schema   print the JSON Schema of the protocol

Options:
  --help     this text, or a command's: wakeful COMMAND --help
  --version  print the version

Exit codes:
  0 done, 1 failed, 2 wrong usage, 3 no such Pod, 4 refused, 5 storage, 124 timed out, 130 interrupted

Example:
  wakeful run "Say hello"
`;

  test.each([[["--help"]], [["-h"]], [["help"]], [[]]])("wakeful %j outside a terminal prints it", async (args) => {
    expect(await call(...args)).toEqual({ code: 0, out: help, err: "" });
  });
});

test("the help of run", async () => {
  const { code, out } = await call("run", "--help");
  expect(code).toBe(0);
  expect(out).toBe(`Usage: wakeful run [options] TEXT|-

Run one task and stream the answer; the exit code is the turn's outcome.

TEXT - is read from standard input. A Pod that run started ends afterwards; its session can be restored.
The first Ctrl-C cancels the turn, the second leaves at once.

Options:
  -n, --name NAME                use the living Pod of that name, or start one under it
  -c, --continue                 continue this directory's latest session
  -r, --restore NAME|SESSION     continue that session
  -m, --model MODEL              <provider>/<model>, or script:FILE for a written script
      --scope PATH[:read|write]  what it may touch instead of this directory; repeatable
      --reasoning EFFORT         default, none, minimal, low, medium, high or xhigh
      --if-running MODE          a turn runs already: reject (default), queue or steer
      --timeout S                cancel after that many seconds and exit with 124
      --detach                   return once the task is accepted; the Pod stays
      --keep                     leave a Pod alive that this command started
      --json                     print every event as one JSON line, then a line of type result

Example:
  wakeful run "Find out why the tests fail and mend them"
`);
});

test("the help of notify", async () => {
  expect((await call("notify", "--help")).out).toBe(`Usage: wakeful notify [options] NAME MESSAGE|-

Tell a Pod something; returns when it is durable, wakes it if it is idle.

Options:
      --source S  who speaks, such as ci or cron (default: your user name)
      --passive   do not wake it: its next request takes the message in
      --id ID     makes a repeat harmless: the same id again is answered with the first result
      --restore   bring the Pod back first if it is stopped
      --json      print machine output: pure JSON on stdout

Example:
  wakeful notify reviewer --source ci "Build 512 failed"
`);
});

test.each(COMMANDS.map(({ name }) => [name]))("the help of %s has an example and names what it takes", async (name) => {
  const { code, out, err } = await call(name, "--help");
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(new RegExp(`^Usage: wakeful ${name}`));
  expect(out).toContain(`Example:\n  wakeful ${name}`);
});

test("the version is a version", async () => {
  const { code, out } = await call("--version");
  expect(code).toBe(0);
  expect(out).toMatch(/^\d+\.\d+\.\d+\n$/);
});

describe("exit codes and the one line of an error", () => {
  test.each([
    [["rnu"], 2, "wakeful: unknown command 'rnu'. Did you mean run?\n"],
    [["xyzzy"], 2, "wakeful: unknown command 'xyzzy'. See: wakeful --help\n"],
    [["--bogus"], 2, "wakeful: unknown option --bogus. See: wakeful --help\n"],
    [["run"], 2, "wakeful: run: TEXT|- is missing. See: wakeful run --help\n"],
    [["run", " "], 2, "wakeful: run: the text is empty. Give a task, or - to read it from standard input\n"],
    [["run", "--jsno", "x"], 2, "wakeful: run: unknown option --jsno. Did you mean --json?\n"],
    [["run", "-c", "-n", "a", "x"], 2, "wakeful: run: --name, --continue and --restore exclude each other. Give one of them\n"],
    [["run", "--timeout", "soon", "x"], 2, "wakeful: run: --timeout soon. A number of seconds above 0\n"],
    [["run", "-c", "x"], 3, `wakeful: no session was started in HOME. Start one: wakeful run TEXT\n`],
    [["run", "-r", "nope", "x"], 3, "wakeful: no Pod or session is called nope. wakeful ps --all lists what there is\n"],
    [["send", "nope", "x"], 3, "wakeful: no Pod or session is called nope. wakeful ps --all lists what there is\n"],
    [["notify", "nope", "x"], 3, "wakeful: no Pod or session is called nope. wakeful ps --all lists what there is\n"],
    [["stop", "nope"], 3, "wakeful: no Pod or session is called nope. wakeful ps --all lists what there is\n"],
    [["restore", "../etc"], 3, "wakeful: no Pod or session is called ../etc. wakeful ps --all lists what there is\n"],
    [["help", "rnu"], 2, "wakeful: unknown command 'rnu'. Did you mean run?\n"],
    [
      ["demo", "twice"],
      2,
      "wakeful: demo: unexpected argument 'twice'. Put a text of several words in quotes; see: wakeful demo --help\n",
    ],
    [["run", "-r", "", "x"], 3, "wakeful: no Pod or session is called ''. wakeful ps --all lists what there is\n"],
    [["send", "my pod", "x"], 3, "wakeful: no Pod or session is called 'my pod'. wakeful ps --all lists what there is\n"],
    [["stop"], 2, "wakeful: stop: name one Pod, or --all. See: wakeful ps\n"],
    [["notify", "a", ""], 2, "wakeful: the text is empty. Give a text, or - to read it\n"],
    [
      ["notify", "a", "x", "--source", "a]"],
      2,
      `wakeful: notify: --source "a]". 1 to 128 characters, no line break, control character or ']'\n`,
    ],
    [["output", "a", "--since", "x"], 2, "wakeful: output: --since x. A place is SEQ or SEQ.INDEX, such as 17.0\n"],
    [
      ["start", "--reasoning", "lots"],
      2,
      "wakeful: --reasoning: 'lots' is no effort. One of default, none, minimal, low, medium, high, xhigh\n",
    ],
  ])("wakeful %j", async (args, code, err) => {
    const result = await call(...args);
    expect({ ...result, err: result.err.replaceAll(home, "HOME") }).toEqual({ code, out: "", err });
  });

  test("with --json the error is one object on standard output, and nothing on standard error", async () => {
    const { code, out, err } = await call("send", "nope", "x", "--json");
    expect([code, err]).toEqual([3, ""]);
    expect(JSON.parse(out)).toEqual({
      error: { code: "not_found", message: "no Pod or session is called nope", hint: "wakeful ps --all lists what there is" },
    });
  });

  test("colours stand on a terminal alone, and never with NO_COLOR", async () => {
    const told = async (env: Record<string, string>, isTTY: boolean) => {
      const io = fakeIo({ env: { WAKEFUL_HOME: home, HOME: home, ...env }, cwd: home, isTTY });
      await runCli(["rnu"], io);
      return io.err();
    };
    expect(await told({}, true)).toBe("\u001b[31mwakeful:\u001b[0m unknown command 'rnu'. Did you mean run?\n");
    for (const plain of [await told({}, false), await told({ NO_COLOR: "1" }, true), await told({ TERM: "dumb" }, true)])
      expect(plain).toBe("wakeful: unknown command 'rnu'. Did you mean run?\n");
  });

  test("ps of nothing is an empty array", async () => {
    expect(await call("ps", "--json")).toEqual({ code: 0, out: "[]\n", err: "" });
  });
});
