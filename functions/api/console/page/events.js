/** The view of a run's events: blocks of text, reasoning and calls, in order, with sub-agents inside the calls
 *  that asked them. Built from a log, from a live stream, or from stored messages. `calls` are at all depths, `marks`
 *  counts what a timeline shows. */
export function newView() {
  return { blocks: [], calls: new Map(), waiting: new Map(), last: 0, marks: 0, status: "running", finish: null, error: null, seen: new Set(), refused: new Set() };
}

/** The view after one more event. Changes it in place. */
export function applyEvent(view, event) {
  if (event.seq) view.last = event.seq;
  if (!event.type.endsWith("-delta") && event.type !== "data") view.marks += 1;
  const apply = HANDLERS[event.type] || (PASSED_OVER[event.type] ? null : showUnknown);
  apply?.(view, event, scopeOf(view, event));
  return view;
}

/** Types of events that the view does not show, and why. */
export const PASSED_OVER = Object.freeze({
  __proto__: null,
  "agent-start": "the turn is on the page",
  "turn-end": "its message and the ends of its calls have said all of it",
  "agent-end": "all of it was shown",
});

/** Treats an event of a newer server as data, since nothing else is known about it. */
function showUnknown(view, event, { blocks }) {
  blocks.push({ kind: "data", name: event.type, data: event });
}

const PARTS = new Set(["text", "reasoning", "tool_call", "tool_result", "file", "data"]);

/** The view of a run that is over, from its messages and those of its sub-agents. Its usage says who made each call. */
export function viewOfMessages(messages, children = [], usage = null) {
  const view = newView();
  for (const message of messages) applyEvent(view, { type: "message", message });
  const callIds = new Map((usage?.sub_agents || []).map((each) => [each.run_id, each.tool_call_id]));
  for (const run of children) {
    const { blocks } = viewOfMessages(run.messages, run.children, run.usage);
    const call = view.calls.get(callIds.get(run.id)) || [...view.calls.values()].find((each) => each.name === run.agent && !each.blocks.length);
    if (call) call.blocks = blocks;
    else view.blocks.push({ kind: "agent", name: run.agent, blocks });
  }
  return view;
}

/** The blocks that an event belongs to: the run's own, or those of the call in which a sub-agent works. */
function scopeOf(view, { parent_tool_call_id: callId, agent_path: path }) {
  if (!callId) return { blocks: view.blocks, key: "" };
  return { blocks: callIn(view, view.blocks, callId, path.at(-1)).blocks, key: callId };
}

function dropStep(blocks, key) {
  for (let n = blocks.length - 1; n >= 0; n -= 1) if (blocks[n].key === key && blocks[n].draft) blocks.splice(n, 1);
}

function append({ blocks, key }, kind, { step, text }) {
  const last = blocks.at(-1), at = `${key}#${step}`;
  if (last?.kind === kind && last.key === at && last.draft) last.text += text;
  else blocks.push({ kind, key: at, text, draft: true });
}

function callIn(view, blocks, id, name, args) {
  let call = view.calls.get(id);
  if (!call) {
    call = { kind: "call", id, name, args, status: "planned", blocks: [], data: [], hooks: [] };
    view.calls.set(id, call);
    blocks.push(call);
  }
  return call;
}

/** Decisions after which a call does not run, with its status. */
const UNDONE = { denied: "denied", expired: "expired", cancelled: "cancelled", withdrawn: "withdrawn" };

function settle(call, part) {
  call.result = part.result;
  call.failed = Boolean(part.is_error);
  call.hasResult = true;
  if (part.decision) call.decision = { ...part.decision, ...call.decision };
  if (part.decision?.args) {
    call.asked ??= { args: call.args, isWhole: false };
    call.args = part.decision.args;  // what ran
  }
  const refused = call.hooks.some((each) => each.decision === "refuse");
  call.status = UNDONE[call.decision?.decision] || (part.is_error ? "failed" : refused ? "denied" : "done");
}

/** Returns whether the run waits for a person and no part of it is working. */
export function onlyWaits(view) {
  return view.waiting.size > 0 && [...view.calls.values()].filter(isAtWork).every(rests);
}

/** Returns whether a call runs, or is decided and has no result yet. */
const isAtWork = (call) => call.status === "running" || Boolean(call.decision && !call.hasResult);

/** Returns whether a running call only waits: a sub-agent works in it, and all its open calls wait. */
function rests(call) {
  const open = call.blocks.filter((block) => block.kind === "call" && (block.status === "waiting" || isAtWork(block)));
  return open.length > 0 && open.every((inner) => inner.status === "waiting" || rests(inner));
}

/** A background sub-agent is done. */
function endBackground(call, { result, is_error: failed }) {
  Object.assign(call, { result, failed, status: failed ? "failed" : "done" });
}

/** The person whose vote it is, whichever way it came. Each person counts once, with the newest vote. */
export const voterOf = (vote) => vote.on_behalf_of || vote.by;

/** What has become of the wait of a call that nobody has decided. */
function changeWait(view, event, change) {
  const call = view.calls.get(event.tool_call_id);
  const pending = view.waiting.get(event.tool_call_id);
  if (!pending) return;
  const now = { ...pending, ...change };
  view.waiting.set(event.tool_call_id, now);
  if (call?.pending) call.pending = now;
}

const HANDLERS = {
  __proto__: null,
  "turn-start": (view, event, { blocks, key }) => {
    const step = `${key}#${event.step}`;
    if (view.seen.has(step)) {
      dropStep(blocks, step);
      blocks.push({ kind: "note", note: "restarted" });
    }
    view.seen.add(step);
  },
  "text-delta": (view, event, scope) => append(scope, "text", event),
  "reasoning-delta": (view, event, scope) => append(scope, "reasoning", event),
  "tool-call-delta": (view, event, { blocks, key }) => {
    const last = blocks.findLast((block) => block.draft && block.callId === event.tool_call_id);
    if (last) last.text += event.args_delta;
    else blocks.push({ kind: "draft-call", callId: event.tool_call_id, name: event.tool_name, text: event.args_delta, key: `${key}#${event.step}`, draft: true });
  },
  message: (view, event, { blocks }) => {
    const message = event.message;
    if (!message) return showUnknown(view, event, { blocks });
    if (message.role === "user") {  // The run was sent it while it waited or worked.
      blocks.push({ kind: "said", message });
      return;
    }
    if (message.role === "tool") {
      for (const part of message.content) {
        const call = view.calls.get(part.tool_call_id);
        if (call && part.type === "tool_result" && !call.hasResult) settle(call, part);
        if (part.type === "file") blocks.push({ kind: "file", part });
        if (!PARTS.has(part.type)) showUnknown(view, part, { blocks });
      }
      return;
    }
    const notice = message.role === "custom" && message.content.find((part) => part.name === "background-result");
    if (notice && view.calls.has(notice.data.tool_call_id)) {
      endBackground(view.calls.get(notice.data.tool_call_id), notice.data);
      return;
    }
    for (let n = blocks.length - 1; n >= 0; n -= 1) if (blocks[n].draft) blocks.splice(n, 1);
    for (const part of message.content) {
      if (part.type === "text" && part.text) blocks.push({ kind: "text", text: part.text });
      else if (part.type === "reasoning" && part.text) blocks.push({ kind: "reasoning", text: part.text });
      else if (part.type === "tool_call") callIn(view, blocks, part.tool_call_id, part.tool_name, part.args);
      else if (part.type === "file") blocks.push({ kind: "file", part });
      else if (part.type === "data") blocks.push({ kind: "data", name: part.name, data: part.data });
      else if (!PARTS.has(part.type)) showUnknown(view, part, { blocks });
    }
  },
  "output-delta": (view, event, { key }) => { if (!key) view.output = event.output; },
  "hook-decision": (view, event, { blocks }) => callIn(view, blocks, event.tool_call_id, event.tool_name, event.args || {}).hooks.push(event),
  "hook-reply": (view, event, { blocks }) => {
    for (const id of event.message_ids || []) view.refused.add(id);
    blocks.push({ kind: "note", note: "spared", event });
  },
  "tool-execution-start": (view, event, { blocks }) => {
    const call = callIn(view, blocks, event.tool_call_id, event.tool_name, event.args);
    Object.assign(call, { status: "running", args: event.args ?? call.args, pending: null });
  },
  "tool-execution-end": (view, event, { blocks }) => {
    settle(callIn(view, blocks, event.tool_call_id, event.tool_name, event.args), event);
  },
  "tool-call-suspended": (view, event, { blocks }) => {
    const call = callIn(view, blocks, event.tool_call_id, event.tool_name, event.args);
    // What was decided before was about an earlier attempt.
    Object.assign(call, { status: "waiting", pending: event, decision: null, args: event.args ?? call.args, asked: { args: event.args, isWhole: true } });
    view.waiting.set(event.tool_call_id, event);
  },
  "tool-call-approval": (view, event) => {
    const rule = view.waiting.get(event.tool_call_id)?.approval;
    if (!rule) return;
    const { by, on_behalf_of, at, args, reason } = event;
    const vote = { by, on_behalf_of, at, args, reason };
    const others = (rule.given || []).filter((each) => voterOf(each) !== voterOf(vote));
    changeWait(view, event, { approval: { ...rule, given: [...others, vote] } });
  },
  "approval-reminder": (view, event, { blocks }) => blocks.push({ kind: "note", note: "reminder", n: event.n }),
  "approval-escalated": (view, event, { blocks }) => {
    const rule = view.waiting.get(event.tool_call_id)?.approval;
    if (rule) changeWait(view, event, { approval: { ...rule, by: [...new Set([...(rule.by || []), ...event.to])] } });
    blocks.push({ kind: "note", note: "escalated", to: event.to });
  },
  "approval-extended": (view, event, { blocks }) => {
    changeWait(view, event, { expires_at: event.expires_at });
    blocks.push({ kind: "note", note: "extended", by: event.by, at: event.expires_at });
  },
  "tool-call-decided": (view, event) => {
    view.waiting.delete(event.tool_call_id);
    const call = view.calls.get(event.tool_call_id);
    if (call) Object.assign(call, { status: UNDONE[event.decision] || "running", decision: event, pending: null });
  },
  data: (view, event, { blocks }) => {
    const call = view.calls.get(event.tool_call_id);
    if (call) call.data.push(event.data);
    else blocks.push({ kind: "data", name: "data", data: event.data });
  },
  handoff: (view, event, { blocks }) => blocks.push({ kind: "note", note: "handoff", from: event.from, to: event.to }),
  loop: (view, event, { blocks }) => blocks.push({ kind: "note", note: "loop", steps: event.steps, tools: event.tools }),
  "model-fallback": (view, event, { blocks }) => blocks.push({ kind: "note", note: "fallback", from: event.from, to: event.to }),
  "model-retry": (view, event, { blocks, key }) => {
    const last = blocks.at(-1), step = `${key}#${event.step}`;  // Each attempt of a step tells its error: one line has the newest.
    if (last?.note === "retried" && last.step === step) Object.assign(last, { reason: event.reason, n: last.n + 1 });
    else blocks.push({ kind: "note", note: "retried", reason: event.reason, n: 1, step });
  },
  "model-waiting": (view, event, { blocks }) => blocks.push({ kind: "note", note: "waits", from: event.provider, at: event.until, reason: event.error }),
  redriven: (view, event, { blocks }) => {
    Object.assign(view, { error: null, finish: null, status: "running" });
    blocks.push({ kind: "note", note: "redriven" });
  },
  "tools-left-out": (view, event, { blocks }) => blocks.push({ kind: "note", note: "without", from: event.model, tools: event.tools }),
  "definition-changed": (view, event, { blocks }) => blocks.push({ kind: "note", note: "changed" }),
  error: (view, event) => { view.error = event.error; },
  finish: (view, event) => {
    if (event.agent_path?.length > 1) return;
    view.finish = event;
    view.status = event.status;
    view.waiting.clear();
    for (const call of view.calls.values()) call.pending = null;
  },
};
