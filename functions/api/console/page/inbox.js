import { all, decided, get, id, post } from "./api.js";
import { Edits, editsOf } from "./calls.js";
import { Circumstances, Decision, Facts, Votes, hasVoted } from "./decision.js";
import { Empty, Loading, Main, Time, Trouble, html, useAction, useCallback, useEffect, useLoaded, useRef, useState } from "./dom.js";
import { show } from "./seen.js";
import { S } from "./strings.js";

const LOOK_MS = 8000;
/** While nobody sees the page, only its title tells of a request. */
const HIDDEN_LOOK_MS = 60000;
/** The most calls of one list that the page reads. */
const MOST = 300;

/** Calls that wait for the caller, as the owner of runs and as an approver, read again and again. `arrived` has those
 *  that came since and that the caller has not been shown; `seen()` empties it; `isFull`: there may be more. */
export function useInbox(signedIn, me) {
  const [state, setState] = useState({ items: [], loading: true });
  const [arrived, setArrived] = useState([]);
  const known = useRef(null), newest = useRef(0);
  const reload = useCallback(async () => {
    const mine = newest.current += 1;
    try {
      const [own, others] = await Promise.all([all("/approvals", MOST), all("/approvals?as=approver", MOST)]);
      if (mine !== newest.current) return;
      const keys = new Set(own.map(keyOf));
      const items = [...own.map((item) => ({ ...item, isMine: true })), ...others.filter((item) => !keys.has(keyOf(item)))];
      const before = known.current;
      known.current = new Set(items.map(keyOf));
      setArrived((old) => [...old.filter((item) => known.current.has(keyOf(item))), ...(before ? items.filter((item) => !before.has(keyOf(item)) && !hasVoted(item, me)) : [])]);
      setState({ items, loading: false, isFull: own.length >= MOST || others.length >= MOST });
    } catch (error) {
      if (mine === newest.current) setState((old) => ({ ...old, error, loading: false }));
    }
  }, []);
  useEffect(() => {
    if (!signedIn) return undefined;
    let last = Date.now();
    const look = () => {
      if (document.visibilityState !== "visible" && Date.now() - last < HIDDEN_LOOK_MS) return;
      last = Date.now();
      reload();
    };
    reload();
    const timer = setInterval(look, LOOK_MS);
    document.addEventListener("visibilitychange", look);
    return () => { clearInterval(timer); document.removeEventListener("visibilitychange", look); };
  }, [signedIn]);
  return { ...state, arrived, seen: useCallback(() => setArrived([]), []), reload };
}

const keyOf = (item) => `${item.run_id} ${item.tool_call_id} ${item.attempt}`;
const nameOf = (item) => item.summary || item.tool_name;
const placeOf = (item) => `#/inbox/${id(item.run_id)}/${id(item.tool_call_id)}`;

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

/** Levels of risk as they are listed. What no tool's author has rated comes before what one called harmless. */
const RISKS = ["high", "medium", "none", "low"];
const FILTERS = {
  risk: { of: (item) => item.risk || "none", text: (value) => S.inbox.risks[value] || value },
  agent: { of: (item) => item.agent, text: (value) => value },
  tool: { of: (item) => item.tool_name, text: (value) => value },
  owner: { of: (item, me) => item.owner ?? me, text: (value, me) => (value === me ? S.you : value) },
};

/** The filters that the address has: `risk=high&agent=support`. */
function wishesIn(query) {
  const given = new URLSearchParams(query);
  return Object.fromEntries(Object.keys(FILTERS).filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

const wishAddress = (wishes) => {
  const query = new URLSearchParams(Object.entries(wishes).filter(([, value]) => value)).toString();
  location.replace(query ? `#/inbox?${query}` : "#/inbox");
};

/** The waiting calls by risk, in each the one that waits longest first: `[{risk, items}]`. */
export function byRisk(items) {
  const age = (one, other) => one.requested_at.localeCompare(other.requested_at);
  return RISKS.map((risk) => ({ risk, items: items.filter((item) => FILTERS.risk.of(item) === risk).sort(age) })).filter((group) => group.items.length);
}

/** Everything that the caller may decide. `query`: the filters in the address. */
export function Inbox({ inbox, me, query }) {
  const [chosen, setChosen] = useState(() => new Set());
  const [refused, setRefused] = useState([]);
  const wishes = wishesIn(query);
  const items = inbox.items.filter((item) => Object.entries(wishes).every(([name, value]) => FILTERS[name].of(item, me) === value));
  const picked = items.filter((item) => chosen.has(keyOf(item)));
  const setAll = (some, on) => setChosen((old) => { const now = new Set(old); for (const item of some) if (on) now.add(keyOf(item)); else now.delete(keyOf(item)); return now; });
  const several = items.filter((item) => item.kind === "approval").length > 1;
  useEffect(() => { inbox.seen(); }, [inbox.arrived.length]);
  useKeys();
  return html`<${Main} class="page inbox"><h1>${S.inbox.title}</h1><p class="quiet">${S.inbox.lead}</p>
    <${Trouble} error=${inbox.error} retry=${inbox.reload} />
    ${inbox.loading && html`<${Loading} />`}
    ${(inbox.items.length > 1 || Object.keys(wishes).length > 0) && html`<${Filters} items=${inbox.items} wishes=${wishes} me=${me} />`}
    ${!inbox.loading && !inbox.error && inbox.items.length === 0 && html`<${Empty} title=${S.inbox.none}><p>${S.inbox.noneLead}</p></${Empty}>`}
    ${inbox.items.length > 0 && items.length === 0 && html`<${Empty} title=${S.inbox.noMatch}><p><button type="button" onClick=${() => wishAddress({})}>${S.inbox.showAll(inbox.items.length)}</button></p></${Empty}>`}
    ${refused.length > 0 && html`<div class="trouble" role="alert"><p>${S.inbox.refused(refused.length)}</p><ul>${refused.map(({ item, why }) => html`<li key=${keyOf(item)}>${item.summary || html`<code>${item.tool_name}</code>`}: ${why}</li>`)}</ul></div>`}
    ${several && html`<${Several} items=${items} picked=${picked} setAll=${setAll} onRefused=${setRefused} reload=${inbox.reload} />`}
    ${byRisk(items).map((group) => html`<section key=${group.risk} aria-labelledby=${`risk-${group.risk}`}><h2 id=${`risk-${group.risk}`}>${S.inbox.risks[group.risk]} <span class="quiet small">${group.items.length}</span></h2>
      ${group.items.map((item) => html`<${Card} key=${keyOf(item)} item=${item} me=${me} picks=${several && item.kind === "approval"} chosen=${chosen.has(keyOf(item))} choose=${(on) => setAll([item], on)} reload=${inbox.reload} />`)}</section>`)}
    ${inbox.isFull && html`<p class="quiet small">${S.inbox.full(MOST)}</p>`}
    ${items.length > 0 && html`<p class="quiet small keys">${S.inbox.keys.map(([key, what]) => html`<span key=${key}><kbd>${key}</kbd> ${what}</span>`)}</p>`}
  </${Main}>`;
}

function Filters({ items, wishes, me }) {
  const valuesOf = (name) => [...new Set([...items.map((item) => FILTERS[name].of(item, me)), ...(wishes[name] ? [wishes[name]] : [])])];
  const sorted = (name) => (name === "risk" ? RISKS.filter((risk) => valuesOf(name).includes(risk)) : valuesOf(name).sort());
  return html`<form class="filters" role="search" aria-label=${S.inbox.filter} onSubmit=${(e) => e.preventDefault()}>${Object.entries(FILTERS).map(([name, { text }]) => html`<div key=${name} class="small"><label for=${`filter-${name}`}>${S.inbox.filters[name]}</label>
    <select id=${`filter-${name}`} value=${wishes[name] || ""} onChange=${(e) => wishAddress({ ...wishes, [name]: e.currentTarget.value })}><option value="">${S.inbox.any}</option>${sorted(name).map((value) => html`<option key=${value} value=${value}>${text(value, me)}</option>`)}</select></div>`)}</form>`;
}

function Card({ item, me, picks, chosen, choose, reload }) {
  return html`<div class="card">
    <p class="small quiet card-head"><span>${picks && html`<input type="checkbox" aria-label=${S.inbox.pick(nameOf(item))} checked=${chosen} onChange=${(e) => choose(e.currentTarget.checked)} /> `}${item.agent}</span>
      <span><a href=${placeOf(item)}>${S.inbox.open}</a>${item.thread_id && html` <a href=${`#/t/${id(item.thread_id)}`}>${S.decide.open}</a>`}</span></p>
    <${Decision} pending=${item} owner=${item.isMine ? S.you : item.owner} mine=${item.isMine} me=${me} onDecided=${reload} /></div>`;
}

/** Decides the chosen calls together, after a question. */
function Several({ items, picked, setAll, onRefused, reload }) {
  const [reason, setReason] = useState("");
  const action = useAction();
  const needed = picked.some((item) => item.approval?.reason_required);
  const kindOf = (item) => `${item.agent} ${item.tool_name}`;
  const alike = picked.length && picked.every((item) => kindOf(item) === kindOf(picked[0])) ? items.filter((item) => item.kind === "approval" && kindOf(item) === kindOf(picked[0])) : [];
  const send = (decision, question) => confirm(question(picked.map((item) => show(nameOf(item))))) && action.run(async () => {
    onRefused(await decideAll(picked, decision, reason.trim()));
    setReason("");
    setAll(picked, false);
    document.getElementById("main")?.focus();
    decided();
    reload();
  });
  const blocked = action.busy || !picked.length || (needed && !reason.trim());
  return html`<section class="card several" aria-label=${S.inbox.several}>
    <p class="small" role="status">${picked.length ? S.inbox.chosen(picked.length) : S.inbox.choose}</p>
    ${picked.length > 0 && html`${alike.length > picked.length && html`<p><button type="button" class="plain" onClick=${() => setAll(alike, true)}>${S.inbox.alike(alike.length, picked[0].tool_name)}</button></p>`}
      <div class="field"><label for="several-reason">${S.decide.reason} <span class="quiet small">${needed ? S.decide.required : S.decide.optional}</span></label>
      <input id="several-reason" type="text" dir="auto" maxlength="10000" value=${reason} required=${needed} disabled=${action.busy} onInput=${(e) => setReason(e.currentTarget.value)} /></div>
    <div class="actions"><button type="button" class="primary" disabled=${blocked} onClick=${() => send("approve", S.inbox.confirmApprove)}>${S.inbox.approveAll(picked.length)}</button>
      <button type="button" disabled=${blocked} onClick=${() => send("deny", S.inbox.confirmDeny)}>${S.inbox.denyAll(picked.length)}</button>
      <button type="button" class="plain" disabled=${action.busy} onClick=${() => setAll(picked, false)}>${S.inbox.clear}</button></div>`}
    <${Trouble} error=${action.error} />
  </section>`;
}

/** What takes letters as letters. */
export const TYPED = "textarea, select, [contenteditable], input:not([type=checkbox])";

/** The keys of the list. They act on the card that has the focus, and never while somebody types. */
function useKeys() {
  useEffect(() => {
    const press = (event) => {
      const at = document.activeElement;
      if (event.ctrlKey || event.metaKey || event.altKey || at.matches(TYPED) || !(at === document.body || at.closest("main"))) return;
      const cards = [...document.querySelectorAll(".inbox .card .decision")];
      const card = at.closest(".card"), n = cards.findIndex((each) => card?.contains(each));
      const step = { j: 1, ArrowDown: n < 0 ? 0 : 1, k: -1, ArrowUp: n < 0 ? 0 : -1 }[event.key] || 0;
      const act = n >= 0 && ACTS[event.key];
      if (step) cards[Math.min(cards.length - 1, Math.max(0, n + step))]?.focus();
      else if (!act || (event.key === "Enter" && at !== cards[n])) return;
      else act(card);
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** A call that waits for a first approval has the button that edits it. */
const asksIn = (card) => card.querySelector("[data-mode=edit]");

const ACTS = {
  Enter: (card) => { location.hash = card.querySelector("a[href^='#/inbox/']").hash; },
  a: (card) => {
    const field = card.querySelector(".choice input:required");
    if (!asksIn(card)) return;
    if (field && !field.value.trim()) field.focus();
    else if (confirm(S.inbox.confirmApprove([card.querySelector(".title").textContent]))) card.querySelector(".choice form").requestSubmit();
  },
  d: (card) => card.querySelector("[data-mode=deny]")?.click(),  // Its form asks.
  x: (card) => card.querySelector(".card-head input")?.click(),
};

/** One call at an address of its own, to which mails and chats lead: while it waits, and what became of it. */
export function AskedCall({ runId, callId, me, more, onDecided }) {
  const found = useLoaded(() => get(`/runs/${id(runId)}/tool-calls/${id(callId)}`), [runId, callId]);
  const item = found.value;
  useEffect(() => {
    if (!item?.waits) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && found.reload(), LOOK_MS);
    return () => clearInterval(timer);
  }, [item?.waits]);
  const changed = () => { found.reload(); onDecided(); };
  const gone = found.error?.status === 404;
  return html`<${Main} class="page"><p class="small"><a href="#/inbox">${S.inbox.back}</a>${more > 0 && html` <span class="quiet">${S.inbox.more(more)}</span>`}</p>
    <h1>${item && !gone ? (item.waits ? S.inbox.waits : S.inbox.over) : S.inbox.one}</h1>
    ${gone ? html`<${Empty} title=${S.inbox.gone}><p>${S.inbox.goneLead}</p></${Empty}>` : html`<${Trouble} error=${found.error} retry=${found.reload} />`}
    ${!item && found.loading && html`<${Loading} />`}
    ${item && !gone && html`<div class="card">
      <p class="small quiet card-head"><span>${item.agent}</span>${item.thread_id && html`<a href=${`#/t/${id(item.thread_id)}`}>${S.decide.open}</a>`}</p>
      ${item.waits ? html`<${Decision} key=${item.attempt} heading="h2" pending=${item} owner=${item.owner === me ? S.you : item.owner} mine=${Boolean(item.thread_id)} me=${me} onDecided=${changed} />`
        : html`<${Settled} item=${item} me=${me} />`}</div>`}
  </${Main}>`;
}

function Settled({ item, me }) {
  const { decision } = item;
  const verdict = item.kind === "input" && decision?.decision === "denied" ? S.decide.declined : S.decide.decided[decision?.decision] || decision?.decision;
  const edits = decision ? editsOf({ asked: { args: item.args, isWhole: true }, decision }) : [];
  return html`<div class="decision"><h2 class="title" dir="auto">${item.summary || S.decide.asks(item.tool_name)}</h2>
    <p role="status"><strong>${decision ? S.decide.by(verdict, decision.on_behalf_of || decision.decided_by) : S.inbox.unsettled}</strong>${edits.length > 0 && ` ${S.decide.changed}`}
      ${decision && html` <span class="quiet small"><${Time} at=${decision.at} exact /></span>`}</p>
    ${decision?.reason && html`<p dir="auto">${decision.reason}</p>`}
    <${Edits} edits=${edits} />
    <${Circumstances} pending=${{ ...item, expires_at: null, approval: null }} owner=${item.owner === me ? S.you : item.owner} name=${item.tool_name} />
    <${Facts} values=${item.kind === "approval" ? item.args : item.payload} />
    ${decision?.given?.length > 1 && html`<${Votes} pending=${{ args: item.args, approval: decision }} />`}</div>`;
}

/** Tells of requests that arrived while another page was open. `threadId`: the open thread, which shows its own. */
export function Arrivals({ inbox, threadId }) {
  const items = inbox.arrived.filter((item) => !item.thread_id || item.thread_id !== threadId);
  const [first] = items;
  return html`<div class="arrivals" role="status">${first && html`<p><span>${items.length > 1 ? S.inbox.arrivals(items.length) : S.inbox.arrival} <a href=${items.length > 1 ? "#/inbox" : placeOf(first)}>${items.length > 1 ? S.inbox.look : nameOf(first)}</a></span>
    <button type="button" class="plain" onClick=${inbox.seen}>${S.inbox.later}</button></p>`}</div>`;
}
