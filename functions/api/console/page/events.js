/** What a run's events amount to: blocks of text, reasoning and calls, in order, with sub-agents inside the calls
 *  that asked them. Built from a log, from a live stream, or from stored messages. */
export function newView() {
  return { blocks: [], calls: new Map(), waiting: new Map(), last: 0, step: 0, status: "running", finish: null, error: null, seen: new Set() };
}

/** The view after one more event. Changes it in place. */
export function applyEvent(view, event) {
  if (event.seq) view.last = event.seq;
  const path = event.agent_path?.length > 1 ? event.agent_path.slice(1) : [];
  const kind = event.type === "tool-call-suspended" ? [] : path;
  const apply = HANDLERS[event.type];
  if (apply) apply(view, event, scopeOf(view, kind), kind.join("/"));
  return view;
}

/** The view of a run that is over, from its messages and those of its sub-agents. */
export function viewOfMessages(messages, children = []) {
  const view = newView();
  for (const message of messages) applyEvent(view, { type: "message", message });
  const free = [...children];
  for (const call of view.calls.values()) {
    const n = free.findIndex((run) => run.agent === call.name);
    if (n >= 0) call.blocks = viewOfMessages(free[n].messages, free.splice(n, 1)[0].children).blocks;
  }
  for (const run of free) view.blocks.push({ kind: "agent", name: run.agent, blocks: viewOfMessages(run.messages, run.children).blocks });
  return view;
}

function scopeOf(view, path) {
  let blocks = view.blocks;
  for (const name of path) {
    const calls = blocks.filter((block) => block.kind === "call");
    const asks = calls.filter((call) => call.status === "running");
    const parent = asks.findLast((call) => call.name === name) || asks.at(-1) || calls.findLast((call) => call.name === name);
    let group = parent || blocks.findLast((block) => block.kind === "agent" && block.name === name);
    if (!group) {
      group = { kind: "agent", name, blocks: [] };
      blocks.push(group);
    }
    blocks = group.blocks;
  }
  return blocks;
}

function dropStep(blocks, key) {
  for (let n = blocks.length - 1; n >= 0; n -= 1) if (blocks[n].key === key && blocks[n].draft) blocks.splice(n, 1);
}

function append(blocks, kind, key, text) {
  const last = blocks.at(-1);
  if (last?.kind === kind && last.key === key && last.draft) last.text += text;
  else blocks.push({ kind, key, text, draft: true });
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
const UNDONE = { denied: "denied", expired: "expired", cancelled: "cancelled" };

function settle(call, part) {
  call.result = part.result;
  call.failed = Boolean(part.is_error);
  call.hasResult = true;
  if (part.decision) call.decision ||= part.decision;
  const refused = call.hooks.some((each) => each.decision === "refuse");
  call.status = UNDONE[call.decision?.decision] || (part.is_error ? "failed" : refused ? "denied" : "done");
}

const HANDLERS = {
  "turn-start": (view, event, blocks, path) => {
    const key = `${path}#${event.step}`;
    if (view.seen.has(key)) {
      dropStep(blocks, key);
      blocks.push({ kind: "note", note: "restarted" });
    }
    view.seen.add(key);
    view.thinking = true;
  },
  "text-delta": (view, event, blocks, path) => append(blocks, "text", `${path}#${event.step}`, event.text),
  "reasoning-delta": (view, event, blocks, path) => append(blocks, "reasoning", `${path}#${event.step}`, event.text),
  "tool-call-delta": (view, event, blocks, path) => {
    const key = `${path}#${event.step}`;
    const last = blocks.findLast((block) => block.draft && block.callId === event.tool_call_id);
    if (last) last.text += event.args_delta;
    else blocks.push({ kind: "draft-call", callId: event.tool_call_id, name: event.tool_name, text: event.args_delta, key, draft: true });
  },
  message: (view, event, blocks) => {
    const message = event.message;
    if (message.role === "user") return;
    if (message.role === "tool") {
      for (const part of message.content) {
        const call = view.calls.get(part.tool_call_id);
        if (call && part.type === "tool_result" && !call.hasResult) settle(call, part);
        if (part.type === "file") blocks.push({ kind: "file", part });
      }
      return;
    }
    for (let n = blocks.length - 1; n >= 0; n -= 1) if (blocks[n].draft) blocks.splice(n, 1);
    for (const part of message.content) {
      if (part.type === "text" && part.text) blocks.push({ kind: "text", text: part.text });
      else if (part.type === "reasoning" && part.text) blocks.push({ kind: "reasoning", text: part.text });
      else if (part.type === "tool_call") callIn(view, blocks, part.tool_call_id, part.tool_name, part.args);
      else if (part.type === "file") blocks.push({ kind: "file", part });
      else if (part.type === "data") blocks.push({ kind: "data", name: part.name, data: part.data });
    }
  },
  "output-delta": (view, event, blocks, path) => { if (!path) view.output = event.output; },
  "hook-decision": (view, event, blocks) => callIn(view, blocks, event.tool_call_id, event.tool_name, event.args || {}).hooks.push(event),
  "tool-execution-start": (view, event, blocks) => {
    const call = callIn(view, blocks, event.tool_call_id, event.tool_name, event.args);
    Object.assign(call, { status: "running", args: event.args ?? call.args, pending: null });
  },
  "tool-execution-end": (view, event, blocks) => settle(callIn(view, blocks, event.tool_call_id, event.tool_name, event.args), event),
  "tool-call-suspended": (view, event, blocks) => {
    const call = callIn(view, blocks, event.tool_call_id, event.tool_name, event.args);
    Object.assign(call, { status: "waiting", pending: event });
    view.waiting.set(event.tool_call_id, event);
  },
  "tool-call-approval": (view, event) => {
    const pending = view.waiting.get(event.tool_call_id);
    if (pending?.approval) pending.approval = { ...pending.approval, given: [...(pending.approval.given || []), { by: event.by, at: event.at }] };
  },
  "tool-call-decided": (view, event) => {
    view.waiting.delete(event.tool_call_id);
    const call = view.calls.get(event.tool_call_id);
    if (call) Object.assign(call, { status: UNDONE[event.decision] || "running", decision: event, pending: null });
  },
  data: (view, event, blocks) => {
    const call = view.calls.get(event.tool_call_id);
    if (call) call.data.push(event.data);
    else blocks.push({ kind: "data", name: "data", data: event.data });
  },
  handoff: (view, event, blocks) => blocks.push({ kind: "note", note: "handoff", from: event.from, to: event.to }),
  "model-fallback": (view, event, blocks) => blocks.push({ kind: "note", note: "fallback", from: event.from, to: event.to }),
  "definition-changed": (view, event, blocks) => blocks.push({ kind: "note", note: "changed" }),
  error: (view, event) => { view.error = event.error; },
  finish: (view, event) => {
    if (event.agent_path?.length > 1) return;
    view.finish = event;
    view.status = event.status;
    view.waiting.clear();
    for (const call of view.calls.values()) call.pending = null;
  },
};
