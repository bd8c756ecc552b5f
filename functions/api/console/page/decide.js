import { get, id, post } from "./api.js";
import { Decision } from "./decision.js";
import { Guard, Loading, Main, Mark, Time, Trouble, html, paint, useEffect, useLoaded } from "./dom.js";
import { S } from "./strings.js";

/** The page of this link. Its address is the link: the page asks for no other. */
const atLink = () => ({ base: location.href.replace(/[#?].*$/, ""), headers: { Accept: "application/json" } });

/** The call of a link as the console shows calls that wait. */
function pendingOf(page) {
  const { by, quorum, reason_required, votes } = page;
  return { ...page, approval: by.length ? { by, quorum, reason_required, given: votes, requester: true } : null };
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function Frame({ person, children }) {
  return html`<${Main} class="page link"><p class="brand"><${Mark} /> ${S.product}</p>
    ${person && html`<p class="whose small">${S.link.whose(person)}</p>`}${children}</${Main}>`;
}

function LinkedCall() {
  const { value: page, error, loading, reload, set } = useLoaded(() => get("", atLink()), []);
  useEffect(() => {
    // Of two tabs, and of two persons, one decides: whoever comes back sees what is true now.
    const look = () => document.visibilityState === "visible" && reload();
    document.addEventListener("visibilitychange", look);
    addEventListener("online", reload);
    return () => { document.removeEventListener("visibilitychange", look); removeEventListener("online", reload); };
  }, []);
  const decide = async (decision, body) => {
    try {
      set(await post("", { decision, ...body }, atLink()));
    } catch (problem) {
      if (problem.status !== 409 && problem.status !== 404) throw problem;
      reload();
    }
  };
  if (error?.status === 404) return html`<${Frame}><div class="card"><h1>${S.link.none}</h1><p>${S.link.noneLead}</p></div></${Frame}>`;
  if (!page) return html`<${Frame}>${loading ? html`<${Loading} />` : html`<${Trouble} error=${error} retry=${reload} />`}</${Frame}>`;
  const inConsole = `../#/inbox/${id(page.run_id)}/${id(page.tool_call_id)}`;
  if (page.sign_in) {
    return html`<${Frame} person=${page.person}><div class="card"><h1>${S.link.signIn}</h1><p>${S.link.signInLead}</p>
      <div class="actions"><a class="button" href=${inConsole}>${S.link.console}</a></div></div></${Frame}>`;
  }
  return html`<${Frame} person=${page.person}>
    <${Trouble} error=${error} retry=${reload} />
    <div class="card"><p class="small quiet card-head"><span>${page.agent}</span><code>${page.tool_name}</code></p>
    ${page.closed ? html`<${Conclusion} page=${page} />`
      : html`<${Decision} key=${page.attempt} pending=${pendingOf(page)} owner=${page.requester} me=${page.person} heading="h1" decide=${decide} />`}
    </div>
    <p class="small"><a href=${inConsole}>${S.link.console}</a></p>
  </${Frame}>`;
}

/** What was decided, or why nothing is to be decided any more. */
function Conclusion({ page }) {
  const { decided, closed } = page;
  const isDeclined = decided?.decision === "denied" && page.kind === "input";
  const mine = decided?.mine && (isDeclined ? S.link.declined : S.link.mine[decided.decision]);
  return html`<section class="decision"><h1 class="title">${page.summary || page.tool_name}</h1>
    <p class="outcome" role="status">${mine || sentence(closed)}</p>
    ${decided && html`<p class="quiet small facts"><span><${Time} at=${decided.at} exact /></span>${decided.reason && html`<span>${S.decide.reason}: ${decided.reason}</span>`}</p>`}</section>`;
}

paint(html`<${Guard}><${LinkedCall} /></${Guard}>`, document.getElementById("app"));
