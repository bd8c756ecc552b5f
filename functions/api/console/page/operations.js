import { get, id } from "./api.js";
import { Columns } from "./columns.js";
import { DAY_MS } from "./decision.js";
import { Empty, Loading, Main, Time, Trouble, html, money, tokens, useEffect, useLoaded, useRef, useState } from "./dom.js";
import { TYPED } from "./inbox.js";
import { OnlyOperators, Operate, Outcomes, RunState, operatedAddress } from "./operate.js";
import { S } from "./strings.js";

/** The most runs of one page of the list. */
const RUNS = 50;
/** Days over which the summary counts runs that are over. */
const REACHES = [1, 7, 30];
const STATES = ["queued", "running", "suspended", "success", "failed", "cancelled"];
/** What the list can be asked for, as it stands in the address. */
const WISHES = ["status", "agent", "owner", "error", "since", "until"];
const TIMES = ["since", "until"];

/** The wishes that the address has: `status=failed&agent=support`; `days` is the summary's. */
function runWishesIn(query) {
  const given = new URLSearchParams(query);
  return Object.fromEntries([...WISHES, "days"].filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

function operationsAddress(wishes) {
  const query = new URLSearchParams(Object.entries(wishes).filter(([, value]) => value)).toString();
  return query ? `#/operations?${query}` : "#/operations";
}

/** Items of a list, in as many pages as were asked for. `address`: the list's path and query; `atOnce`: the pages that
 *  are read together. */
export function useItems(address, atOnce = 1) {
  const [state, setState] = useState({ items: [], loading: true });
  const newest = useRef(0), pages = useRef(atOnce);
  const read = async (cursor, count, before) => {
    const mine = newest.current += 1;
    const found = { items: before, cursor };
    setState((old) => ({ ...old, error: null, loading: true }));
    try {
      for (let n = 0; n < count && (n === 0 || found.cursor) && mine === newest.current; n += 1) {
        const from = found.cursor ? `&cursor=${id(found.cursor)}` : "";
        const page = await get(`${address}${from}`);
        found.items = [...found.items, ...page.items];
        found.cursor = page.next_cursor;
      }
      if (mine === newest.current) setState({ ...found, of: address });
    } catch (error) {
      if (mine === newest.current) setState((old) => ({ ...old, error, loading: false }));
    }
  };
  useEffect(() => { pages.current = atOnce; read(null, atOnce, []); }, [address]);
  const reload = () => read(null, pages.current, []);
  const more = () => { pages.current += atOnce; read(state.cursor, atOnce, state.items); };
  // What the filters before had found is no answer to these.
  const shown = state.of === address || state.loading ? state : { ...state, items: [], cursor: null };
  return { ...shown, reload, more };
}

/** All users' runs. `query`: the filters in the address. */
export function Operations({ query, agents }) {
  const wishes = runWishesIn(query), { days, ...only } = wishes;
  const reach = REACHES.find((each) => String(each) === days) || REACHES[0];
  const since = () => id(new Date(Date.now() - reach * DAY_MS).toISOString());
  const summary = useLoaded(() => get(`/operate/summary?since=${since()}`), [reach]);
  const filters = Object.entries(only).map(([name, value]) => `&${name}=${id(value)}`).join("");
  const runs = useItems(`/operate/runs?limit=${RUNS}${filters}`);
  const [chosen, setChosen] = useState(() => new Set());
  const [done, setDone] = useState(null);
  useRunKeys();
  const again = () => { summary.reload(); runs.reload(); };
  if ([summary.error, runs.error].some((error) => error?.status === 403)) return html`<${Main} class="page"><h1>${S.operations.title}</h1><${OnlyOperators} /></${Main}>`;
  const picked = runs.items.filter((run) => chosen.has(run.id)).map((run) => run.id);
  const choose = (some, on) => setChosen((old) => { const now = new Set(old); for (const each of some) if (on) now.add(each); else now.delete(each); return now; });
  const over = (outcome) => {
    setDone(outcome);
    choose(outcome.results.filter((each) => !each.why).map((each) => each.id), false);
    again();
  };
  const narrowed = Object.keys(only).length > 0;
  return html`<${Main} class="page wide operations"><h1>${S.operations.title}</h1><p class="quiet">${S.operations.lead}</p>
    <div class="actions" role="group" aria-label=${S.operations.reach}>${REACHES.map((each) => html`<button type="button" key=${each} class="chip" aria-pressed=${reach === each ? "true" : "false"} onClick=${() => location.replace(operationsAddress({ ...wishes, days: each === REACHES[0] ? "" : String(each) }))}>${S.operations.days(each)}</button>`)}
      <button type="button" class="chip" disabled=${summary.loading || runs.loading} onClick=${again}>${S.operations.again}</button></div>
    <${Trouble} error=${summary.error} retry=${summary.reload} />
    ${summary.loading && !summary.value && html`<${Loading} />`}
    ${summary.value && html`<${Summary} summary=${summary.value} wishes=${days ? { days } : {}} />`}
    <h2 id="runs">${S.operations.runs}</h2>
    <${RunFilters} wishes=${wishes} agents=${[...new Set([...agents.map((each) => each.name), ...(summary.value?.runs || []).map((each) => each.agent)])].sort()} errors=${[...new Set((summary.value?.errors || []).map((each) => each.error))]} />
    <${Trouble} error=${runs.error} retry=${runs.reload} />
    <${Outcomes} done=${done} onClose=${() => { setDone(null); document.getElementById("main")?.focus(); }} />
    ${picked.length > 0 && html`<section class="card several" aria-label=${S.operations.several}><p class="small"><span role="status">${S.inbox.chosen(picked.length)}</span> <button type="button" class="plain" onClick=${() => choose(picked, false)}>${S.inbox.clear}</button></p>
      <${Operate} ids=${picked} onDone=${over} /></section>`}
    ${runs.items.length > 0 && html`<${RunTable} runs=${runs.items} chosen=${chosen} choose=${choose} />`}
    ${runs.loading && html`<${Loading} />`}
    ${!runs.loading && !runs.error && runs.items.length === 0 && html`<${Empty} title=${runs.cursor ? S.operations.noneYet : narrowed ? S.operations.noMatch : S.operations.none}>${narrowed && html`<p><button type="button" onClick=${() => location.replace(operationsAddress(days ? { days } : {}))}>${S.operations.showAll}</button></p>`}</${Empty}>`}
    ${!runs.loading && runs.cursor && html`<button type="button" onClick=${runs.more}>${S.operations.more}</button>`}
    ${runs.items.length > 0 && html`<${RunKeys} count=${S.operations.keys.length} />`}
  </${Main}>`;
}

/** What runs, what waits, what failed and what it cost. `wishes`: those that its links keep. */
function Summary({ summary, wishes }) {
  const { runs, oldest_wait: oldest, errors, spent } = summary;
  const countOf = (status) => runs.filter((each) => each.status === status).reduce((sum, each) => sum + each.count, 0);
  const to = (more) => operationsAddress({ ...wishes, ...more });
  return html`<dl class="figures">${STATES.map((status) => html`<div key=${status}><dt>${S.operations.statuses[status]}</dt><dd><a href=${to({ status })}>${tokens(countOf(status))}</a></dd></div>`)}</dl>
    <p class="quiet small">${S.operations.at} <${Time} at=${summary.at} exact seconds />. ${S.operations.counted} <${Time} at=${summary.since} exact seconds />.${!summary.complete && html` <strong>${S.operations.incomplete}</strong>`}</p>
    ${summary.over_time.length > 0 && html`<${OverTime} summary=${summary} />`}
    <div class="summary">
      <section class="card" aria-labelledby="by-agent"><h2 id="by-agent">${S.operations.byAgent}</h2>${runs.length ? html`<${AgentBars} counts=${runs} to=${to} />` : html`<p class="quiet small">${S.operations.nothing}</p>`}</section>
      <section class="card" aria-labelledby="oldest"><h2 id="oldest">${S.operations.oldest}</h2>${oldest ? html`<p><a href=${operatedAddress(oldest.run_id)}><code>${oldest.run_id}</code></a></p><p class="quiet small">${S.operations.waits(oldest.agent, oldest.owner)} <${Time} at=${oldest.waiting_since} exact seconds /></p>` : html`<p class="quiet small">${S.operations.noWait}</p>`}</section>
      <section class="card" aria-labelledby="failures"><h2 id="failures">${S.operations.failures}</h2>${errors.length ? html`<ul class="kinds">${errors.map((each) => html`<li key=${`${each.error} ${each.provider}`}><a href=${to({ status: "failed", error: each.error })}>${each.error}</a>${each.provider && html` <span class="quiet small">${each.provider}</span>`} <strong>${tokens(each.count)}</strong> <a class="small" href=${operatedAddress(each.newest_run_id)} aria-label=${S.operations.newestOf(each.error)}>${S.operations.newest}</a></li>`)}</ul>` : html`<p class="quiet small">${S.operations.noFailure}</p>`}</section>
      <section class="card" aria-labelledby="spent"><h2 id="spent">${S.operations.spent}</h2>${spent.length ? html`<table><thead><tr><th>${S.usage.agent}</th><th class="number">${S.operations.runs}</th><th class="number">${S.usage.tokens}</th><th class="number">${S.usage.cost}</th></tr></thead>
        <tbody>${spent.map((each) => html`<tr key=${each.agent}><td>${each.agent}</td><td class="number">${tokens(each.runs)}</td><td class="number">${tokens(each.tokens)}</td><td class="number">${each.unpriced > 0 && !Number(each.cost_usd) ? S.unpriced : money(each.cost_usd)}${each.unpriced > 0 && html`<span class="quiet small run-whose">${S.operations.unpriced(each.unpriced)}</span>`}</td></tr>`)}</tbody></table>` : html`<p class="quiet small">${S.operations.noSpend}</p>`}</section>
    </div>`;
}

/** A column for each hour or day: its runs by the state that they are in now. */
function OverTime({ summary }) {
  const { since, at, period, over_time: counts } = summary;
  const step = period === "hour" ? DAY_MS / 24 : DAY_MS;
  const shown = (start) => new Date(start).toLocaleString(undefined, period === "hour" ? { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short", timeZone: "UTC" });
  const look = (status) => ({ name: S.operations.statuses[status], look: `of-${status}` });
  const columns = [];
  for (let start = Math.floor(Date.parse(since) / step) * step; start <= Date.parse(at); start += step) {
    const parts = counts.filter((each) => Date.parse(each.at) === start).map(({ status, count }) => ({ ...look(status), value: count }));
    columns.push({ name: shown(start), parts, total: parts.reduce((sum, part) => sum + part.value, 0) });
  }
  return html`<${Columns} columns=${columns} series=${STATES.filter((status) => counts.some((each) => each.status === status)).map(look)} format=${tokens} label=${S.operations.overTime[period]} />`;
}

/** A bar for each agent: its runs by state. */
function AgentBars({ counts, to }) {
  const names = [...new Set(counts.map((each) => each.agent))].sort();
  const rows = names.map((agent) => ({ agent, parts: STATES.map((status) => ({ status, count: counts.find((each) => each.agent === agent && each.status === status)?.count || 0 })).filter((part) => part.count) }));
  const totalOfRow = (row) => row.parts.reduce((sum, part) => sum + part.count, 0);
  const most = Math.max(...rows.map(totalOfRow));
  return html`<ul class="spans">${rows.map((row) => {
    let at = 0;
    return html`<li key=${row.agent}><a class="span-name" href=${to({ agent: row.agent })}>${row.agent}</a><span class="quiet small">${row.parts.map(({ status, count }) => `${tokens(count)} ${S.operations.statuses[status]}`).join(" · ")}</span>
      <svg class="span-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="6" />${row.parts.map(({ status, count }) => {
        const x = at;
        at += (count / most) * 100;
        return html`<rect key=${status} class=${`of-${status}`} x=${x} width=${at - x} height="6" />`;
      })}</svg></li>`;
  })}</ul>
  <ul class="legend small">${STATES.filter((status) => counts.some((each) => each.status === status)).map((status) => html`<li key=${status}><svg viewBox="0 0 10 10" aria-hidden="true"><rect class=${`of-${status}`} width="10" height="10" rx="2" /></svg> ${S.operations.statuses[status]}</li>`)}</ul>`;
}

/** A moment of the address as a field has it, in this browser's time zone; empty if it is none. */
function fieldTime(text) {
  const at = new Date(text || "");
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

const wishTime = (text) => (text ? new Date(text).toISOString() : "");

/** The filters of the list. Each change goes to the address, from which the list is read. */
function RunFilters({ wishes, agents, errors }) {
  const put = (name, value) => { if ((wishes[name] || "") !== value) location.replace(operationsAddress({ ...wishes, [name]: value })); };
  const choice = (name, values, text) => html`<${WishChoice} key=${name} name=${name} value=${wishes[name] || ""} put=${put} values=${values} text=${text} />`;
  return html`<form class="filters" role="search" aria-label=${S.operations.filter} onSubmit=${(e) => e.preventDefault()}>
    ${choice("status", STATES, (value) => S.operations.statuses[value] || value)}${choice("agent", agents, (value) => value)}
    <${WishField} name="owner" value=${wishes.owner || ""} put=${put} /><${WishField} name="error" value=${wishes.error || ""} put=${put} list=${errors} />
    ${TIMES.map((name) => html`<${WishField} key=${name} name=${name} type="datetime-local" value=${fieldTime(wishes[name])} put=${(_, value) => value !== fieldTime(wishes[name]) && put(name, wishTime(value))} />`)}</form>`;
}

/** A list of the filters: the values that were found, and the one of the address. */
export function WishChoice({ name, value, put, values, text = (each) => each }) {
  return html`<div class="small"><label for=${`run-${name}`}>${S.operations.filters[name]}</label>
    <select id=${`run-${name}`} value=${value} onChange=${(e) => put(name, e.currentTarget.value)}><option value="">${S.inbox.any}</option>${[...new Set([...values, ...(value ? [value] : [])])].map((each) => html`<option key=${each} value=${each}>${text(each)}</option>`)}</select></div>`;
}

/** A field of the filters. What is typed counts when the field is left, or with Enter. */
export function WishField({ name, value, put, type = "text", list = [] }) {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  const field = `run-${name}`;
  return html`<div class="small"><label for=${field}>${S.operations.filters[name]}</label>
    <input id=${field} type=${type} dir="auto" maxlength="256" autocomplete="off" list=${list.length ? `${field}-known` : undefined} value=${draft} onInput=${(e) => setDraft(e.currentTarget.value)}
      onBlur=${(e) => put(name, e.currentTarget.value.trim())} onKeyDown=${(e) => e.key === "Enter" && put(name, e.currentTarget.value.trim())} />
    ${list.length > 0 && html`<datalist id=${`${field}-known`}>${list.map((each) => html`<option key=${each} value=${each} />`)}</datalist>`}</div>`;
}

function RunTable({ runs, chosen, choose }) {
  const every = runs.every((run) => chosen.has(run.id));
  const head = (name, more = "") => html`<th scope="col" class=${more}>${S.operations.columns[name]}</th>`;
  return html`<div class="table"><table class="runs" aria-labelledby="runs"><thead><tr>
      <td><input type="checkbox" aria-label=${S.operations.pickAll(runs.length)} checked=${every} onChange=${(e) => choose(runs.map((run) => run.id), e.currentTarget.checked)} /></td>
      ${head("run")}${head("status")}${head("accepted")}${head("waits", "wide-only")}${head("steps", "number wide-only")}${head("tokens", "number wide-only")}${head("cost", "number wide-only")}</tr></thead>
    <tbody>${runs.map((run) => html`<tr key=${run.id} class=${chosen.has(run.id) ? "chosen" : ""}>
      <td><input type="checkbox" aria-label=${S.operations.pick(run.id)} checked=${chosen.has(run.id)} onChange=${(e) => choose([run.id], e.currentTarget.checked)} /></td>
      <td><a href=${operatedAddress(run.id)}><code>${run.id}</code></a><span class="quiet small run-whose">${S.operations.whose(run.agent, run.owner)}</span></td>
      <td><${RunState} run=${run} /></td><td><${Time} at=${run.created_at} exact seconds /></td>
      <td class="wide-only">${run.waiting_since && html`<${Time} at=${run.waiting_since} exact seconds />`}</td>
      <td class="number wide-only">${tokens(run.steps)}</td><td class="number wide-only">${tokens(run.usage.total_tokens)}</td><td class="number wide-only">${run.usage.total_tokens ? money(run.usage.cost_usd) : ""}</td></tr>`)}</tbody></table></div>`;
}

/** The first of the keys, as a list shows them. */
export const RunKeys = ({ count }) => html`<p class="quiet small keys">${S.operations.keys.slice(0, count).map(([key, what]) => html`<span key=${key}><kbd>${key}</kbd> ${what}</span>`)}</p>`;

/** The keys of a list. They act on the row that has the focus, and never while somebody types. */
export function useRunKeys() {
  useEffect(() => {
    const press = (event) => {
      const at = document.activeElement;
      if (event.ctrlKey || event.metaKey || event.altKey || at.matches(TYPED) || !(at === document.body || at.closest("main"))) return;
      const rows = [...document.querySelectorAll(".runs tbody tr")], n = rows.indexOf(at.closest(".runs tbody tr"));
      const step = { j: 1, k: -1 }[event.key];
      if (step) rows[Math.min(rows.length - 1, Math.max(0, n + step))]?.querySelector("a, [tabindex]").focus();
      else if (event.key === "x" && n >= 0) rows[n].querySelector("input")?.click();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
