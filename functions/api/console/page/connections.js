import { decided, get, id, post, remove } from "./api.js";
import { Empty, Loading, Main, Mark, Time, Trouble, html, useAction, useEffect, useLoaded, useState } from "./dom.js";
import { Scopes, consentPage, proofOf } from "./scopes.js";
import { consentHere, dropConsent } from "./session.js";
import { S } from "./strings.js";

/** The page to which services send the browser back. It asks the API to settle what they sent, once; a person first, if
 *  this browser did not begin it: somebody else could have sent them here. */
export function Connected() {
  const [consent] = useState(consentHere);
  const [begun] = useState(() => proofOf(consent?.state));
  const [sure, setSure] = useState(Boolean(begun));
  const [done, setDone] = useState(null);
  const action = useAction();
  const settle = () => action.run(async () => {
    try {
      setDone(await post("/me/consents", { ...consent, proof: begun?.[1] || undefined }));
      dropConsent();
      decided();
    } catch (problem) {
      if (!isPassing(problem)) dropConsent();
      throw problem;
    }
  });
  useEffect(() => { if (!consent?.code) dropConsent(); else if (sure) settle(); }, [sure]);
  if (done) {
    return html`<${Box} title=${S.connected.title(done.name)}><p>${S.connected.done}</p>
      ${done.status === "more" && html`<p>${S.connected.less}</p>`}</${Box}>`;
  }
  if (!consent) return html`<${Box} title=${S.connected.idle}><p>${S.connected.look}</p></${Box}>`;
  if (!consent.code) {
    const said = [consent.error, consent.description].filter(Boolean).join(": ");
    return html`<${Box} title=${S.connected.none}><p>${consent.error === "access_denied" ? S.connected.declined : S.connected.failed}</p>
      ${said && html`<p class="quiet small said">${S.connected.said} ${said}</p>`}</${Box}>`;
  }
  if (!sure) {
    return html`<${Box} title=${S.connected.ask(consent.connection)}><p>${S.connected.foreign}</p>
      <div class="actions"><button type="button" class="primary" onClick=${() => setSure(true)}>${S.connected.go}</button></div></${Box}>`;
  }
  if (action.error) {
    const passing = isPassing(action.error);
    const why = { 404: S.connected.over, 409: S.connected.refused }[action.error.status];
    return html`<${Box} title=${S.connected.none}>${why ? html`<p>${why}</p><p class="quiet small said">${action.error.detail}</p>` : html`<${Trouble} error=${action.error} retry=${passing && settle} />`}</${Box}>`;
  }
  return html`<${Box} title=${S.connected.working}><p class="quiet">${S.connected.wait}</p></${Box}>`;
}

const isPassing = ({ status }) => status === 0 || status === 401 || status === 429 || status >= 500;

function Box({ title, children }) {
  useEffect(() => { document.title = `${title} – ${S.product}`; }, [title]);
  return html`<${Main} class="sign"><div class="sign-box"><p class="brand"><${Mark} /> ${S.product}</p>
    <div role="status"><h1>${title}</h1>${children}</div><p><a href="#/new">${S.connected.threads}</a> · <a href="#/connections">${S.connected.all}</a></p></div></${Main}>`;
}

/** The accounts with which agents work for the caller. */
export function Connections() {
  const found = useLoaded(() => get("/me/connections"), []);
  const items = found.value?.items || [];
  return html`<${Main} class="page"><h1>${S.connections.title}</h1><p class="quiet">${S.connections.lead}</p>
    <${Trouble} error=${found.error} retry=${found.reload} />
    ${found.loading && !found.value && html`<${Loading} />`}
    ${found.value && items.length === 0 && html`<${Empty} title=${S.connections.none}><p>${S.connections.noneLead}</p></${Empty}>`}
    ${items.map((item) => html`<${Connection} key=${item.name} item=${item} reload=${found.reload} />`)}
  </${Main}>`;
}

function Connection({ item, reload }) {
  const action = useAction();
  const used = item.agents.length > 0;
  const connect = () => action.run(async () => {
    location.href = await consentPage(item.name);
  });
  const disconnect = () => confirm(S.connections.confirm(item.name)) && action.run(async () => {
    await remove(`/me/connections/${id(item.name)}`);
    document.getElementById("main")?.focus();
    reload();
  });
  const title = `connection-${item.name}`;
  return html`<section class="card" aria-labelledby=${title}>
    <p class="small quiet card-head"><span>${used ? S.connections.agents(item.agents) : S.connections.unused}</span>${item.connected_at && html`<span>${S.connections.since} <${Time} at=${item.connected_at} /></span>`}</p>
    <h2 class="title" id=${title}>${item.name}</h2><p>${S.connections.status[item.status] || item.status}</p>
    <${Scopes} label=${S.connections.scopes} scopes=${item.scopes} />
    ${item.granted && html`<${Scopes} label=${S.connections.granted} scopes=${item.granted} />`}
    <div class="actions">
      ${used && item.status !== "connected" && html`<button type="button" class="primary" disabled=${action.busy} aria-describedby=${title} onClick=${connect}>${S.connections.connect[item.status] || S.connections.connect.missing}</button>`}
      ${item.status !== "missing" && html`<button type="button" disabled=${action.busy} aria-describedby=${title} onClick=${disconnect}>${S.connections.disconnect}</button>`}
    </div>
    <${Trouble} error=${action.error} />
  </section>`;
}
