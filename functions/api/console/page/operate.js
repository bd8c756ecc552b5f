import { id, post } from "./api.js";
import { Trouble, html, useAction, useEffect, useRef, useState } from "./dom.js";
import { S } from "./strings.js";

/** The most runs of one request. */
const RUNS_AT_ONCE = 100;
/** The most runs that a question names. */
const NAMED = 10;

/** What an operator can do to runs. `needsReason`: the API refuses it without one. */
const DEEDS = {
  cancel: { needsReason: true, send: (ids, reason) => post("/operate/runs/cancel", { ids, reason }) },
  redrive: { needsReason: false, send: (ids, reason) => post("/operate/runs/redrive", { ids, reason: reason || undefined }) },
  deny: { needsReason: true, send: (ids, reason) => post("/operate/runs/deny", { ids, reason }) },
};

export const operatedAddress = (runId) => `#/operations/${id(runId)}`;

/** Does it to all of these runs, with one request for each hundred. Returns `{id, why}` for each; `why`: what refused
 *  it, or null. Throws only before anything was done. */
async function operateOn(deed, ids, reason) {
  const results = [];
  for (let at = 0; at < ids.length; at += RUNS_AT_ONCE) {
    const some = ids.slice(at, at + RUNS_AT_ONCE);
    try {
      const answer = await DEEDS[deed].send(some, reason);
      results.push(...answer.items.map((each) => ({ id: each.id, why: each.problem ? each.problem.detail || each.problem.title : null })));
    } catch (error) {
      if (!results.length) throw error;
      results.push(...some.map((each) => ({ id: each, why: error.message })));
    }
  }
  return results;
}

/** Buttons for what an operator can do to these runs. Each opens a question, which takes the focus; Escape leaves it.
 *  `onDone({deed, results})` when it is over. */
export function Operate({ ids, onDone }) {
  const [deed, setDeed] = useState(null);
  const [reason, setReason] = useState("");
  const action = useAction();
  const box = useRef(null), left = useRef(null), buttons = useRef(null);
  useEffect(() => {
    if (deed) box.current?.focus();
    else if (left.current) buttons.current?.querySelector(`[data-deed=${left.current}]`)?.focus();
  }, [deed]);
  const leave = () => { left.current = deed; action.clear(); setDeed(null); };
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      const results = await operateOn(deed, ids, reason.trim());
      left.current = null;
      setReason("");
      setDeed(null);
      onDone({ deed, results });
    });
  };
  if (!deed) {
    return html`<div class="actions" ref=${buttons}>${Object.keys(DEEDS).map((each) => html`<button type="button" key=${each} data-deed=${each} onClick=${() => setDeed(each)}>${S.operate.deeds[each](ids.length)} …</button>`)}</div>`;
  }
  const needed = DEEDS[deed].needsReason;
  const key = (event) => { if (event.key === "Escape" && !action.busy) { event.stopPropagation(); leave(); } };
  return html`<form class="question" onSubmit=${submit} onKeyDown=${key}><p><strong>${S.operate.ask[deed](ids.length)}</strong> ${S.operate.means[deed]}</p>
    ${ids.length > 1 && html`<ul class="small">${ids.slice(0, NAMED).map((each) => html`<li key=${each}><code>${each}</code></li>`)}${ids.length > NAMED && html`<li>${S.operate.others(ids.length - NAMED)}</li>`}</ul>`}
    <div class="field"><label for="operate-reason">${S.decide.reason} <span class="quiet small">${needed ? S.decide.required : S.decide.optional}</span></label>
      <input id="operate-reason" ref=${box} type="text" dir="auto" maxlength="10000" value=${reason} required=${needed} disabled=${action.busy} aria-describedby="operate-reason-for" onInput=${(e) => setReason(e.currentTarget.value)} />
      <p class="quiet small" id="operate-reason-for">${S.operate.reason[deed]}</p></div>
    <div class="actions"><button type="submit" class=${deed === "redrive" ? "primary" : "danger"} disabled=${action.busy || (needed && !reason.trim())}>${S.operate.deeds[deed](ids.length)}</button>
      <button type="button" disabled=${action.busy} onClick=${leave}>${S.decide.back}</button></div>
    <${Trouble} error=${action.error} /></form>`;
}

/** What came of it for each run. Takes the focus. */
export function Outcomes({ done, onClose }) {
  const place = useRef(null);
  useEffect(() => { place.current?.focus(); }, [done]);
  if (!done) return null;
  const refused = done.results.filter((each) => each.why).length;
  return html`<section class="card outcomes" aria-label=${S.operate.outcomes} tabindex="-1" ref=${place}>
    <p role="status"><strong>${S.operate.outcome[done.deed]}</strong> ${S.operate.counts(done.results.length - refused, refused)}</p>
    <ul class="small">${done.results.map(({ id: run, why }) => html`<li key=${run}><a href=${operatedAddress(run)}><code>${run}</code></a> ${why ? html`<span class="wrong">${why}</span>` : S.operate.done}</li>`)}</ul>
    <button type="button" class="plain" onClick=${onClose}>${S.chat.hide}</button></section>`;
}

/** The name of a run's state, with its colour, and the provider that it waits for. */
export const RunState = ({ run }) => html`<span class="run-state"><span class=${`dot ${run.status === "success" ? "done" : run.status}`} aria-hidden="true"></span> ${S.operations.statuses[run.status] || run.status}</span>${run.error && html` <code class="wrong">${run.error.type || run.error}</code>`}${run.waiting_for && html` <span class="quiet small run-whose">${S.chat.modelWaits(run.waiting_for.provider, run.waiting_for.until, run.waiting_for.error)}</span>`}`;

/** The page for everybody who lacks a scope: that of operators, if it is not another. */
export const OnlyOperators = ({ title = S.operations.refused, scope = "layover/operate" }) => html`<div class="empty"><h2>${title}</h2><p>${S.operations.refusedLead} <code>${scope}</code></p></div>`;
