import { get, id } from "./api.js";
import { Blocks } from "./calls.js";
import { Facts } from "./decision.js";
import { Copy, Empty, Loading, Main, Time, Trouble, duration, html, money, shown, tokens, useAction, useLoaded, useState } from "./dom.js";
import { viewOfMessages } from "./events.js";
import { OnlyOperators, Operate, Outcomes, RunState } from "./operate.js";
import { S } from "./strings.js";
import { scaleOf } from "./timeline.js";

const ENDED = ["success", "failed", "cancelled"];

/** The steps of a run with their calls, and when each worked and waited: `[{step, spans, calls: [{call, spans}]}]`. No
 *  record has the beginning of a model's request: it is the end of what came before it. What is open lasts until `now`. */
export function partsOf(run, now) {
  const ends = new Map([["", Date.parse(run.created_at)]]);
  const time = (text) => (text ? Date.parse(text) : null);
  const reach = (scope, at) => ends.set(scope, Math.max(ends.get(scope) ?? at, at));
  const last = ENDED.includes(run.status) ? Date.parse(run.updated_at) : now;
  return run.timeline.map((step) => {
    const scope = step.parent_call || "", at = Date.parse(step.at);
    const from = Math.min(ends.get(scope) ?? at, at);
    reach(scope, at);
    const calls = step.calls.map((call) => {
      const settled = time(call.settled_at), asked = time(call.requested_at), spans = [];
      const answered = time(call.decisions.at(-1)?.at);
      if (call.child) reach(call.tool_call_id, Date.parse(call.child.started_at));
      if (asked !== null) spans.push({ kind: "wait", from: asked, to: answered !== null && answered >= asked ? answered : settled ?? last });
      const begun = spans.length ? spans[0].to : at;
      if (settled !== null && settled >= begun) spans.push({ kind: "tool", from: begun, to: settled, failed: call.is_error });
      else if (!spans.length && settled === null && !ENDED.includes(run.status)) spans.push({ kind: "tool", from: at, to: now });
      for (const span of spans) reach(scope, span.to);
      return { call, spans };
    });
    return { step, spans: [{ kind: "model", from, to: at }], calls };
  });
}

/** One run of any user, step by step and without words. `mayRead`: the user may ask what it says. */
export function OperatedRun({ runId, mayRead }) {
  const found = useLoaded(() => get(`/operate/runs/${id(runId)}`), [runId]);
  const [done, setDone] = useState(null);
  const run = found.value, status = found.error?.status;
  return html`<${Main} class="page"><p class="small"><a href="#/operations">${S.operations.title}</a></p><h1>${S.operated.title}</h1>
    ${status === 403 ? html`<${OnlyOperators} />` : status === 404 ? html`<${Empty} title=${S.operated.gone}><p>${S.operated.goneLead}</p></${Empty}>` : html`<${Trouble} error=${found.error} retry=${found.reload} />`}
    ${!run && found.loading && html`<${Loading} />`}
    ${run && ![403, 404].includes(status) && html`<p class="run-name"><code>${run.id}</code> <${Copy} text=${() => run.id} label=${S.operated.copy} /> <button type="button" class="chip" disabled=${found.loading} onClick=${found.reload}>${S.operations.again}</button></p>
      <p><${RunState} run=${run} /></p>
      <${RunFacts} run=${run} />
      ${run.error && html`<${Failure} error=${run.error} />`}
      <${Outcomes} done=${done} onClose=${() => { setDone(null); document.getElementById("main")?.focus(); }} />
      ${!ENDED.includes(run.status) && html`<section aria-label=${S.operated.act}><${Operate} ids=${[run.id]} onDone=${(outcome) => { setDone(outcome); found.reload(); }} /></section>`}
      <h2>${S.timeline.title}</h2><${Steps} run=${run} />
      ${mayRead && html`<${Said} runId=${run.id} /><${StepPrompt} run=${run} />`}`}
  </${Main}>`;
}

function RunFacts({ run }) {
  const at = (moment) => moment && html`<${Time} at=${moment} exact seconds />`;
  const rows = {
    agent: run.agent, owner: run.owner, thread: html`<code>${run.thread_id}</code>`, accepted: at(run.created_at), updated: at(run.updated_at), waits: at(run.waiting_since),
    ended: run.finish_reason, model: run.model, calls: S.operated.counted(run.steps, run.calls), tokens: tokens(run.usage.total_tokens), cost: run.usage.total_tokens ? money(run.usage.cost_usd) : "",
    attempts: run.attempts > 1 && run.attempts, executions: run.executions, redriven: at(run.redriven_at), lost: at(run.lost_at), sent: run.messages_sent || "", definition: run.definition && html`<code>${run.definition}</code>`,
  };
  return html`<dl class="values">${Object.entries(rows).filter(([, value]) => value).map(([name, value]) => html`<div key=${name}><dt>${S.operated.facts[name]}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Why the run failed, and what its provider said. */
function Failure({ error }) {
  const detail = error.detail;
  const rows = detail && { provider: detail.provider, model: detail.model, status: detail.status, request: detail.request_id && html`<code>${detail.request_id}</code>`, said: detail.message };
  return html`<section aria-label=${S.operated.failure}><h2>${S.operated.failure}</h2><p class="wrong">${error.type}</p>
    ${rows && html`<dl class="values">${Object.entries(rows).filter(([, value]) => value).map(([name, value]) => html`<div key=${name}><dt>${S.operated.failureFacts[name]}</dt><dd>${value}</dd></div>`)}</dl>`}</section>`;
}

/** A size in bytes as people read it. */
export function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

const lengthOf = (spans) => duration(spans.reduce((sum, span) => sum + span.to - span.from, 0));

const aboutStep = ({ step, spans }) => [
  step.model, lengthOf(spans), `${tokens(step.usage.total_tokens)} ${S.timeline.tokens.toLowerCase()}`, step.usage.total_tokens > 0 && money(step.usage.cost_usd), S.operated.written(step.text_chars), step.finish_reason,
].filter(Boolean).join(" · ");

const notesOfStep = (step) => [
  step.fell_back_to && S.operated.fellBack(step.fell_back_to), step.hook && S.operated.replied(step.hook),
].filter(Boolean);

const aboutCall = ({ call, spans }) => [
  S.operated.states[call.state] || call.state, call.is_error && S.call.failed, spans.length > 0 && lengthOf(spans), S.operated.sizes(bytes(call.args_bytes), call.result_bytes ? bytes(call.result_bytes) : null),
].filter(Boolean).join(" · ");

const notesOfCall = (call) => [
  call.kind && S.operated.kinds[call.kind], call.attempt > 1 && S.operated.attempt(call.attempt), call.retry && S.operated.retry,
  ...call.hooks.map((each) => S.call.hook(each)), call.votes > 0 && S.operated.votes(call.votes), call.reminders > 0 && S.operated.reminders(call.reminders), call.escalated && S.operated.escalated,
  ...call.decisions.map((each) => `${S.decide.by(S.decide.decided[each.decision] || each.decision, each.on_behalf_of || each.decided_by)} (${each.via})`),
  call.child && `${S.call.agent} ${call.child.agent}: ${S.operations.statuses[call.child.status] || call.child.status}${call.child.error ? ` (${call.child.error})` : ""}`,
].filter(Boolean);

const Notes = ({ notes }) => notes.length > 0 && html`<span class="quiet small notes">${notes.join("; ")}</span>`;

/** What a run did, with a bar for what took how long. */
function Steps({ run }) {
  const parts = partsOf(run, Date.now());
  if (!parts.length) return html`<p class="quiet">${S.operated.noStep}</p>`;
  const all = parts.flatMap((part) => [...part.spans, ...part.calls.flatMap((each) => each.spans)]);
  const { place, work, waited } = scaleOf(all);
  const bar = (spans) => html`<svg class="span-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="6" rx="1" />${spans.map((span, n) => html`<rect key=${n} class=${`${span.kind}${span.failed ? " failed" : ""}`} x=${place(span.from) * 100} height="6" width=${Math.max(0.6, (place(span.to) - place(span.from)) * 100)} />`)}</svg>`;
  return html`<div class="timeline"><dl class="figures"><div><dt>${S.timeline.work}</dt><dd>${duration(work)}</dd></div><div><dt>${S.timeline.waited}</dt><dd>${duration(waited)}</dd></div></dl>
    <ol class="spans steps">${parts.map((part, n) => html`<li key=${n} class=${part.step.parent_call ? "below" : ""}><span class="span-name"><strong>${S.timeline.step(part.step.n)}</strong> ${part.step.agent}</span><span class="quiet small"><${Time} at=${part.step.at} exact seconds /></span>
      <span class="quiet small notes">${aboutStep(part)}</span><${Notes} notes=${notesOfStep(part.step)} />${bar(part.spans)}
      ${part.calls.length > 0 && html`<ul class="spans">${part.calls.map((each, m) => html`<li key=${m}><code class="span-name">${each.call.tool_name || S.operated.madeUp}</code><span class="quiet small">${aboutCall(each)}</span><${Notes} notes=${notesOfCall(each.call)} />${each.spans.length > 0 && bar(each.spans)}</li>`)}</ul>`}</li>`)}</ol>
    ${waited > 0 && html`<p class="quiet small">${S.timeline.note}</p>`}</div>`;
}

/** What the run says, once it is asked for: each reading is written down. */
function Said({ runId }) {
  const [content, setContent] = useState(null);
  const action = useAction();
  const read = () => action.run(async () => setContent((await get(`/operate/runs/${id(runId)}?content=true`)).content));
  return html`<h2>${S.operated.said}</h2><p class="quiet small">${S.operated.noted}</p>
    <${Trouble} error=${action.error} />
    ${content ? html`<${Content} content=${content} />` : html`<button type="button" disabled=${action.busy} onClick=${read}>${S.operated.read}</button>`}`;
}

function Content({ content }) {
  const { blocks, calls } = viewOfMessages(content.messages, content.children, content.usage);
  for (const each of content.pending) if (calls.has(each.tool_call_id)) calls.get(each.tool_call_id).status = "waiting";
  const unseen = content.pending.filter((each) => each.kind !== "approval" || !calls.has(each.tool_call_id));
  return html`<section class="card content" aria-label=${S.operated.said}>
    <${Blocks} blocks=${[{ kind: "said", message: content.input }, ...blocks]} />
    ${unseen.map((each) => html`<section key=${each.tool_call_id} class="call waiting" aria-label=${each.tool_name}><p class="call-head"><code>${each.tool_name}</code> <span class="state small">${S.call.waiting}</span></p><${Facts} values=${each.kind === "approval" ? each.args : each.payload} /></section>`)}
    ${content.output != null && html`<p class="label">${S.chat.output}</p><pre tabindex="0"><code>${shown(content.output)}</code></pre>`}
    ${content.error && html`<p class="wrong">${content.error.type}: ${content.error.message}</p>`}</section>`;
}

/** What the model of a step was sent, once it is asked for: each reading is written down. */
function StepPrompt({ run }) {
  const made = run.timeline.filter((step) => !step.parent_call).length;
  const last = Math.max(1, run.status === "success" ? made : made + 1);
  const [number, setNumber] = useState(last);
  const [sent, setSent] = useState(null);
  const action = useAction();
  const read = (event) => {
    event.preventDefault();
    action.run(async () => setSent(await get(`/operate/runs/${id(run.id)}/steps/${number}`)));
  };
  return html`<h2>${S.prompt.title}</h2><p class="quiet small">${S.prompt.lead}</p>
    <form class="actions" onSubmit=${read}><label class="small" for="prompt-step">${S.prompt.step}</label>
      <select id="prompt-step" value=${number} onChange=${(e) => { setNumber(Number(e.currentTarget.value)); setSent(null); }}>${Array.from({ length: last }, (_, n) => n + 1).map((n) => html`<option key=${n} value=${n}>${n > made ? S.prompt.next(n) : n}</option>`)}</select>
      <button type="submit" disabled=${action.busy}>${S.prompt.read}</button></form>
    <${Trouble} error=${action.error} />
    ${sent && html`<${SentPrompt} sent=${sent} />`}`;
}

const textOfPart = (part) => (part.type === "text" ? part.text : shown(part.type === "tool_result" ? part.result : part));

function SentPrompt({ sent }) {
  const { prompt } = sent;
  if (!prompt) return html`<p role="status">${S.prompt.none(sent.problem)}</p>`;
  const block = (label, text, key) => html`<div key=${key}><p class="label">${label}</p><pre tabindex="0"><code>${text}</code></pre></div>`;
  return html`<section class="card content" aria-label=${S.prompt.title}><p class="small" role="status"><code>${prompt.model}</code> ${sent.as_sent ? S.prompt.same : S.prompt.other(sent.problem)}</p>
    ${prompt.system && block(S.prompt.system, prompt.system, "system")}
    ${prompt.messages.map((message, n) => block(S.prompt.roles[message.role] || message.role, message.content.map(textOfPart).join("\n"), n))}
    ${prompt.tools.length > 0 && block(S.prompt.tools, prompt.tools.map((tool) => tool.name).join("\n"), "tools")}</section>`;
}
