/** Environment variable that marks every process of one tool call: `<pid of the Pod>/<its start time>/<random>`. */
export const CALL_VARIABLE = "WAKEFUL_CALL";
/** Descriptor every process of a call inherits. High, because scripts use the low ones. */
export const CALL_DESCRIPTOR = 29;
