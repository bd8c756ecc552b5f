import { all, get, id } from "./api.js";
import { Loading, Trouble, duration, html, money, tokens, useLoaded } from "./dom.js";
import { S } from "./strings.js";

/** The largest share of the drawn width for one wait. */
const WAIT_SHARE = 0.12;

/** Spans of a run: model, tools, waits, fallbacks and hooks' decisions, with their beginnings and ends in milliseconds.
 *  What is open lasts until `now`; without it, until the newest event. */
export function spansOf(events, now = null) {
  const spans = [], open = new Map();
  let at = 0;
  const start = (key, span) => { open.set(key, { ...span, from: at }); };
  const end = (key, more = {}) => {
    const span = open.get(key);
    if (!span) return;
    open.delete(key);
    spans.push({ ...span, to: at, ...more });
  };
  const endAll = (more) => {
    for (const key of [...open.keys()]) end(key, more);
  };
  const mark = (kind, name) => spans.push({ kind, name, from: at, to: at });
  for (const event of events) {
    at = Date.parse(event.at);
    const path = (event.agent_path || []).slice(1).join(" › ");
    const request = `model ${event.parent_tool_call_id || ""}`;
    switch (event.type) {
      case "turn-start":
        end(request, { retried: true });
        start(request, { kind: "model", name: path || S.timeline.model, step: event.step });
        break;
      case "message":
        if (event.message.role === "assistant") end(request, { model: event.model, usage: event.usage });
        break;
      case "model-fallback": mark("mark", S.chat.fallback(event.from, event.to)); break;
      case "model-retry": mark("mark", S.chat.retried(event.reason)); break;
      case "model-waiting": end(request, { retried: true }); mark("mark", S.chat.modelWaits(event.provider, event.until, event.error)); break;
      case "redriven": mark("mark", S.chat.redriven); break;
      case "tools-left-out": mark("mark", S.chat.without(event.model, event.tools)); break;
      case "loop": mark("mark", S.chat.loop(event.steps, event.tools)); break;
      case "tool-execution-start": start(`tool ${event.tool_call_id}`, { kind: "tool", name: event.tool_name }); break;
      case "tool-execution-end": end(`tool ${event.tool_call_id}`, { failed: event.is_error }); break;
      case "tool-call-suspended": start(`wait ${event.tool_call_id}`, { kind: "wait", name: event.tool_name }); break;
      case "tool-call-decided": end(`wait ${event.tool_call_id}`, { decision: event.decision }); break;
      case "approval-reminder": mark("mark", S.chat.reminder(event.n)); break;
      case "approval-escalated": mark("mark", S.chat.escalated(event.to)); break;
      case "approval-extended": mark("mark", S.chat.extended(event.by, event.expires_at)); break;
      case "hook-decision": mark("hook", `${event.tool_name}: ${S.call.hook(event)}`); break;
      case "hook-reply": mark("hook", S.chat.spared(event)); break;
      case "finish": if (!path) endAll({ failed: event.status === "failed" }); break;
      default:
    }
  }
  at = Math.max(at, now ?? at);
  endAll({ open: true });
  return spans.sort((a, b) => a.from - b.from);
}

/** A function from times to shares of the width; mere waiting is drawn short. */
export function scaleOf(spans) {
  const times = [...new Set(spans.flatMap((span) => [span.from, span.to]))].sort((a, b) => a - b);
  const pieces = times.slice(1).map((to, n) => {
    const from = times[n];
    const busy = spans.some((span) => span.kind !== "wait" && span.from < to && span.to > from);
    return { from, to, busy, size: to - from };
  });
  const work = pieces.filter((piece) => piece.busy).reduce((sum, piece) => sum + piece.size, 0) || 1;
  let at = 0;
  for (const piece of pieces) {
    piece.at = at;
    piece.drawn = piece.busy ? piece.size : Math.min(piece.size, work * WAIT_SHARE);
    at += piece.drawn;
  }
  const whole = at || 1;
  const place = (time) => {
    const piece = pieces.find((each) => time <= each.to) || pieces.at(-1);
    if (!piece) return 0;
    const share = piece.size ? Math.min(1, Math.max(0, (time - piece.from) / piece.size)) : 0;
    return (piece.at + share * piece.drawn) / whole;
  };
  const waited = pieces.filter((piece) => !piece.busy).reduce((sum, piece) => sum + piece.size, 0);
  return { place, work, waited };
}

export async function eventsOf(runId) {
  const found = [];
  for (;;) {
    const page = await get(`/runs/${id(runId)}/events?after=${found.at(-1)?.seq || 0}&limit=1000`);
    found.push(...page.items);
    if (page.done || !page.items.length) return found;
  }
}

/** Kinds of spans without a length. */
const MARKS = ["hook", "mark"];

const labelOf = (span) => [
  span.kind === "wait" ? `${S.timeline.wait}: ${span.name}` : span.name, span.step && S.timeline.step(span.step),
  span.retried && S.timeline.retry, span.failed && S.call.failed, span.decision && S.decide.decided[span.decision],
].filter(Boolean).join(", ");

/** The duration of a span, and the cost of its model's request. */
const factsOf = (span) => [
  span.open && S.timeline.until,
  !MARKS.includes(span.kind) && duration(span.to - span.from),
  span.usage && `${tokens(span.usage.total_tokens)} ${S.timeline.tokens.toLowerCase()}`,
  span.usage && span.usage.cost_usd != null && money(span.usage.cost_usd),
].filter(Boolean).join(" · ");

/** The time and the cost of a run's parts. `stamp` changes when there are more events. */
export function Timeline({ runId, stamp }) {
  const found = useLoaded(() => Promise.all([eventsOf(runId), get(`/runs/${id(runId)}`)]), [runId, stamp]);
  if (found.error) return html`<${Trouble} error=${found.error} retry=${found.reload} />`;
  if (!found.value) return html`<${Loading} />`;
  const [events, run] = found.value;
  const spans = spansOf(events, Date.now());
  if (!spans.length) return html`<p class="quiet">${S.timeline.none}</p>`;
  const { place, work, waited } = scaleOf(spans);
  const slowest = spans.filter((span) => span.kind !== "wait").sort((a, b) => (b.to - b.from) - (a.to - a.from))[0];
  return html`<div class="timeline">
    <dl class="figures">
      <div><dt>${S.timeline.work}</dt><dd>${duration(work)}</dd></div>
      <div><dt>${S.timeline.waited}</dt><dd>${duration(waited)}</dd></div>
      <div><dt>${S.timeline.tokens}</dt><dd>${tokens(run.usage?.total_tokens)}</dd></div>
      <div><dt>${S.timeline.cost}</dt><dd>${money(run.usage?.cost_usd)}</dd></div>
      ${slowest && html`<div><dt>${S.timeline.slowest}</dt><dd>${slowest.name}, ${duration(slowest.to - slowest.from)}</dd></div>`}
    </dl>
    <ol class="spans">${spans.map((span, n) => html`<li key=${n}>
      <span class="span-name">${labelOf(span)}</span><span class="quiet small" title=${span.model || ""}>${factsOf(span)}</span>
      <svg class="span-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" x="0" y="0" width="100" height="6" rx="1" />
        <rect class=${`${span.kind}${span.failed ? " failed" : ""}`} x=${place(span.from) * 100} y="0" height="6" width=${Math.max(0.6, (place(span.to) - place(span.from)) * 100)} />
      </svg></li>`)}</ol>
    ${waited > 0 && html`<p class="quiet small">${S.timeline.note}</p>`}
    ${(run.usage?.sub_agents || []).length > 0 && html`<ul class="small">${run.usage.sub_agents.map((each, n) =>
      html`<li key=${n}>${each.agent || each.name}: ${tokens(each.total_tokens)} ${S.timeline.tokens.toLowerCase()}, ${money(each.cost_usd)}</li>`)}</ul>`}
  </div>`;
}

export const runsOf = (threadId) => all(`/threads/${id(threadId)}/runs`, 500);
