/**
 * What Wakeful promises, one numbered line each. A test that proves a line cites its id through `verifies`
 * (test/support/verifies.ts); test/requirements.test.ts fails on a line of status `now` that no test cites, and on a line of
 * status `later` that one does (turn it to `now` then).
 *
 * A suffix (`L8-fork`) is the part of a line that is built at another time than the rest of it.
 */

/** `now`: built, and needs a test. `later`: promised, not built yet. */
export type RequirementStatus = "now" | "later";

interface Promised {
  readonly status: RequirementStatus;
  readonly text: string;
}

const now = (text: string): Promised => ({ status: "now", text });
const later = (text: string): Promised => ({ status: "later", text });

const NOTIFICATIONS = {
  N1: now("A notification is accepted while idle, running and paused; its source is 1-128 characters without line break or `]`."),
  "N1-compacting": later("A notification is accepted while the Pod compacts."),
  N2: now("A notification to an idle Pod is committed as a system item and starts a turn by itself, whose model sees it."),
  N3: now(
    "A notification to a running Pod enters right before the next request, behind the tool results; the turn is not interrupted.",
  ),
  N4: now("Several notifications that arrive while running keep their order and enter together, each a block of its own."),
  N5: now(
    "Several notifications that arrive together while idle start exactly one turn, whose first request holds them all in one message.",
  ),
  N6: now(
    "A waking item owes a wake until a request that took it was answered; an idle Pod that owes one starts a turn, after a failure with growing waits.",
  ),
  "N6-restore": now(
    "A restored Pod that owes a wake starts a turn; a human input that waits starts none, enters the next request, and an alert says so.",
  ),
  N7: now("A notification is put before the model by the default template, and a user or a project may override that template."),
  N8: now(
    "A notification is acknowledged only when it is on disk, and is then injected exactly once and acted on, through kill -9 and outages.",
  ),
  "N8-compaction": later("An acknowledged notification is injected exactly once also across a compaction."),
  N9: now(
    "What waits is bounded by count and bytes; what does not fit is refused to its sender with a clear error, and nothing is dropped.",
  ),
  "N9-children": later("A reconciled child event always fits into the queue, and a refused callback is left to reconciliation."),
  N10: now(
    "A human run during any turn is refused with already_running, or queued for the next turn, or steers the next request, as it asks.",
  ),
  N11: now(
    "Automatic turns spend a bucket that refills with time and with human input, and items beyond the hop limit wake no one.",
  ),
  "N11-pods": later("A run sent by another Pod counts as automatic."),
  N12: now("A notification to a paused Pod is durable at once and enters the first request after resume."),
  N13: now(
    "system_item confirms that an item is durable, and the request_started that names it confirms that it entered the context.",
  ),
  N14: now(
    "Text of others goes to the model as a tagged, escaped block of a user message, never in an operator role, and the system prompt says so.",
  ),
  "N14-kinds": later(
    "Every kind of system item has the trust the table gives it, those of children, knowledge and workflows included.",
  ),
} as const;

const SYSTEM_ITEMS = {
  S1: now("One event, system_item, carries every injection, one event an item."),
  S2: now("One kind of log entry, system_items, holds them in batches."),
  S3: now(
    "An item has one typed kind with one renderer for the model and one a client; a kind a client does not know is shown generically.",
  ),
  "S3-kinds": later("The kinds pod_event, file_attachment, knowledge and workflow exist with their payloads."),
  S4: now("An item keeps its payload and the exact text the model saw, so that a new template changes no past request."),
  S5: now("All injected text is made of system items which one function commits and the fold of the log puts into the history."),
  "S5-mentions": later("What @path, #slug and /slug bring in, and what children report, becomes system items on the same road."),
  S6: now("Every system message in the history is a system item; the model never writes that role."),
  S7: now("Clients draw by kind, and nothing is drawn twice: not live, not after a reconnect, not after a restore."),
  S8: now(
    "An alert is for people only: never in the context, in memory and bounded, snapshotted to who attaches late, raised again after a restore.",
  ),
  S9: now("Interceptors may cancel, add system items or stop a turn at their points, in order."),
  "S9-hooks": later(
    "A hook sees a read-only summary, answers continue, skip, abort or pause, runs behind the interceptors and adds nothing to the history.",
  ),
  S10: now("A log that holds the former tag hook_injected_items is read, as items of kind legacy."),
} as const;

const SESSION_LOG = {
  L1: now("The session log has persistent types of its own and does not serialise the items of the turn loop."),
  L2: now("The converters between logged and live items stand in the session log; no other folder knows logged items."),
  L3: now("What a provider needs to be sent the history again is kept; what it does not need is dropped."),
  L4: now("A new field on a live item does not change one byte of what is written."),
  L5: now("An item survives the way to the log and back, and a replayed session makes the same request."),
  L6: now("Model output, tool results and kept history are logged items, and user input is kept as typed segments."),
  L7: now("Every line carries the hash chain, and verifying proves the log whole or names the first bad line."),
  L8: now("Restoring is replaying: no snapshot is needed."),
  "L8-rotation": now("A long log goes on in a new file that links to the one before, and a restore reads the newest file only."),
  "L8-links": later(
    "Compaction and fork keep the link to where they came from, and a compacted session is restored from one bounded file.",
  ),
  L9: now("A torn last line is cut and said; damage inside the log stops with file, line and what to do."),
} as const;

const CALLBACKS = {
  C1: later(
    "A child keeps its parent's address from its start and tries that first, then looks the parent's session up in the registry.",
  ),
  C2: later(
    "A child sends one event a connection, in order, and a slow, absent or dead parent neither delays nor fails its turn.",
  ),
  C3: later("The events are turn_ended, errored, shut_down and scope_sub_delegated, with their fields."),
  C4: later("Events carry kind and small metadata, never the answer; an error's message is cut to 2 KiB and is external text."),
  C5: later("Events are sent at the end of a run, at an error in one, at shutdown and after a successful spawn by the child."),
  C6: later("The parent applies an event's effect first and then makes a system item of it, which wakes an idle parent."),
  C7: later("A parent learns of grandchildren, passes that upwards, and owns them when the child between dies."),
  C8: later("Only a Pod that holds the secret given at spawn may report as that child; no log holds a secret."),
  C9: later("A parent that missed an event makes it itself by reconciling, so that every ending is heard of exactly once."),
  C10: later("After a parent's restart its children find the new address through the registry."),
  C11: later("ListPods tells the truth without any callback."),
  C12: later("Events of one child are seen in order, and a turn_ended behind a shut_down changes nothing."),
} as const;

const INVARIANTS = {
  I1: now("An item is in the log before a model request contains it."),
  I2: now(
    "A committed event is sent only after its entry is written, answers and requests wait for the sync, and a failed append applies nothing.",
  ),
  I3: now("Only one function appends, one call after another, and one process holds a session."),
  I4: now("Live state, restored state and every client's view come from the same folds and are equal."),
  I5: now("Every tool call in the log gets a result, also after a cancel or a crash."),
  I6: now("Every queue is bounded, and overflow is a typed error to the sender or a cut-off of a slow reader, never a drop."),
  I7: now("Notifications neither interrupt a turn nor lie unread."),
  I8: later("Callbacks cannot hurt the child that sends them."),
  I9: now("At most one living Pod may write a path, and what a dead Pod held comes back."),
  "I9-delegation": later("Scope lent to a child is a part of the lender's and returns when the child ends in any way."),
  I10: now("Every injected item has a cap, and what is cut is said."),
  I11: now("Between model switches each request extends the one before it, item by item."),
  I12: now("No text grants a permission: words in a notification or a file change neither scope nor trust."),
} as const;

/** What each method does, by the state of the Pod; one text = the same in every state. */
const METHODS = {
  hello: row("It answers with Pod, version and protocol"),
  attach: row("It answers with a snapshot, then events follow without gap or overlap"),
  detach: row("Events stop, answers go on"),
  history: row("It pages backwards through committed events"),
  run: row(
    "It starts a turn",
    "It is refused with already_running, or queued, or steers, as it asks",
    "It abandons the paused turn, whose open calls get results, and starts one",
  ),
  notify: row("It wakes the Pod", "It waits for the next request", "It stays pending"),
  pause: row(
    "It is refused with not_running",
    "The turn stops at the next safe point and the answer follows turn_paused",
    "It changes nothing",
  ),
  resume: row(
    "It starts a turn if a wake is held, an input waits or the last turn did not complete, else it is refused with not_paused",
    "It is refused with already_running",
    "The paused turn goes on",
  ),
  cancel: row(
    "It is refused with not_running",
    "The turn is aborted and every call gets a result",
    "The paused turn is abandoned and the Pod idle",
  ),
  set_config: row("It is logged and the next request obeys"),
  read_output: row("It gives what the Pod has answered, from a cursor on"),
  status: row("It gives the status"),
  shutdown: row(
    "It answers once everything is on disk, and the process ends",
    "It cancels the turn first",
    "It ends and the turn stays paused",
  ),
} as const;

const METHODS_LATER = {
  pod_event: row(
    "Its effect is applied, then it wakes as notify does",
    "Its effect is applied at once",
    "Its effect is applied at once, then it is pending",
  ),
  compact: row("It compacts", "It is refused with already_running", "It is refused with busy"),
  fork: row("It makes a session from here", "It makes one from the last request border", "It makes one from here"),
  rewind: row("It cuts the history and erases nothing", "It is refused with already_running", "It is refused with busy"),
  list_completions: row("It lists what completes a prefix"),
  answer: row(
    "It is refused with not_found when no question is open",
    "The first answer to a question wins",
    "The first answer to a question wins",
  ),
} as const;

function row(idle: string, running: string = idle, paused: string = idle) {
  return { idle, running, paused };
}

/** The states of a Pod that are a column of the method table. */
const STATES = ["idle", "running", "paused"] as const;

/** `M-run-idle`: the cell of the method table for one method in one state. */
type CellId = `M-${keyof typeof METHODS | keyof typeof METHODS_LATER}-${(typeof STATES)[number]}`;
type LineId =
  | keyof typeof NOTIFICATIONS
  | keyof typeof SYSTEM_ITEMS
  | keyof typeof SESSION_LOG
  | keyof typeof CALLBACKS
  | keyof typeof INVARIANTS;

/** The id of a promised line. The type knows every one, so that a wrong citation is a compile error. */
export type RequirementId = LineId | CellId;

/** One promised line. `source` names the page or the subject it belongs to. */
export interface Requirement extends Promised {
  readonly id: string;
  readonly source: string;
}

/** Every promised line, in reading order. */
export const REQUIREMENTS: readonly Requirement[] = [
  ...lines("notifications", NOTIFICATIONS),
  ...lines("system items", SYSTEM_ITEMS),
  ...lines("session log", SESSION_LOG),
  ...lines("callbacks", CALLBACKS),
  ...lines("invariants", INVARIANTS),
  ...cells(METHODS, "now"),
  ...cells(METHODS_LATER, "later"),
];

const BY_ID: ReadonlyMap<string, Requirement> = new Map(REQUIREMENTS.map((requirement) => [requirement.id, requirement]));

/** The promised line of that id, or undefined. */
export function requirementOf(id: string): Requirement | undefined {
  return BY_ID.get(id);
}

function lines(source: string, table: Readonly<Record<string, Promised>>): Requirement[] {
  return Object.entries(table).map(([id, promised]) => ({ id, source, ...promised }));
}

function cells(table: Readonly<Record<string, ReturnType<typeof row>>>, status: RequirementStatus): Requirement[] {
  return Object.entries(table).flatMap(([method, texts]) =>
    STATES.map((state) => ({
      id: `M-${method}-${state}`,
      source: "methods",
      status,
      text: `${method} while ${state}: ${texts[state]}.`,
    })),
  );
}
