import { all, decided, id, post } from "./api.js";
import { Decision } from "./decision.js";
import { Empty, Loading, Main, Trouble, html, useAction, useCallback, useEffect, useState } from "./dom.js";
import { S } from "./strings.js";

const LOOK_MS = 8000;

/** Calls that wait for the caller, as the owner of runs and as an approver; read again while the page is visible. */
export function useInbox(signedIn) {
  const [state, setState] = useState({ items: [], loading: true });
  const reload = useCallback(async () => {
    try {
      const [mine, others] = await Promise.all([all("/approvals", 300), all("/approvals?as=approver", 300)]);
      const known = new Set(others.map(keyOf));
      setState({ items: [...mine.filter((item) => !known.has(keyOf(item))), ...others.map((item) => ({ ...item, approver: true }))], loading: false });
    } catch (error) {
      setState((old) => ({ ...old, error, loading: false }));
    }
  }, []);
  useEffect(() => {
    if (!signedIn) return undefined;
    reload();
    const look = () => document.visibilityState === "visible" && reload();
    const timer = setInterval(look, LOOK_MS);
    document.addEventListener("visibilitychange", look);
    return () => { clearInterval(timer); document.removeEventListener("visibilitychange", look); };
  }, [signedIn]);
  return { ...state, reload };
}

const keyOf = (item) => `${item.run_id} ${item.tool_call_id} ${item.attempt}`;

/** The most decisions of one request. */
const AT_ONCE = 100;

/** Decides the chosen calls with one request for each hundred. Returns those that were refused, with the reason. */
async function decideAll(items, decision, reason) {
  const refused = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    const some = items.slice(at, at + AT_ONCE);
    const body = some.map((item) => ({ run_id: item.run_id, tool_call_id: item.tool_call_id, attempt: item.attempt, decision, ...(reason ? { reason } : {}) }));
    const answer = await post("/approvals/decisions", { items: body });
    answer.items.forEach((each, n) => each.problem && refused.push({ item: some[n], why: each.problem.detail }));
  }
  return refused;
}

export function Inbox({ inbox, me }) {
  const [chosen, setChosen] = useState(() => new Set());
  const [refused, setRefused] = useState([]);
  const mine = inbox.items.filter((item) => !item.approver);
  const others = inbox.items.filter((item) => item.approver);
  const picked = inbox.items.filter((item) => chosen.has(keyOf(item)));
  const choose = (item, on) => setChosen((old) => { const now = new Set(old); if (on) now.add(keyOf(item)); else now.delete(keyOf(item)); return now; });
  const several = inbox.items.filter((item) => item.kind === "approval").length > 1;
  const common = { reload: inbox.reload, me, chosen, choose: several ? choose : null };
  return html`<${Main} class="page"><h1>${S.inbox.title}</h1><p class="quiet">${S.inbox.lead}</p>
    <${Trouble} error=${inbox.error} retry=${inbox.reload} />
    ${inbox.loading && html`<${Loading} />`}
    ${!inbox.loading && !inbox.error && inbox.items.length === 0 && html`<${Empty} title=${S.inbox.none}><p>${S.inbox.noneLead}</p></${Empty}>`}
    ${refused.length > 0 && html`<div class="trouble" role="alert"><p>${S.inbox.refused(refused.length)}</p><ul>${refused.map(({ item, why }) => html`<li key=${keyOf(item)}>${item.summary || html`<code>${item.tool_name}</code>`}: ${why}</li>`)}</ul></div>`}
    ${several && html`<${Several} picked=${picked} clear=${() => setChosen(new Set())} onRefused=${setRefused} reload=${inbox.reload} />`}
    <${Group} title=${S.inbox.mine} items=${mine} titled=${others.length > 0} ...${common} />
    <${Group} title=${S.inbox.approver} items=${others} titled ...${common} />
  </${Main}>`;
}

/** Decides the chosen calls together. */
function Several({ picked, clear, onRefused, reload }) {
  const [reason, setReason] = useState("");
  const action = useAction();
  const needed = picked.some((item) => item.approval?.reason_required);
  const send = (decision) => action.run(async () => {
    onRefused(await decideAll(picked, decision, reason.trim()));
    setReason("");
    clear();
    decided();
    reload();
  });
  const blocked = action.busy || !picked.length || (needed && !reason.trim());
  return html`<section class="card several" aria-label=${S.inbox.several}>
    <p class="small" role="status">${picked.length ? S.inbox.chosen(picked.length) : S.inbox.choose}</p>
    ${picked.length > 0 && html`<div class="field"><label for="several-reason">${S.decide.reason} <span class="quiet small">${needed ? S.decide.required : S.decide.optional}</span></label>
      <input id="several-reason" type="text" maxlength="10000" value=${reason} required=${needed} disabled=${action.busy} onInput=${(e) => setReason(e.currentTarget.value)} /></div>
    <div class="actions"><button type="button" class="primary" disabled=${blocked} onClick=${() => send("approve")}>${S.inbox.approveAll(picked.length)}</button>
      <button type="button" disabled=${blocked} onClick=${() => send("deny")}>${S.inbox.denyAll(picked.length)}</button>
      <button type="button" class="plain" disabled=${action.busy} onClick=${clear}>${S.inbox.clear}</button></div>`}
    <${Trouble} error=${action.error} />
  </section>`;
}

function Group({ title, items, titled, reload, me, chosen, choose }) {
  if (!items.length) return null;
  return html`<section aria-label=${title}><h2 class=${titled ? "" : "hidden"}>${title}</h2>
    ${items.map((item) => html`<div class="card" key=${keyOf(item)}>
      <p class="small quiet card-head"><span>${choose && item.kind === "approval" && html`<input type="checkbox" aria-label=${S.inbox.pick(item.summary || item.tool_name)} checked=${chosen.has(keyOf(item))} onChange=${(e) => choose(item, e.currentTarget.checked)} /> `}${item.agent}</span>${item.thread_id && !item.approver && html`<a href=${`#/t/${id(item.thread_id)}`}>${S.decide.open}</a>`}</p>
      <${Decision} pending=${item} owner=${item.owner} mine=${!item.approver} me=${me} onDecided=${reload} /></div>`)}</section>`;
}
