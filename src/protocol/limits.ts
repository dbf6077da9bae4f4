/** Bounds of the protocol (docs/protocol.md). Every queue and every message has one; what does not fit is refused, never dropped. */

/** Longest line a Pod accepts, in bytes without the line break. */
export const MAX_LINE_BYTES = 8 * 1024 * 1024;
/** Longest line a client accepts from a Pod: an event repeats an input of up to MAX_LINE_BYTES inside an envelope. */
export const MAX_POD_LINE_BYTES = 4 * MAX_LINE_BYTES;
/** Newest part of a session in a snapshot: at most this many events ... */
export const SNAPSHOT_MAX_EVENTS = 500;
/** ... and about this many bytes of them (one event always fits). */
export const SNAPSHOT_MAX_BYTES = 1024 * 1024;
/** Most events one `history` answer holds. */
export const HISTORY_MAX_EVENTS = 500;
/** `notify` message, UTF-8 bytes (N9). */
export const MAX_NOTIFY_BYTES = 64 * 1024;
/** Pending notifications and child events together: count and UTF-8 bytes (N9). */
export const MAX_PENDING_ITEMS = 256;
export const MAX_PENDING_ITEM_BYTES = 1024 * 1024;
/** Pending human inputs together: count and UTF-8 bytes (N9). */
export const MAX_PENDING_INPUTS = 32;
export const MAX_PENDING_INPUT_BYTES = 16 * 1024 * 1024;
/** Answered `submission` and `notify.id` values a session remembers. */
export const MAX_ANSWERED_IDS = 1000;
/** A causal chain longer than this wakes nobody (N11). */
export const MAX_HOPS = 16;
/** Automatic turns come out of a bucket of this size (N11) ... */
export const WAKE_BUCKET_SIZE = 50;
/** ... which gets one back this often. */
export const WAKE_REFILL_MS = 2 * 60 * 1000;
/** Notifications that arrive within this window after the first one of a burst wake once (N5). */
export const WAKE_WINDOW_MS = 10;
/** Current alerts a Pod keeps (S8). */
export const MAX_ALERTS = 512;
/** Most requests of one connection that may be unanswered; further lines wait in the socket. */
export const MAX_OPEN_REQUESTS = 256;
