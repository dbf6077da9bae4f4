import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import {
  MAX_HOPS,
  MAX_NOTIFY_BYTES,
  MAX_PENDING_INPUT_BYTES,
  MAX_PENDING_INPUTS,
  MAX_PENDING_ITEM_BYTES,
  MAX_PENDING_ITEMS,
} from "../protocol/limits.ts";
import { METHODS } from "../protocol/method.ts";
import type { Pending, SessionState } from "../session-log/session-state.ts";
import { emptyState } from "../session-log/session-state.ts";
import { type ChangingCall, type Decision, decide, type Phase, type Situation } from "./pod-state.ts";

const NOW = 1_790_000_000_000;
const PHASES = ["idle", "running", "paused", "closing"] as const satisfies readonly Phase[];

/** A situation in a phase, with a state that fits it; `change` makes it a special one. */
function situation(phase: Phase, change: (state: SessionState) => void = () => {}): Situation {
  const state = emptyState();
  state.lastSeq = 10;
  if (phase === "running" || phase === "paused") {
    const chain = { id: "chain_1", hops: 0 };
    state.turn = { turn: 1, trigger: "user", chain, phase, requests: 1, finished: false };
  }
  change(state);
  return { state, phase, nowMs: NOW };
}

function run(params: Partial<Extract<ChangingCall, { name: "run" }>["params"]> = {}): ChangingCall {
  return { name: "run", params: { input: [{ kind: "text", text: "hi" }], if_running: "reject", ...params } };
}

function notify(params: Partial<Extract<ChangingCall, { name: "notify" }>["params"]> = {}): ChangingCall {
  return { name: "notify", params: { source: "ci", message: "red", wake: true, ...params } };
}

const plain = (name: "pause" | "resume" | "cancel"): ChangingCall => ({ name, params: {} });
const setConfig: ChangingCall = { name: "set_config", params: { reasoning: "high" } };
const shutdown: ChangingCall = { name: "shutdown", params: {} };

function pendingInput(bytes = 1): Pending {
  const input = {
    type: "user_input",
    id: "input_1",
    segments: [{ kind: "text", text: "x" }],
    waits_for: "turn",
    origin: { by: "client" },
    chain: { id: "c", hops: 0 },
  } as const;
  return { kind: "input", id: "input_1", seq: 5, ts: 0, bytes, input: { ...input, segments: [...input.segments] } };
}

function pendingItem(id: string, bytes = 1): Pending {
  return {
    kind: "item",
    id,
    seq: 5,
    ts: 0,
    index: 0,
    bytes,
    item: {
      id,
      kind: "notification",
      payload: { source: "ci", message: "m" },
      body: "m",
      origin: { by: "client" },
      trust: "external",
      wake: true,
      chain: { id: "c", hops: 0 },
    },
  };
}

const refused = (code: string): Decision => ({
  kind: "refuse",
  refusal: { code, message: expect.any(String) } as Extract<Decision, { kind: "refuse" }>["refusal"],
});
const SHUTTING_DOWN: Decision = {
  kind: "refuse",
  refusal: {
    code: "shutting_down",
    message: "the Pod is shutting down; nothing was accepted",
    hint: "restore it and send again",
  },
};
const NOT_RUNNING: Decision = { kind: "refuse", refusal: { code: "not_running", message: "no turn is running" } };
const ALREADY_RUNNING: Decision = {
  kind: "refuse",
  refusal: {
    code: "already_running",
    message: "a turn is running; the input was not accepted",
    hint: 'use if_running "queue" or "steer", or cancel the turn',
  },
};
const NOT_PAUSED: Decision = {
  kind: "refuse",
  refusal: {
    code: "not_paused",
    message: "there is nothing to resume: no turn is paused, interrupted or failed, and nothing waits",
    hint: "send a message instead",
  },
};
const TURN_RUNS: Decision = { kind: "refuse", refusal: { code: "already_running", message: "a turn is running" } };

/** The method table of docs/protocol.md, row by row, in the columns of PHASES. */
const TABLE: readonly (readonly [string, ChangingCall, Readonly<Record<Phase, Decision>>])[] = [
  [
    "run",
    run(),
    {
      idle: { kind: "start_with_input", abandon: false },
      running: ALREADY_RUNNING,
      paused: { kind: "start_with_input", abandon: true },
      closing: SHUTTING_DOWN,
    },
  ],
  [
    "run, queued if running",
    run({ if_running: "queue" }),
    {
      idle: { kind: "start_with_input", abandon: false },
      running: { kind: "queue_input", waitsFor: "turn" },
      paused: { kind: "start_with_input", abandon: true },
      closing: SHUTTING_DOWN,
    },
  ],
  [
    "run, steering if running",
    run({ if_running: "steer" }),
    {
      idle: { kind: "start_with_input", abandon: false },
      running: { kind: "queue_input", waitsFor: "request" },
      paused: { kind: "start_with_input", abandon: true },
      closing: SHUTTING_DOWN,
    },
  ],
  [
    "notify",
    notify(),
    {
      idle: { kind: "accept_item", wake: true, state: "woke" },
      running: { kind: "accept_item", wake: true, state: "next_request" },
      paused: { kind: "accept_item", wake: true, state: "pending" },
      closing: SHUTTING_DOWN,
    },
  ],
  [
    "notify that wakes nobody",
    notify({ wake: false }),
    {
      idle: { kind: "accept_item", wake: false, state: "pending" },
      running: { kind: "accept_item", wake: false, state: "next_request" },
      paused: { kind: "accept_item", wake: false, state: "pending" },
      closing: SHUTTING_DOWN,
    },
  ],
  [
    "pause",
    plain("pause"),
    { idle: NOT_RUNNING, running: { kind: "pause_turn" }, paused: { kind: "nothing" }, closing: SHUTTING_DOWN },
  ],
  ["resume", plain("resume"), { idle: NOT_PAUSED, running: TURN_RUNS, paused: { kind: "resume_turn" }, closing: SHUTTING_DOWN }],
  [
    "cancel",
    plain("cancel"),
    { idle: NOT_RUNNING, running: { kind: "cancel_turn" }, paused: { kind: "drop_paused_turn" }, closing: SHUTTING_DOWN },
  ],
  [
    "set_config",
    setConfig,
    {
      idle: { kind: "change_config" },
      running: { kind: "change_config" },
      paused: { kind: "change_config" },
      closing: SHUTTING_DOWN,
    },
  ],
  [
    "shutdown",
    shutdown,
    { idle: { kind: "close" }, running: { kind: "close" }, paused: { kind: "close" }, closing: { kind: "close" } },
  ],
];

describe("the method table", () => {
  verifies(["M-run-idle", "M-run-running", "M-run-paused", "N10"], "says for run what each state does", () => {
    checkRows("run");
  });
  verifies(["M-notify-idle", "M-notify-running", "M-notify-paused"], "says for notify what each state does", () => {
    checkRows("notify");
  });
  verifies(["M-pause-idle", "M-pause-running", "M-pause-paused"], "says for pause what each state does", () => {
    checkRows("pause");
  });
  verifies(["M-resume-idle", "M-resume-running", "M-resume-paused"], "says for resume what each state does", () => {
    checkRows("resume");
  });
  verifies(["M-cancel-idle", "M-cancel-running", "M-cancel-paused"], "says for cancel what each state does", () => {
    checkRows("cancel");
  });
  verifies(["M-set_config-idle", "M-set_config-running", "M-set_config-paused"], "says for set_config that it is logged", () => {
    checkRows("set_config");
  });
  verifies(["M-shutdown-idle", "M-shutdown-running", "M-shutdown-paused"], "says for shutdown that the Pod closes", () => {
    checkRows("shutdown");
  });

  it("has a row for every method that changes a session", () => {
    const reading = ["hello", "attach", "detach", "history", "read_output", "status"];
    const changing = Object.keys(METHODS).filter((name) => !reading.includes(name));
    expect([...new Set(TABLE.map(([, call]) => call.name))].sort()).toEqual(changing.sort());
  });
});

function checkRows(method: ChangingCall["name"]): void {
  const rows = TABLE.filter(([, call]) => call.name === method);
  expect(rows.length).toBeGreaterThan(0);
  for (const [title, call, decisions] of rows) {
    for (const phase of PHASES)
      expect({ title, phase, decision: decide(situation(phase), call) }).toEqual({ title, phase, decision: decisions[phase] });
  }
}

describe("resume", () => {
  const cases: readonly (readonly [string, (state: SessionState) => void])[] = [
    ["a wake is owed", (state) => void state.owed.set("item_1", "pending")],
    ["an input waits", (state) => void state.pending.set("input_1", pendingInput())],
    [
      "the last turn was interrupted",
      (state) => {
        state.lastOutcome = "interrupted";
      },
    ],
    [
      "the last turn failed",
      (state) => {
        state.lastOutcome = "failed";
      },
    ],
  ];
  it.each(cases)("starts a turn in an idle Pod when %s", (_, change) => {
    expect(decide(situation("idle", change), plain("resume"))).toEqual({ kind: "start_resumed" });
  });

  it.each(["completed", "cancelled", "abandoned"] as const)("finds nothing to do after a turn that was %s", (outcome) => {
    const after = situation("idle", (state) => {
      state.lastOutcome = outcome;
      state.pending.set("item_1", pendingItem("item_1"));
    });
    expect(decide(after, plain("resume"))).toEqual(NOT_PAUSED);
  });
});

describe("what does not fit", () => {
  verifies(["N9", "I6"], "is refused with its own code, and one less is accepted", () => {
    const full = (count: number, bytes: number) =>
      situation("running", (state) => {
        for (let n = 0; n < count; n++) state.pending.set(`item_${n}`, pendingItem(`item_${n}`, bytes));
      });
    expect(decide(full(MAX_PENDING_ITEMS, 1), notify())).toMatchObject(refused("queue_full"));
    expect(decide(full(MAX_PENDING_ITEMS - 1, 1), notify())).toMatchObject({ kind: "accept_item" });
    expect(decide(full(1, MAX_PENDING_ITEM_BYTES - 2), notify())).toMatchObject(refused("queue_full"));
    expect(decide(full(1, MAX_PENDING_ITEM_BYTES - 3), notify())).toMatchObject({ kind: "accept_item" });

    const inputs = (count: number, bytes: number) =>
      situation("running", (state) => {
        for (let n = 0; n < count; n++) state.pending.set(`input_${n}`, pendingInput(bytes));
      });
    const queued = run({ if_running: "queue" });
    expect(decide(inputs(MAX_PENDING_INPUTS, 1), queued)).toMatchObject(refused("queue_full"));
    expect(decide(inputs(MAX_PENDING_INPUTS - 1, 1), queued)).toEqual({ kind: "queue_input", waitsFor: "turn" });
    expect(decide(inputs(1, MAX_PENDING_INPUT_BYTES - 1), queued)).toMatchObject(refused("queue_full"));
    expect(decide(inputs(1, MAX_PENDING_INPUT_BYTES - 2), queued)).toMatchObject({ kind: "queue_input" });
    const huge = run({ input: [{ kind: "text", text: "x".repeat(MAX_PENDING_INPUT_BYTES + 1) }] });
    expect(decide(situation("idle"), huge)).toMatchObject(refused("too_large"));
  });

  verifies(["N9"], "counts what waits of humans apart from what waits of programs", () => {
    const items = situation("running", (state) => {
      for (let n = 0; n < MAX_PENDING_ITEMS; n++) state.pending.set(`item_${n}`, pendingItem(`item_${n}`));
    });
    expect(decide(items, run({ if_running: "queue" }))).toMatchObject({ kind: "queue_input" });
    const inputs = situation("running", (state) => {
      for (let n = 0; n < MAX_PENDING_INPUTS; n++) state.pending.set(`input_${n}`, pendingInput());
    });
    expect(decide(inputs, notify())).toMatchObject({ kind: "accept_item" });
  });

  it("is measured in UTF-8 bytes", () => {
    const atLimit = "é".repeat(MAX_NOTIFY_BYTES / 2);
    expect(decide(situation("idle"), notify({ message: atLimit }))).toMatchObject({ kind: "accept_item" });
    expect(decide(situation("idle"), notify({ message: `${atLimit}x` }))).toMatchObject(refused("too_large"));
  });

  it("is a blank text too: no provider takes one", () => {
    expect(decide(situation("idle"), notify({ message: " \n\t" }))).toMatchObject(refused("invalid_input"));
    const blank = run({
      input: [
        { kind: "text", text: "  " },
        { kind: "paste", text: "\n" },
      ],
    });
    expect(decide(situation("idle"), blank)).toMatchObject(refused("invalid_input"));
    const half = run({
      input: [
        { kind: "text", text: "  " },
        { kind: "paste", text: "x" },
      ],
    });
    expect(decide(situation("idle"), half)).toMatchObject({ kind: "start_with_input" });
  });
});

describe("the same id again", () => {
  const answeredRun = { kind: "run", result: { turn: 3, seq: 9 } } as const;
  const answeredNotify = { kind: "notify", result: { item: "item_1", seq: 9, state: "woke" } } as const;
  const answeredIn = (phase: Phase) =>
    situation(phase, (state) => {
      state.answered.set("r", answeredRun);
      state.answered.set("n", answeredNotify);
    });

  it.each(["idle", "running", "paused"] as const)("is answered with the first result while %s (B35)", (phase) => {
    expect(decide(answeredIn(phase), run({ submission: "r" }))).toEqual({ kind: "answer_again", answered: answeredRun });
    expect(decide(answeredIn(phase), notify({ id: "n" }))).toEqual({ kind: "answer_again", answered: answeredNotify });
  });

  it("for another method is refused", () => {
    expect(decide(answeredIn("idle"), run({ submission: "n" }))).toMatchObject(refused("invalid_input"));
    expect(decide(answeredIn("idle"), notify({ id: "r" }))).toMatchObject(refused("invalid_input"));
  });
});

describe("a notification's wake", () => {
  verifies(["N11"], "is lost beyond the hop limit and not before", () => {
    const withHops = (hops: number) => decide(situation("idle"), notify({ chain: { id: "c", hops } }));
    expect(withHops(MAX_HOPS)).toEqual({ kind: "accept_item", wake: true, state: "woke" });
    expect(withHops(MAX_HOPS + 1)).toEqual({ kind: "accept_item", wake: false, state: "pending" });
  });

  verifies(["N11", "N6"], "is held by an empty bucket and by a failed turn, and its sender is told", () => {
    const empty = situation("idle", (state) => {
      state.bucket = { tokens: 0.5, ts: NOW };
    });
    expect(decide(empty, notify())).toEqual({ kind: "accept_item", wake: true, state: "pending" });
    const failed = situation("idle", (state) => {
      state.failures = 1;
      state.lastFailure = { ts: NOW - 1000, retryAfterMs: undefined };
    });
    expect(decide(failed, notify())).toEqual({ kind: "accept_item", wake: true, state: "pending" });
  });
});
