import { all, id } from "./api.js";
import { Decision } from "./calls.js";
import { Empty, Loading, Main, Trouble, html, useCallback, useEffect, useState } from "./dom.js";
import { S } from "./strings.js";

const LOOK_MS = 8000;

/** Returns whether this user has approved a call that takes more approvals. The vote may still be changed. */
export const hasVoted = (item, me) => (item.approval?.given || []).some((vote) => (vote.on_behalf_of || vote.by) === me);

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

export function Inbox({ inbox }) {
  const mine = inbox.items.filter((item) => !item.approver);
  const others = inbox.items.filter((item) => item.approver);
  return html`<${Main} class="page"><h1>${S.inbox.title}</h1><p class="quiet">${S.inbox.lead}</p>
    <${Trouble} error=${inbox.error} retry=${inbox.reload} />
    ${inbox.loading && html`<${Loading} />`}
    ${!inbox.loading && !inbox.error && inbox.items.length === 0 && html`<${Empty} title=${S.inbox.none}><p>${S.inbox.noneLead}</p></${Empty}>`}
    <${Group} title=${S.inbox.mine} items=${mine} titled=${others.length > 0} reload=${inbox.reload} />
    <${Group} title=${S.inbox.approver} items=${others} titled reload=${inbox.reload} />
  </${Main}>`;
}

function Group({ title, items, titled, reload }) {
  if (!items.length) return null;
  return html`<section aria-label=${title}>${titled && html`<h2>${title}</h2>`}
    ${items.map((item) => html`<div class="card" key=${keyOf(item)}>
      <p class="small quiet card-head"><span>${item.agent}</span>${item.thread_id && !item.approver && html`<a href=${`#/t/${id(item.thread_id)}`}>${S.decide.open}</a>`}</p>
      <${Decision} pending=${item} owner=${item.owner} mine=${!item.approver} onDecided=${reload} /></div>`)}</section>`;
}
