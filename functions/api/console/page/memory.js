import { all, get, id, patch, put, remove } from "./api.js";
import { Empty, IconButton, Loading, Main, Time, Trouble, html, shown, useAction, useEffect, useLayoutEffect, useLoaded, useRef, useState } from "./dom.js";
import { parseJson } from "./numbers.js";
import { S } from "./strings.js";

/** Agents' memory of the caller: profile and entries. */
export function Memory({ agents }) {
  const [agent, setAgent] = useState(null);
  const name = agent || (agents.find((each) => each.remembers) || agents[0])?.name;
  if (!name) return html`<${Main} class="page"><${Empty} title=${S.start.noAgents}><p>${S.start.addAgent}</p></${Empty}></${Main}>`;
  return html`<${Main} class="page"><h1>${S.memory.title}</h1><p class="quiet">${S.memory.lead}</p>
    <div class="field narrow"><label for="memory-agent">${S.memory.agent}</label>
      <select id="memory-agent" value=${name} onChange=${(e) => setAgent(e.currentTarget.value)}>${agents.map((each) => html`<option key=${each.name} value=${each.name}>${each.name}</option>`)}</select></div>
    <${Entries} key=${`entries ${name}`} agent=${name} />
    <${Profile} key=${`profile ${name}`} agent=${name} />
  </${Main}>`;
}

const profileOf = (agent) => get(`/memory/profile?agent=${id(agent)}`).catch((problem) => {
  if (problem.status === 404) return null;
  throw problem;
});

function Profile({ agent }) {
  const found = useLoaded(() => profileOf(agent), [agent]);
  const [draft, setDraft] = useState(null);
  const action = useAction();
  const profile = found.value?.profile;
  const empty = profile === undefined || profile === null || profile === "" || (typeof profile === "object" && !Object.keys(profile).length);
  const save = (event) => {
    event.preventDefault();
    action.run(async () => {
      let value = draft;
      if (/^\s*\{/.test(draft)) value = parseJson(draft);
      found.set(await put(`/memory/profile?agent=${id(agent)}`, { profile: value }) || { profile: value });
      setDraft(null);
      found.reload();
    });
  };
  const forget = () => confirm(S.memory.confirmProfile) && action.run(async () => {
    await remove(`/memory/profile?agent=${id(agent)}`);
    found.set(null);
  });
  return html`<section aria-labelledby="profile-title"><h2 id="profile-title">${S.memory.profile}</h2>
    <${Trouble} error=${found.error || action.error} />
    ${found.loading && !found.value ? html`<${Loading} />`
      : draft !== null ? html`<form onSubmit=${save}><textarea class="code" rows="8" aria-label=${S.memory.profile} value=${draft} onInput=${(e) => setDraft(e.currentTarget.value)}></textarea>
        <div class="actions"><button class="primary" type="submit" disabled=${action.busy}>${S.memory.save}</button><button type="button" onClick=${() => setDraft(null)}>${S.memory.cancel}</button></div></form>`
        : html`<div class="card">${empty ? html`<p class="quiet">${S.memory.noProfile}</p>` : html`<pre tabindex="0"><code>${shown(profile)}</code></pre>`}
          <div class="actions"><button type="button" onClick=${() => setDraft(empty ? "" : shown(profile))}>${empty ? S.memory.write : S.memory.edit}</button>
          ${!empty && html`<button type="button" onClick=${forget}>${S.memory.forget}</button>`}</div></div>`}
  </section>`;
}

function Entries({ agent }) {
  const [typed, setTyped] = useState("");
  const [query, setQuery] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setQuery(typed.trim()), 300);
    return () => clearTimeout(timer);
  }, [typed]);
  const asked = query ? `&query=${id(query)}` : "";
  const found = useLoaded(() => all(`/memory/entries?agent=${id(agent)}${asked}`, query ? 50 : 300), [agent, query]);
  const items = found.value || [];
  const changed = (entry) => found.set(items.map((each) => (each.id === entry.id ? entry : each)));
  const gone = (entry) => found.set(items.filter((each) => each.id !== entry.id));
  return html`<section aria-labelledby="entries-title"><h2 id="entries-title">${S.memory.entries}</h2>
    <div class="field narrow"><label for="entries-query">${S.memory.search}</label><input id="entries-query" type="search" maxlength="2000" value=${typed} onInput=${(e) => setTyped(e.currentTarget.value)} /></div>
    <${Trouble} error=${found.error} retry=${found.reload} />
    ${found.loading && !found.value && html`<${Loading} />`}
    ${found.value && items.length === 0 && html`<p class="quiet">${query ? S.memory.noMatch : S.memory.noEntries}</p>`}
    <ul class="entries">${items.map((entry) => html`<${Entry} key=${entry.id} entry=${entry} changed=${changed} gone=${gone} />`)}</ul></section>`;
}

function Entry({ entry, changed, gone }) {
  const [draft, setDraft] = useState(null);
  const action = useAction();
  const place = useRef(null), edits = useRef(false);
  useLayoutEffect(() => {
    if (edits.current !== (draft !== null)) place.current.querySelector("textarea, .icon-button").focus();
    edits.current = draft !== null;
  }, [draft !== null]);
  const save = (event) => {
    event.preventDefault();
    action.run(async () => {
      changed({ ...entry, ...await patch(`/memory/entries/${id(entry.id)}`, { content: draft }) });
      setDraft(null);
    });
  };
  const leave = () => { action.clear(); setDraft(null); };
  const forget = () => confirm(S.memory.confirmEntry) && action.run(async () => {
    await remove(`/memory/entries/${id(entry.id)}`);
    gone(entry);
  });
  return html`<li class="card" ref=${place}>
    ${draft === null ? html`<p>${entry.content}</p>` : html`<form onSubmit=${save}>
      <div class="field"><textarea rows="3" maxlength="2000" required aria-label=${S.memory.corrected} value=${draft} onInput=${(e) => setDraft(e.currentTarget.value)} onKeyDown=${(e) => e.key === "Escape" && leave()}></textarea></div>
      <div class="actions"><button class="primary" type="submit" disabled=${action.busy}>${S.memory.save}</button><button type="button" onClick=${leave}>${S.memory.cancel}</button></div></form>`}
    <${Trouble} error=${action.error} />
    <p class="quiet small facts"><span>${S.memory.source[entry.source] || entry.source}</span><${Time} at=${entry.created_at} />${entry.verified && html`<span>${S.memory.verified}</span>`}${entry.thread_id && html`<a href=${`#/t/${id(entry.thread_id)}`}>${S.memory.thread}</a>`}</p>
    ${entry.evidence && entry.evidence !== entry.content && html`<details><summary class="small">${S.memory.evidence}</summary><blockquote>${entry.evidence}</blockquote></details>`}
    ${draft === null && html`<span class="entry-actions"><${IconButton} icon="pen" label=${`${S.memory.correct}: ${entry.content}`} onClick=${() => setDraft(entry.content)} />
      <${IconButton} icon="trash" label=${`${S.memory.remove}: ${entry.content}`} disabled=${action.busy} onClick=${forget} /></span>`}</li>`;
}

const NOTES = ["summary", "working_memory", "session", "plan", "iteration_log"];
const holds = (value) => value !== null && value !== undefined && value !== "" && !(typeof value === "object" && !Object.keys(value).length);

/** The memory from which the next turn of a thread would start. */
export function ThreadMemory({ threadId, stamp }) {
  const found = useLoaded(() => get(`/threads/${id(threadId)}/memory`), [threadId, stamp]);
  if (found.error) return html`<${Trouble} error=${found.error} retry=${found.reload} />`;
  if (!found.value) return html`<${Loading} />`;
  const memory = found.value;
  const notes = NOTES.filter((name) => holds(memory[name]));
  const observed = memory.observations || [];
  return html`
    <p class="quiet small">${S.memory.readOnly}</p>
    ${!notes.length && !observed.length && html`<p class="quiet">${S.memory.nothing}</p>`}
    ${observed.length > 0 && html`<h3>${S.memory.observations}</h3><ul class="entries">${observed.map((note) => html`<li key=${note.id} class=${note.active === false ? "quiet" : ""}>${note.marker && html`<span class="tag">${note.marker}</span> `}${note.text}</li>`)}</ul>`}
    ${notes.map((name) => html`<div key=${name}><h3>${S.memory[name]}</h3><pre tabindex="0"><code>${shown(memory[name])}</code></pre></div>`)}
    ${holds(memory.token_counts) && html`<h3>${S.memory.tokens}</h3><dl class="values">${Object.entries(memory.token_counts).map(([name, n]) => html`<div key=${name}><dt>${name.replace(/_/g, " ")}</dt><dd>${shown(n)}</dd></div>`)}</dl>`}`;
}
