import { all, authorize, get, id, patch, remove } from "./api.js";
import { Audit } from "./audit.js";
import { Chat, Start } from "./chat.js";
import { Guard, Icon, IconButton, Loading, Main, Mark, Trouble, html, paint, threadDay, useAction, useCallback, useEffect, useRef, useState } from "./dom.js";
import { guardDrops } from "./files.js";
import { hasVoted } from "./decision.js";
import { Connected, Connections } from "./connections.js";
import { Evals, NOTHING_CHOSEN } from "./evals.js";
import { Arrivals, AskedCall, Inbox, useInbox } from "./inbox.js";
import { Memory } from "./memory.js";
import { OnlyOperators } from "./operate.js";
import { OperatedRun } from "./operated.js";
import { Operations } from "./operations.js";
import { completeSignIn, consentHere, discover, forgetUser, idOf, isInGroups, scopesOf, signIn, signInLocally, signOut, takeConsent, tokenOf, whoIs } from "./session.js";
import { S } from "./strings.js";
import { Usage } from "./usage.js";

const unescaped = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

/** The place that the address names: `#/PAGE/REST?QUERY`. `parts`: those of the rest, between slashes. */
const route = () => {
  const [, page = "new", rest = "", query = ""] = /^#\/([^/?]*)\/?([^?]*)\??(.*)$/.exec(location.hash) || [];
  return { page, rest: unescaped(rest), parts: rest.split("/").filter(Boolean).map(unescaped), query };
};

function useRoute() {
  const [at, setAt] = useState(route);
  useEffect(() => {
    const moved = () => setAt(route());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return at;
}

const go = (hash) => { location.hash = hash; };

/** Signs in first, then shows everything else. `landed`: a service has just sent the browser back. */
function App({ landed }) {
  useRoute();
  const at = route();  // A sign-in that ends puts the page back into the address, without an event.
  const [state, setState] = useState({ loading: true });
  const begin = useCallback(async () => {
    try {
      const access = await discover();
      await (access.issuer ? completeSignIn(access) : null);
      const who = whoIs(access);
      authorize(tokenOf(access), () => { forgetUser(); setState({ access, ended: S.sign.ended }); }, access.stream_url);
      // Whoever consented at a service goes on at once: signing in needs no click if the provider knows them.
      if (!who && landed && access.issuer && access.client_id && consentHere()?.code) { await signIn(access); return; }
      setState({ access, who, me: idOf(access), scopes: scopesOf(access), asks: isInGroups(access) });
    } catch (error) {
      setState((old) => ({ ...old, loading: false, error }));
    }
  }, []);
  useEffect(() => { begin(); }, []);
  // Without a consent there is nothing to settle, for nobody.
  if (at.page === "connected" && (state.who || !consentHere()?.code)) return html`<${Connected} />`;
  if (state.who) {
    const leave = () => {
      const { access } = state;
      signOut(access).then((goesOn) => goesOn && setState({ access, ended: S.sign.goesOn }));
      go("#/new");
      setState({ access });
    };
    return html`<${Shell} key=${state.who} who=${state.who} me=${state.me} scopes=${state.scopes} asks=${state.asks} here=${!state.access.issuer} leave=${leave} />`;
  }
  if (state.loading && !state.error) return html`<${Main} class="sign"><h1 class="hidden">${S.product}</h1><${Loading} /></${Main}>`;
  return html`<${SignIn} state=${state} begin=${begin} />`;
}

function SignIn({ state, begin }) {
  const { access, ended } = state;
  const action = useAction();
  const [name, setName] = useState("");
  const [groups, setGroups] = useState("");
  const [scopes, setScopes] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (access.issuer) { action.run(() => signIn(access)); return; }
    const more = [["groups", groups], ["scopes", scopes]].filter(([, value]) => value.trim());
    signInLocally([name.trim(), ...more.map(([key, value]) => `${key}=${value.replace(/\s+/g, "")}`)].join(";"));
    begin();
  };
  return html`<${Main} class="sign"><div class="sign-box">
    <p class="brand"><${Mark} /> ${S.product}</p><h1>${S.sign.title}</h1><p class="quiet">${consentHere()?.code ? S.connected.signIn : route().page === "inbox" && route().parts.length ? S.inbox.signIn : S.sign.lead}</p>
    ${ended && html`<p role="status">${ended}</p>`}
    <${Trouble} error=${state.error || action.error} retry=${state.error && begin} />
    ${access && html`<form onSubmit=${submit}>
      ${access.issuer
        ? access.client_id ? html`<button class="primary wide" type="submit" disabled=${action.busy}>${S.sign.provider}</button>` : html`<p class="trouble">${S.sign.noClient}</p>`
        : html`<div class="field"><label for="name">${S.sign.name}</label><input id="name" required pattern="[^;]*\\S[^;]*" maxlength="100" autocomplete="username" value=${name} onInput=${(e) => setName(e.currentTarget.value)} /></div>
          <details><summary class="small">${S.sign.more}</summary>
            <div class="field"><label for="groups">${S.sign.groups}</label><input id="groups" value=${groups} onInput=${(e) => setGroups(e.currentTarget.value)} /></div>
            <div class="field"><label for="scopes">${S.sign.scopes}</label><input id="scopes" value=${scopes} onInput=${(e) => setScopes(e.currentTarget.value)} /></div></details>
          <button class="primary wide" type="submit">${S.sign.enter}</button>
          <p class="quiet small">${S.sign.local}</p>`}
    </form>`}
  </div></${Main}>`;
}

const PAGE = 50;
const LOOK_AGAIN_MS = 15000;

/** The newest threads, as many as are shown. Those that `more` added stay when the list is read again. */
function useThreads() {
  const [state, setState] = useState({ items: [], cursor: null, loading: true });
  const shown = useRef(PAGE), newest = useRef(0);
  const load = useCallback(async () => {
    const mine = newest.current += 1;
    const found = { items: [], cursor: null };
    do {
      const from = found.cursor ? `&cursor=${id(found.cursor)}` : "";
      const page = await get(`/threads?limit=${Math.min(100, shown.current - found.items.length)}${from}`);
      found.items.push(...page.items);
      found.cursor = page.next_cursor;
    } while (found.cursor && found.items.length < shown.current);
    if (mine === newest.current) setState(found);
  }, []);
  const reload = useCallback(() => load().catch((error) => setState((old) => ({ ...old, error, loading: false }))), []);
  const older = useAction();
  const more = () => older.run(async () => {
    shown.current += PAGE;
    try {
      await load();
    } catch (error) {
      shown.current -= PAGE;
      throw error;
    }
  });
  return { ...state, reload, more, older };
}

/** The menu of a narrow window. It takes the focus when it opens, and gives it back. */
function useMenu() {
  const [menu, setMenu] = useState({ open: false });
  const close = useCallback((next) => setMenu((old) => (old.open ? { open: false, next } : old)), []);
  useEffect(() => {
    const place = menu.open ? ".side .only-narrow" : menu.next;
    if (place) document.querySelector(place)?.focus();
  }, [menu]);
  useEffect(() => {
    const wide = matchMedia("(min-width: 761px)");
    const grown = () => close("#main");
    const key = (event) => { if (event.key === "Escape") close(".top button"); };
    wide.addEventListener("change", grown);
    addEventListener("keydown", key);
    return () => { wide.removeEventListener("change", grown); removeEventListener("keydown", key); };
  }, []);
  return { open: menu.open, close, toggle: () => (menu.open ? close(".top button") : setMenu({ open: true })) };
}

/** The user's scopes. `asks`: a group may have made them an operator, which only the API can tell. Whether they may read
 *  as well, it says when they try. */
function useScopes(known, asks) {
  const [scopes, setScopes] = useState(known);
  useEffect(() => {
    if (asks && !known.has("operate")) get("/operate/runs?limit=1").then(() => setScopes(new Set([...known, "operate", "read-content"])), () => {});
  }, []);
  return scopes;
}

function Shell({ who, me, scopes: known, asks, here, leave }) {
  const at = useRoute();
  const scopes = useScopes(known, asks);
  const threads = useThreads();
  const inbox = useInbox(who, me);
  const undecided = inbox.items.filter((item) => !hasVoted(item, me)).length;
  const [agents, setAgents] = useState(null);
  const [error, setError] = useState(null);
  const menu = useMenu();
  const [agent, setAgent] = useState(null);
  const [chosen, setChosen] = useState(NOTHING_CHOSEN);
  const look = useCallback(() => all("/agents").then((found) => { setAgents(found); setError(null); }, setError), []);
  const changed = useCallback(() => { threads.reload(); inbox.reload(); }, []);
  useEffect(() => { threads.reload(); }, []);
  // A list of agents to choose from shows one that was just saved.
  useEffect(() => {
    const chooses = at.page === "new" || at.page === "memory";
    if (chooses || !agents) look();
    if (!chooses) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && look(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [at.page]);
  useEffect(() => {
    document.title = `${undecided ? `(${undecided}) ` : ""}${S.product}`;
  }, [undecided]);
  useEffect(() => { menu.close("#main"); }, [at]);
  // Titles are made after the first answer, a moment later.
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && threads.reload(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  // The rest of this address is a filter, and no other page.
  const place = at.page === "evals" ? at.page : `${at.page}/${at.rest}`;
  const page = () => {
    if (error && !agents) return html`<${Main} class="page"><${Trouble} error=${error} retry=${() => { setError(null); look(); }} /></${Main}>`;
    if (at.page === "evals") return html`<${Evals} chosen=${chosen} choose=${setChosen} rest=${at.rest} />`;
    if (at.page === "inbox" && at.parts.length === 2) return html`<${AskedCall} key=${at.rest} runId=${at.parts[0]} callId=${at.parts[1]} me=${me} more=${undecided} onDecided=${changed} />`;
    if (at.page === "inbox") return html`<${Inbox} inbox=${inbox} me=${me} query=${at.query} />`;
    if (at.page === "operations" && here && !scopes.has("operate")) return html`<${Main} class="page"><h1>${S.operations.title}</h1><${OnlyOperators} /></${Main}>`;
    if (at.page === "operations" && at.rest) return html`<${OperatedRun} key=${at.rest} runId=${at.rest} mayRead=${scopes.has("read-content")} />`;
    if (at.page === "operations") return html`<${Operations} query=${at.query} agents=${agents || []} />`;
    if (at.page === "audit") return html`<${Audit} query=${at.query} here=${here} scopes=${scopes} />`;
    if (at.page === "usage") return html`<${Usage} />`;
    if (at.page === "connections") return html`<${Connections} />`;
    if (!agents) return html`<${Main} class="page"><${Loading} /></${Main}>`;
    if (at.page === "memory") return html`<${Memory} agents=${agents} />`;
    if (at.page === "t" && at.rest) return html`<${Chat} key=${at.rest} threadId=${at.rest} listed=${threads.items.find((each) => each.id === at.rest)} changed=${changed} me=${me} />`;
    return html`<${Start} agents=${agents} chosen=${agent} choose=${setAgent} onThread=${(thread, here) => { changed(); if (here) go(`#/t/${id(thread.id)}`); }} />`;
  };
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>${S.skip}</a>
    <div class=${`shell${menu.open ? " open" : ""}`}>
      <header class="top"><${IconButton} icon="menu" label=${S.nav.open} aria-expanded=${menu.open ? "true" : "false"} onClick=${menu.toggle} /><span class="brand"><${Mark} /> ${S.product}</span>
        ${undecided > 0 && html`<a class="badge" href="#/inbox" aria-label=${`${S.nav.inbox}: ${undecided}`}>${undecided}</a>`}</header>
      <${Sidebar} who=${who} here=${here} scopes=${scopes} leave=${leave} at=${at} threads=${threads} undecided=${undecided} close=${menu.close} />
      ${menu.open && html`<div class="veil" onClick=${() => menu.close(".top button")}></div>`}
      <div class="pane" inert=${menu.open}><${Guard} key=${place}>${page()}</${Guard}></div>
      <${Arrivals} inbox=${inbox} threadId=${at.page === "t" ? at.rest : null} />
    </div>`;
}

/** The places of the console. `scope`: only for those whose token has it; `holds`: the pages of the place. */
const PLACES = [
  { page: "new", icon: "talk", label: S.nav.conversations, holds: ["new", "t"] },
  { page: "inbox", icon: "inbox", label: S.nav.inbox, holds: ["inbox"] },
  { page: "operations", icon: "gauge", label: S.nav.operations, holds: ["operations"], scope: "operate" },
  { page: "audit", icon: "clock", label: S.nav.audit, holds: ["audit"], scope: "audit" },
];

function Sidebar({ who, here, scopes, leave, at, threads, undecided, close }) {
  const docs = document.querySelector("link[rel=help]");
  const link = (page, icon, text) => html`<a href=${`#/${page}`} aria-current=${at.page === page ? "page" : undefined}><${Icon} name=${icon} /> ${text}</a>`;
  return html`<nav class="side" aria-label=${S.nav.label} onClick=${(e) => { if (e.target.closest("a")?.hash === location.hash) close("#main"); }}>
    <p class="brand"><${Mark} /> ${S.product}<${IconButton} icon="close" label=${S.nav.close} class="icon-button only-narrow" onClick=${() => close(".top button")} /></p>
    <div class="links places">${PLACES.filter(({ scope }) => !scope || scopes.has(scope)).map(({ page, icon, label, holds }) => html`<a key=${page} href=${`#/${page}`} aria-current=${holds.includes(at.page) ? "true" : undefined}><${Icon} name=${icon} /> ${label}${page === "inbox" && undecided > 0 && html`<span class="badge">${undecided}</span>`}</a>`)}</div>
    <div class="links">${link("new", "plus", S.nav.create)}${link("memory", "memory", S.nav.memory)}${link("connections", "plug", S.nav.connections)}${link("usage", "chart", S.nav.usage)}${here && link("evals", "versus", S.nav.evals)}</div>
    <${Threads} at=${at} threads=${threads} />
    <div class="me small"><span title=${who}>${who.split(";")[0]}</span><button type="button" class="plain" onClick=${leave}>${S.sign.out}</button>
      ${docs && html`<a href=${docs.href} target="_blank" rel="noopener">${S.nav.docs}</a>`}</div>
  </nav>`;
}

/** Threads from which a list can be searched. */
const MANY_THREADS = 8;

function Threads({ at, threads }) {
  const [typed, setTyped] = useState("");
  const words = typed.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = threads.items.filter((thread) => words.every((word) => nameOfThread(thread).toLowerCase().includes(word)));
  const days = [...new Set(found.map((thread) => threadDay(thread.updated_at)))];
  return html`<h2 class="label">${S.nav.threads}</h2>
    ${(threads.items.length >= MANY_THREADS || typed) && html`<input type="search" class="search" dir="auto" aria-label=${S.nav.search} placeholder=${S.nav.search} value=${typed} onInput=${(e) => setTyped(e.currentTarget.value)} />`}
    <${Trouble} error=${threads.error} retry=${threads.reload} />
    <div class="list">${days.map((day) => html`<section key=${day} aria-label=${day}><h3 class="label">${day}</h3>
      <ul class="threads">${found.filter((thread) => threadDay(thread.updated_at) === day).map((thread) => html`<${ThreadLink} key=${thread.id} thread=${thread} current=${at.page === "t" && at.rest === thread.id} reload=${threads.reload} />`)}</ul></section>`)}
    ${!threads.loading && found.length === 0 && html`<p class="quiet small">${words.length ? S.nav.noMatch : S.nav.none}</p>`}
    <${Trouble} error=${threads.older.error} />
    ${threads.cursor && html`<button type="button" class="plain" onClick=${threads.more}>${S.nav.more}</button>`}</div>`;
}

const nameOfThread = (thread) => thread.title || S.nav.fallback(thread.agent, new Date(thread.created_at));

function ThreadLink({ thread, current, reload }) {
  const [draft, setDraft] = useState(null);
  const action = useAction();
  const box = useRef(null);
  useEffect(() => { if (draft !== null) box.current?.focus(); }, [draft !== null]);
  const title = nameOfThread(thread);
  const state = thread.active_run?.status;
  const save = (event) => {
    event.preventDefault();
    action.run(async () => {
      await patch(`/threads/${id(thread.id)}`, { title: draft.trim() || null });
      setDraft(null);
      await reload();
    });
  };
  const erase = () => confirm(S.nav.confirm(title)) && action.run(async () => {
    await remove(`/threads/${id(thread.id)}`);
    if (current) go("#/new");
    await reload();
  });
  if (draft !== null) {
    return html`<li><form onSubmit=${save}><input ref=${box} aria-label=${S.nav.newTitle} maxlength="500" value=${draft} onInput=${(e) => setDraft(e.currentTarget.value)}
      onKeyDown=${(e) => e.key === "Escape" && setDraft(null)} onBlur=${() => setDraft(null)} /></form></li>`;
  }
  return html`<li class=${current ? "current" : ""}><a href=${`#/t/${id(thread.id)}`} aria-current=${current ? "page" : undefined}>
      ${state && html`<span class=${`dot ${state}`} role="img" aria-label=${state === "suspended" ? S.nav.waiting : S.nav.running}></span>`}
      <span class="thread-title" dir="auto">${title}</span></a>
    <span class="thread-actions"><${IconButton} icon="pen" label=${`${S.nav.rename}: ${title}`} onClick=${() => setDraft(thread.title || "")} />
      <${IconButton} icon="trash" label=${`${S.nav.remove}: ${title}`} disabled=${action.busy} onClick=${erase} /></span>
    ${action.error && html`<${Trouble} error=${action.error} />`}</li>`;
}

const landed = takeConsent();
guardDrops();
paint(html`<${Guard}><${App} landed=${landed} /></${Guard}>`, document.getElementById("app"));
