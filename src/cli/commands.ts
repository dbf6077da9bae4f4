import type { CommandSpec, OptionSpec } from "./command-spec.ts";

const json: OptionSpec = { help: "print machine output: pure JSON on stdout" };
const restore: OptionSpec = { help: "bring the Pod back first if it is stopped" };
const name = { name: "NAME" };
const text = { name: "TEXT|-" };

const launch = {
  model: { short: "m", value: "MODEL", help: "<provider>/<model>, or script:FILE for a written script" },
  scope: { value: "PATH[:read|write]", many: true, help: "what it may touch instead of this directory; repeatable" },
  reasoning: { value: "EFFORT", help: "default, none, minimal, low, medium, high or xhigh" },
} satisfies Record<string, OptionSpec>;

/** Every command, in the order of the help. */
export const COMMANDS: readonly CommandSpec[] = [
  {
    name: "run",
    summary: "run one task and stream the answer; the exit code is the turn's outcome",
    args: [text],
    options: {
      name: { short: "n", value: "NAME", help: "use the living Pod of that name, or start one under it" },
      continue: { short: "c", help: "continue this directory's latest session" },
      restore: { short: "r", value: "NAME|SESSION", help: "continue that session" },
      ...launch,
      "if-running": { value: "MODE", help: "a turn runs already: reject (default), queue or steer" },
      timeout: { value: "S", help: "cancel after that many seconds and exit with 124" },
      detach: { help: "return once the task is accepted; the Pod stays" },
      keep: { help: "leave a Pod alive that this command started" },
      json: { help: "print every event as one JSON line, then a line of type result" },
    },
    details: [
      "TEXT - is read from standard input. A Pod that run started ends afterwards; its session can be restored.",
      "The first Ctrl-C cancels the turn, the second leaves at once.",
    ],
    example: 'wakeful run "Find out why the tests fail and mend them"',
    run: { kind: "parsed", load: async () => (await import("./run-command.ts")).runRunCommand },
  },
  {
    name: "start",
    summary: "start a Pod in the background and print its name",
    args: [],
    options: { name: { short: "n", value: "NAME", help: "its name; a stopped Pod of that name is restored" }, ...launch, json },
    example: "wakeful start -n reviewer --scope src:read",
    run: { kind: "parsed", load: async () => (await import("./start-command.ts")).runStartCommand },
  },
  {
    name: "ps",
    summary: "list living Pods: status, turn, tokens (in/out), model",
    args: [],
    options: { all: { short: "a", help: "also sessions that can be restored" }, json },
    example: "wakeful ps --all",
    run: { kind: "parsed", load: async () => (await import("./ps-command.ts")).runPsCommand },
  },
  {
    name: "attach",
    summary: "talk with a Pod in this terminal; a stopped one is restored",
    args: [name],
    options: { json: { help: "print every event as one JSON line; lines from standard input are sent" } },
    details: ["Typed lines are sent; /help lists the commands. Ctrl-C cancels a running turn, else leaves: the Pod lives on."],
    example: "wakeful attach reviewer",
    run: { kind: "parsed", load: async () => (await import("./attach-command.ts")).runAttachCommand },
  },
  {
    name: "send",
    summary: "send a task to a living Pod",
    args: [name, text],
    options: {
      queue: { help: "a turn runs already: start the next one with it" },
      steer: { help: "a turn runs already: into its next request" },
      wait: { help: "stream the answer as run does; the exit code is the turn's outcome" },
      restore,
      json,
    },
    example: 'wakeful send reviewer --queue "Then look at the docs"',
    run: { kind: "parsed", load: async () => (await import("./send-command.ts")).runSendCommand },
  },
  {
    name: "notify",
    summary: "tell a Pod something; returns when it is durable, wakes it if it is idle",
    args: [name, { name: "MESSAGE|-" }],
    options: {
      source: { value: "S", help: "who speaks, such as ci or cron (default: your user name)" },
      passive: { help: "do not wake it: its next request takes the message in" },
      id: { value: "ID", help: "makes a repeat harmless: the same id again is answered with the first result" },
      restore,
      json,
    },
    example: 'wakeful notify reviewer --source ci "Build 512 failed"',
    run: { kind: "parsed", load: async () => (await import("./notify-command.ts")).runNotifyCommand },
  },
  {
    name: "output",
    summary: "print what a Pod has answered",
    args: [name],
    options: { since: { value: "SEQ.INDEX", help: "only what is newer than that place" }, json },
    example: "wakeful output reviewer",
    run: { kind: "parsed", load: async () => (await import("./output-command.ts")).runOutputCommand },
  },
  ...(["pause", "resume", "cancel"] as const).map(
    (method): CommandSpec => ({
      name: method,
      summary: {
        pause: "stop a running turn at the next safe point",
        resume: "go on after a pause, or start the turn that is owed",
        cancel: "abort the running or paused turn",
      }[method],
      args: [name],
      options: { json },
      example: `wakeful ${method} reviewer`,
      run: { kind: "parsed", load: async () => (await import("./control-command.ts")).controlCommand(method) },
    }),
  ),
  {
    name: "stop",
    summary: "end a Pod in order; its session can be restored",
    args: [{ name: "NAME", optional: true }],
    options: { all: { short: "a", help: "every living Pod" }, json },
    example: "wakeful stop reviewer",
    run: { kind: "parsed", load: async () => (await import("./stop-command.ts")).runStopCommand },
  },
  {
    name: "restore",
    summary: "bring a stopped or crashed Pod back",
    args: [{ name: "NAME|SESSION" }],
    options: { json },
    example: "wakeful restore reviewer",
    run: { kind: "parsed", load: async () => (await import("./restore-command.ts")).runRestoreCommand },
  },
  {
    name: "log",
    summary: "look at a session's log: show, follow, verify, audit, export, repair",
    args: [{ name: "SUBCOMMAND" }, name],
    options: { json },
    example: "wakeful log verify reviewer",
    run: { kind: "raw", load: async () => (await import("./log/log-command.ts")).runLogCommand },
  },
  {
    name: "demo",
    summary: "the whole story without a key: real Pods, a scripted model, verified at the end",
    args: [],
    options: { json },
    example: "wakeful demo",
    run: {
      kind: "parsed",
      load: async () => {
        const { runDemo } = await import("./demo/demo-command.ts");
        return (args, io) => runDemo(args.has("json") ? ["--json"] : [], io);
      },
    },
  },
  {
    name: "models",
    summary: "which providers and models can be used, and how to name one",
    args: [],
    options: { json },
    example: "wakeful models",
    run: { kind: "parsed", load: async () => (await import("./models-command.ts")).runModelsCommand },
  },
  {
    name: "config",
    summary: "show the configuration and where each value comes from",
    args: [],
    options: { json },
    example: "wakeful config",
    run: { kind: "parsed", load: async () => (await import("./config-command.ts")).runConfigCommand },
  },
  {
    name: "doctor",
    summary: "is everything in place, and why is a Pod idle",
    args: [{ name: "NAME", optional: true }],
    options: { json },
    example: "wakeful doctor reviewer",
    run: { kind: "parsed", load: async () => (await import("./doctor-command.ts")).runDoctorCommand },
  },
  {
    name: "schema",
    summary: "print the JSON Schema of the protocol",
    args: [],
    options: {},
    example: "wakeful schema > wakeful-protocol.json",
    run: { kind: "parsed", load: async () => (await import("./schema-command.ts")).runSchemaCommand },
  },
];
