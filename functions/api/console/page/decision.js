import { decided, get, id, post } from "./api.js";
import { Time, Trouble, decidable, html, useAction, useLayoutEffect, useRef, useState } from "./dom.js";
import { voterOf } from "./events.js";
import { Fields, schemaFor, useForm } from "./forms.js";
import { ownOf } from "./names.js";
import { isSame, toJson } from "./numbers.js";
import { Scopes, consentPage } from "./scopes.js";
import { show } from "./seen.js";
import { S } from "./strings.js";

/** One line of arguments. */
export function brief(args) {
  const text = typeof args !== "object" ? String(args ?? "") : Object.entries(args || {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : toJson(value)}`).join(", ");
  return text.length > 90 ? `${text.slice(0, 90)} …` : text;
}

/** Keeps the focus in a call while a decision changes its form, and moves it to the next card afterwards. */
function useFocus(mode) {
  const section = useRef(null), before = useRef(mode);
  useLayoutEffect(() => {
    const left = before.current;
    before.current = mode;
    const at = document.activeElement;
    // A vote from another tab changes the form, too: whoever writes a message meanwhile goes on writing.
    if (left === mode || (at !== document.body && !section.current.contains(at))) return;
    const choice = section.current.querySelector(".choice");
    (choice.querySelector(`[data-mode=${left}]`) || choice.querySelector("input, textarea, select, button"))?.focus();
  }, [mode]);
  useLayoutEffect(() => {
    const place = section.current;
    return () => { if (place.contains(document.activeElement)) placeAfter(place)?.focus(); };
  }, []);
  return section;
}

function placeAfter(section) {
  const call = section.closest(".call"), card = section.closest(".card");
  if (call) return call.querySelector("summary");
  const others = [...document.querySelectorAll(".card .decision")].filter((each) => each !== section);
  const isAfter = (each) => card?.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING;
  return (card && (others.find(isAfter) || others.at(-1))) || document.getElementById("main");
}

/** Returns whether this user has approved a call that takes more approvals. The vote may still be changed. */
export const hasVoted = (item, me) => (item.approval?.given || []).some((vote) => voterOf(vote) === me);

/** The arguments that a vote approves, if they are not those of the request. */
function ownArgs(vote, pending) {
  const args = vote.exact_args ?? vote.args;
  return args && !isSame(args, pending.args) ? args : null;
}

/** What a vote's own arguments change of those of the request, in one line. */
const changesIn = (args, asked) => brief(Object.fromEntries(Object.entries(args).filter(([name, value]) => !isSame(value, ownOf(asked, name)))));

/** How many persons approve the arguments that are shown, and how many at most the same others: only these count together. */
export function countsOf(pending) {
  const wanted = (pending.approval?.given || []).map((vote) => ownArgs(vote, pending));
  const others = wanted.filter((args) => args);
  return [wanted.length - others.length, Math.max(0, ...others.map((args) => others.filter((each) => isSame(each, args)).length))];
}

/** Who has approved what, for those who decide next. `onTake(args)`: the same is to be approved. */
export function Votes({ pending, me, onTake }) {
  const given = pending.approval?.given || [];
  if (!given.length) return null;
  return html`<ul class="quiet small votes">${given.map((vote) => {
    const args = ownArgs(vote, pending);
    return html`<li key=${voterOf(vote)}>${S.decide.vote(voterOf(vote), args && changesIn(args, pending.args), vote.reason)}
      ${args && onTake && voterOf(vote) !== me && html` <button type="button" class="plain" onClick=${() => onTake(args)}>${S.decide.take}</button>`}</li>`;
  })}</ul>`;
}

/** The request with the votes that are newest: its own, or those of the answer to a vote of this page. */
function withVotes(pending, answer) {
  const newest = (given) => (given || []).map((vote) => vote.at).sort().at(-1) || "";
  if (!pending.approval || newest(answer?.given) <= newest(pending.approval.given)) return pending;
  return { ...pending, approval: { ...pending.approval, given: answer.given } };
}

/** The schema of a waiting call's arguments, which the events of a run do not have. */
async function argsSchema({ run_id: run, tool_call_id: call }) {
  const { pending } = await get(`/runs/${id(run)}`);
  return pending.find((each) => each.tool_call_id === call)?.args_schema ?? null;
}

const pathOf = (pending) => `/runs/${id(pending.run_id)}/tool-calls/${id(pending.tool_call_id)}`;

/** A call that waits, with all that is needed to decide it. `pending` has `run_id`; `mine`: it is of the caller's own
 *  run, which the rule of the call may leave to others; `heading`: the tag of its title, by where it stands;
 *  `decide(verdict, body)`: sends the decision in another way than by the API, where nothing else is possible. */
export function Decision({ pending: request, onDecided, owner, mine, me, heading = "h3", decide }) {
  const [mode, setMode] = useState("ask");
  const [draft, setDraft] = useState(null);
  const [schema, setSchema] = useState(null);
  const [answer, setAnswer] = useState(null);
  const [extending, setExtending] = useState(false);
  const action = useAction();
  const pending = withVotes(request, answer);
  const voted = answer?.settled === false || (me && hasVoted(pending, me));
  const now = mode === "ask" && voted ? "voted" : mode;
  const section = useFocus(now);
  const prefix = `call-${pending.run_id}-${pending.tool_call_id}`.replace(/[^\w-]/g, "_");
  const name = pending.agent_path?.length > 1 ? `${pending.agent_path.slice(1).join(" › ")} › ${pending.tool_name}` : pending.tool_name;
  const named = pending.summary && (heading === "h3" || pending.agent_path?.length > 1);  // In a thread, the call is above.
  const title = pending.summary || (pending.kind === "connect" ? S.decide.connects(pending.agent_path?.at(-1) || pending.agent || name, pending.payload?.connection)
    : pending.kind === "input" ? S.decide.form(name) : S.decide.asks(name));
  /** `form`: shows at its fields what the server refuses. */
  const send = async (verdict, body, form) => {
    const refusal = await action.run(async () => {
      section.current.focus();  // The pressed button is disabled now, and a disabled button loses the focus.
      let found;
      try {
        if (decide) { await decide(verdict, body); return null; }
        found = await post(`${pathOf(pending)}/${verdict}`, { ...body, attempt: pending.attempt });
      } catch (problem) {
        if (form?.takes(problem.body?.errors)) return problem.body.errors;
        throw problem;
      }
      if (found?.settled === false) { setAnswer(found); setMode("ask"); }
      decided();
      onDecided?.();
      return null;
    });
    if (refusal) form.refuse(refusal);  // Now that its fields can take the focus again.
  };
  const edit = async (args) => {
    if (pending.args_schema === undefined) {
      const found = await action.run(async () => { section.current.focus(); return { schema: await argsSchema(pending) }; });
      if (!found) return;
      setSchema(found.schema);
    }
    // Not before the action is over: the first field takes the focus, and a disabled one takes none.
    setDraft(args);
    setMode("edit");
  };
  const close = () => { setExtending(false); requestAnimationFrame(() => section.current?.querySelector("[data-more]")?.focus()); };
  const others = pending.may_decide === false || (mine && pending.approval && !pending.approval.requester);
  const common = { pending, prefix, send, busy: action.busy, setMode, edit };
  const key = (event) => {
    if (event.key !== "Escape" || action.busy || !["edit", "deny", "again"].includes(mode)) return;
    action.clear();
    setMode("ask");
  };
  return html`<section class="decision" role="group" ref=${section} tabindex="-1" onKeyDown=${key} aria-labelledby=${`${prefix}-title`}>
    <${heading} class="title" dir="auto" id=${`${prefix}-title`}>${show(title)}</${heading}>
    ${pending.asked_again && html`<p class="quiet">${S.decide.again}</p>`}
    ${pending.taken_back_at && html`<p>${S.decide.takenBack}</p>`}
    <${Circumstances} pending=${pending} owner=${owner} name=${named && name} onMore=${!others && !decide && !extending && (() => setExtending(true))} />
    ${extending && html`<${MoreTime} pending=${pending} prefix=${prefix} close=${close} onDecided=${onDecided} />`}
    <${Denials} denials=${pending.denied_before} />
    <${Votes} pending=${pending} me=${me} onTake=${!others && !action.busy && edit} />
    <div class="choice">
    ${pending.kind === "connect" ? html`<${ConnectForm} mine=${mine} ...${common} />`
      : others ? html`<${Facts} values=${pending.kind === "input" ? pending.payload : pending.args} /><p>${S.decide.onlyOthers(pending.approval.by)}</p>`
      : pending.kind === "input" ? html`<${InputForm} declining=${now === "deny"} ...${common} />`
        : now === "voted" ? html`<${Voted} ...${common} />`
          : now === "edit" ? html`<${EditForm} key=${toJson(draft)} draft=${draft} schema=${pending.args_schema ?? schema} ...${common} />`
            : now === "deny" ? html`<${DenyForm} ...${common} />`
              : html`<${Ask} ...${common} />`}
    </div>
    <${Trouble} error=${action.error} />
  </section>`;
}

export function Circumstances({ pending, owner, name, onMore }) {
  const rule = pending.approval;
  return html`<p class="quiet small facts">
    ${pending.risk && html`<span class=${`tag risk-${pending.risk}`}>${S.decide.risk[pending.risk] || pending.risk}</span>`}
    ${name && html`<code>${name}</code>`}
    ${owner && html`<span>${S.decide.owner} ${owner}</span>`}
    ${pending.requested_at && html`<span>${S.decide.asked} <${Time} at=${pending.requested_at} /></span>`}
    ${pending.expires_at && html`<span>${S.decide.expires} <${Time} at=${pending.expires_at} exact />${onMore && html` <button type="button" class="plain" data-more onClick=${onMore}>${S.decide.more}</button>`}</span>`}
    ${rule && html`<span>${S.decide.others(rule.quorum || 1, (rule.by || []).join(S.decide.or))}</span>`}
    ${rule?.quorum > 1 && html`<span>${S.decide.quorum(...countsOf(pending), rule.quorum)}</span>`}
    ${nextReminder(pending) && html`<span>${S.decide.reminder} <${Time} at=${nextReminder(pending)} exact /></span>`}
    ${escalation(pending) && html`<span>${S.decide.escalates(rule.escalate_to.join(S.decide.or))} <${Time} at=${escalation(pending)} exact /></span>`}
  </p>`;
}

const later = (pending, seconds) => new Date(Date.parse(pending.requested_at) + seconds * 1000).toISOString();

/** The time of the next reminder of a call, which come after 1, 2, 4, 8 ... times of the rule's. */
function nextReminder(pending) {
  const every = pending.approval?.remind_after_s, waited = (Date.now() - Date.parse(pending.requested_at)) / 1000;
  if (!every) return null;
  const at = later(pending, every * 2 ** Math.max(0, Math.floor(Math.log2(Math.max(waited, 1) / every)) + 1));
  return pending.expires_at && at >= pending.expires_at ? null : at;
}

/** The time from which other groups decide, too; null if there is none to come. */
function escalation(pending) {
  const { escalate_after_s: after, escalate_to: groups = [], by = [] } = pending.approval || {};
  return after && !groups.every((group) => by.includes(group)) ? later(pending, after) : null;
}

export const DAY_MS = 86_400_000;

/** A time as a field for dates and hours has it, in the person's own zone. */
function localOf(date) {
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Lets a call wait for longer: so many days more, or until a time. */
function MoreTime({ pending, prefix, close, onDecided }) {
  const [until, setUntil] = useState("");
  const action = useAction();
  const form = useRef(null);
  useLayoutEffect(() => { form.current.querySelector("button").focus(); }, []);
  const expiry = Date.parse(pending.expires_at);
  const extend = (date) => action.run(async () => {
    form.current.focus();
    await post(`${pathOf(pending)}/extend`, { attempt: pending.attempt, expires_at: date.toISOString() });
    decided();
    onDecided?.();
    close();
  });
  const submit = (event) => { event.preventDefault(); extend(new Date(until)); };
  const key = (event) => { if (event.key === "Escape") close(); };
  const more = (text, days) => html`<button type="button" class="chip" disabled=${action.busy} onClick=${() => extend(new Date(expiry + days * DAY_MS))}>${text}</button>`;
  return html`<form class="more" ref=${form} tabindex="-1" aria-label=${S.decide.more} onSubmit=${submit} onKeyDown=${key}>
    <div class="offers">${more(S.decide.moreDay, 1)}${more(S.decide.moreWeek, 7)}</div>
    <div class="until"><label for=${`${prefix}-until`}>${S.decide.until}</label>
      <input id=${`${prefix}-until`} type="datetime-local" required min=${localOf(new Date(expiry + 60_000))} value=${until} disabled=${action.busy} onInput=${(e) => setUntil(e.currentTarget.value)} />
      <button type="submit" disabled=${action.busy}>${S.decide.setUntil}</button>
      <button type="button" class="plain" disabled=${action.busy} onClick=${close}>${S.decide.back}</button></div>
    <${Trouble} error=${action.error} />
  </form>`;
}

/** Calls of the tool that persons denied earlier in this run, which whoever decides now should know. */
function Denials({ denials }) {
  if (!denials?.length) return null;
  return html`<div class="denials small"><p class="label">${S.decide.before}</p><ul>${denials.map((each, n) => html`<li key=${n}>
    <span>${brief(each.args)}</span> <span class="quiet">${denialOf(each)} <${Time} at=${each.at} /></span></li>`)}</ul></div>`;
}

const denialOf = ({ decided_by: by, on_behalf_of: person, reason }) =>
  `${S.decide.by(S.decide.decided.denied, person || by)}${reason ? `: ${reason}` : ""}`;

export function Facts({ values }) {
  const entries = values && typeof values === "object" && !Array.isArray(values) ? Object.entries(values) : [["", values]];
  if (!entries.length) return html`<p class="quiet small">${S.decide.noArgs}</p>`;
  return html`<dl class="values">${entries.map(([name, value]) => html`<div key=${name}><dt dir="auto">${show(name)}</dt><dd dir="auto">${
    Array.isArray(value) && value.every((each) => typeof each !== "object") ? value.map(decidable).join(", ") : decidable(value)}</dd></div>`)}</dl>`;
}

function Reason({ id: field, value, onValue, needed, disabled }) {
  return html`<div class="field"><label for=${field}>${S.decide.reason} <span class="quiet small">${needed ? S.decide.required : S.decide.optional}</span></label>
    <input id=${field} type="text" dir="auto" value=${value} required=${needed} disabled=${disabled} maxlength="10000" onInput=${(e) => onValue(e.currentTarget.value)} /></div>`;
}

const withReason = (body, reason) => (reason.trim() ? { ...body, reason: reason.trim() } : body);

function Ask({ pending, prefix, send, busy, setMode, edit }) {
  const [reason, setReason] = useState("");
  const needed = Boolean(pending.approval?.reason_required);
  const submit = (event) => { event.preventDefault(); send("approve", withReason({}, reason)); };
  return html`<form onSubmit=${submit}><${Facts} values=${pending.args} />
    ${needed && html`<${Reason} id=${`${prefix}-reason`} value=${reason} onValue=${setReason} needed disabled=${busy} />`}
    <div class="actions">
      <button type="submit" class="primary" disabled=${busy}>${S.decide.approve}</button>
      <button type="button" disabled=${busy} data-mode="edit" onClick=${() => edit(null)}>${S.decide.edit}</button>
      <button type="button" disabled=${busy} data-mode="deny" onClick=${() => setMode("deny")}>${S.decide.deny}</button>
    </div></form>`;
}

/** After the caller's vote: more are needed, and it may be changed. */
function Voted({ pending, busy, setMode }) {
  return html`<${Facts} values=${pending.args} /><p role="status">${S.decide.voted}</p>
    <div class="actions"><button type="button" disabled=${busy} data-mode="again" onClick=${() => setMode("again")}>${S.decide.change}</button></div>`;
}

/** The arguments as fields, each with what was asked for once it differs. `draft`: what they begin with; `schema`: the
 *  tool's own, null if nobody knows it any more. */
function EditForm({ pending, schema, draft, prefix, send, busy, setMode }) {
  const asked = pending.args || {};
  const start = { ...asked, ...draft };
  const form = useForm(schemaFor(start, schema), start, asked);
  const [reason, setReason] = useState("");
  const isEdited = form.fields.some(({ name }) => form.edited(name));
  const submit = (event) => {
    event.preventDefault();
    const found = form.values();
    if (found) send("approve", withReason(isEdited ? { args: found.value } : {}, reason), form);
  };
  return html`<form onSubmit=${submit}><${Fields} form=${form} prefix=${`${prefix}-edit`} disabled=${busy} />
    <${Reason} id=${`${prefix}-reason`} value=${reason} onValue=${setReason} needed=${pending.approval?.reason_required} disabled=${busy} />
    <div class="actions"><button type="submit" class="primary" disabled=${busy}>${isEdited ? S.decide.approveEdited : S.decide.approve}</button>
      <button type="button" disabled=${busy} onClick=${() => setMode("ask")}>${S.decide.back}</button></div></form>`;
}

function DenyForm({ pending, prefix, send, busy, setMode }) {
  const [reason, setReason] = useState("");
  const submit = (event) => { event.preventDefault(); send("deny", withReason({}, reason)); };
  const isInput = pending.kind === "input";
  return html`<form onSubmit=${submit}>${isInput ? html`<${Question} payload=${pending.payload} />` : html`<${Facts} values=${pending.args} />`}
    <${Reason} id=${`${prefix}-reason`} value=${reason} onValue=${setReason} needed=${pending.approval?.reason_required} disabled=${busy} />
    <div class="actions"><button type="submit" class="danger" disabled=${busy}>${isInput ? S.decide.confirmDecline : S.decide.confirmDeny}</button>
      <button type="button" disabled=${busy} onClick=${() => setMode("ask")}>${S.decide.back}</button></div></form>`;
}

/** A call that waits for its user's account at another service. It goes on by itself when the user has consented. */
function ConnectForm({ pending, mine, send, busy }) {
  const action = useAction();
  const connect = () => {
    const tab = open("", "_blank");  // Now: once the page is known, browsers open no tab any more.
    if (tab) tab.opener = null;
    action.run(async () => {
      try {
        const page = await consentPage(pending.payload?.connection);
        if (tab) tab.location.replace(page); else location.href = page;
      } catch (problem) {
        tab?.close();
        throw problem;
      }
    });
  };
  if (!mine) return html`<p>${S.decide.onlyOwner}</p>`;
  return html`<${Scopes} label=${S.connections.scopes} scopes=${pending.payload?.scopes} />
    <p class="quiet small">${S.decide.connectLead}</p>
    <div class="actions"><button type="button" class="primary" disabled=${busy || action.busy} onClick=${connect}>${S.decide.connect}</button>
      <button type="button" disabled=${busy} onClick=${() => send("deny", {})}>${S.decide.notNow}</button></div><${Trouble} error=${action.error} />`;
}

const Question = ({ payload }) => (payload === null || payload === undefined ? null : html`<${Facts} values=${payload} />`);

/** The answer as fields. What is in them stays while a person thinks about declining. */
function InputForm({ declining, ...common }) {
  const { pending, prefix, send, busy, setMode } = common;
  const form = useForm(pending.resume_schema || {});
  const submit = (event) => {
    event.preventDefault();
    const found = form.values();
    if (found) send("resume", { data: found.value }, form);
  };
  if (declining) return html`<${DenyForm} ...${common} />`;
  return html`<form onSubmit=${submit}>
    <${Question} payload=${pending.payload} />
    ${pending.resume_schema?.description && html`<p class="quiet small">${pending.resume_schema.description}</p>`}
    <${Fields} form=${form} prefix=${prefix} payload=${pending.payload} disabled=${busy} />
    <div class="actions"><button type="submit" class="primary" disabled=${busy}>${S.decide.send}</button>
      <button type="button" disabled=${busy} data-mode="deny" onClick=${() => setMode("deny")}>${S.decide.decline}</button></div></form>`;
}
