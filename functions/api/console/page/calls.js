import { decided, id, post } from "./api.js";
import { Time, Trouble, html, shown, useAction, useLayoutEffect, useRef, useState } from "./dom.js";
import { voterOf } from "./events.js";
import { FileChip } from "./files.js";
import { Fields, schemaOf, useForm } from "./forms.js";
import { Markdown } from "./markdown.js";
import { isSame, toJson } from "./numbers.js";
import { S } from "./strings.js";

/** The contents of a run: text, reasoning, calls and what is nested in them. */
export function Blocks({ blocks, onDecided }) {
  return blocks.map((block, n) => html`<${Block} key=${block.id || n} block=${block} onDecided=${onDecided} />`);
}

function Block({ block, ...more }) {
  switch (block.kind) {
    case "text": return html`<${Markdown} text=${block.text} />`;
    case "reasoning": return html`<details class="reasoning"><summary>${block.draft ? S.chat.thinking : S.chat.thought}</summary><${Markdown} text=${block.text} /></details>`;
    case "call": return html`<${Call} call=${block} ...${more} />`;
    case "draft-call": return html`<div class="call"><div class="call-head"><span class="dot planned" /> <code>${block.name}</code><span class="quiet small">${S.call.planned}</span></div></div>`;
    case "agent": return html`<section class="nested" aria-label=${`${S.call.agent} ${block.name}`}><p class="quiet small">${block.name}</p><${Blocks} blocks=${block.blocks} ...${more} /></section>`;
    case "file": return html`<${FileChip} part=${block.part} />`;
    case "data": return html`<details class="reasoning"><summary>${block.name}</summary><pre tabindex="0"><code>${shown(block.data)}</code></pre></details>`;
    case "note": return html`<p class="quiet small note">${noteOf(block)}</p>`;
    default: return null;
  }
}

const noteOf = ({ note, from, to, steps, tools, by, at, n }) => ({
  restarted: S.chat.restarted, changed: S.chat.changed, handoff: S.chat.handoff(from, to), fallback: S.chat.fallback(from, to),
  loop: note === "loop" && S.chat.loop(steps, tools), extended: S.chat.extended(by, at), reminder: S.chat.reminder(n), escalated: note === "escalated" && S.chat.escalated(to),
})[note];

/** One line of arguments. */
function brief(args) {
  const text = Object.entries(args || {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : toJson(value)}`).join(", ");
  return text.length > 90 ? `${text.slice(0, 90)} …` : text;
}

function Call({ call, onDecided }) {
  const decision = call.decision;
  return html`<div class=${`call ${call.status}`}>
    <details>
      <summary class="call-head">
        <span class=${`dot ${call.status}`} aria-hidden="true"></span>
        <code>${call.name}</code> <span class="quiet small brief">${brief(call.args)}</span>
        <span class="state small">${S.call[call.status]}</span>
      </summary>
      <p class="label">${S.call.args}</p>
      <pre tabindex="0"><code>${shown(call.args)}</code></pre>
      ${call.data.length > 0 && html`<p class="label">${S.call.progress}</p><pre tabindex="0"><code>${call.data.map(shown).join("\n")}</code></pre>`}
      ${call.hasResult && html`<p class="label">${S.call.result}</p><pre tabindex="0"><code>${shown(call.result)}</code></pre>`}
    </details>
    ${call.hooks.map((each, n) => html`<p key=${n} class="quiet small note">${S.call.hook(each)}</p>`)}
    ${decision?.decision && html`<p class="quiet small note">${S.decide.by(S.decide.decided[decision.decision] || decision.decision, decision.decided_by || "")}${decision.args ? ` ${S.decide.changed(brief(decision.args))}` : ""}${decision.reason ? `: ${decision.reason}` : ""}</p>`}
    ${call.blocks.length > 0 && html`<section class="nested" aria-label=${`${S.call.agent} ${call.name}`}><${Blocks} blocks=${call.blocks} onDecided=${onDecided} /></section>`}
    ${call.pending && html`<${Decision} key=${`${call.id}-${call.pending.attempt}`} pending=${call.pending} mine onDecided=${onDecided} />`}
  </div>`;
}

/** Keeps the focus in a call while a decision changes its form, and moves it to the next card afterwards. */
function useFocus(mode) {
  const section = useRef(null), before = useRef(mode);
  useLayoutEffect(() => {
    const left = before.current;
    before.current = mode;
    if (left === mode) return;
    section.current.querySelector(mode === "ask" ? `[data-mode=${left}]` : "input, textarea, select, button")?.focus();
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
  const next = [card?.nextElementSibling, card?.previousElementSibling].find((each) => each?.matches(".card"));
  return next?.querySelector(".decision") || document.getElementById("main");
}

/** Returns whether this user has approved a call that takes more approvals. The vote may still be changed. */
export const hasVoted = (item, me) => (item.approval?.given || []).some((vote) => voterOf(vote) === me);

/** The arguments that a vote approves, if they are not those of the request. */
function ownArgs(vote, pending) {
  const args = vote.exact_args ?? vote.args;
  return args && !isSame(args, pending.args) ? args : null;
}

/** How many persons approve the same arguments: only they count together. */
export function agreeing(pending) {
  const wanted = (pending.approval?.given || []).map((vote) => ownArgs(vote, pending));
  return Math.max(0, ...wanted.map((args) => wanted.filter((each) => isSame(each, args)).length));
}

/** Who has approved what, for those who decide next. */
function Votes({ pending }) {
  const given = pending.approval?.given || [];
  if (!given.length) return null;
  return html`<ul class="quiet small votes">${given.map((vote) => html`<li key=${voterOf(vote)}>${
    S.decide.vote(voterOf(vote), ownArgs(vote, pending) && brief(ownArgs(vote, pending)), vote.reason)}</li>`)}</ul>`;
}

/** A call that waits, with all that is needed to decide it. `pending` has `run_id`; `mine`: it is of the caller's own
 *  run, which the rule of the call may leave to others. */
export function Decision({ pending, onDecided, owner, mine, me }) {
  const [mode, setMode] = useState("ask");
  const [voted, setVoted] = useState(false);
  const action = useAction();
  const name = pending.agent_path?.length > 1 ? `${pending.agent_path.slice(1).join(" › ")} › ${pending.tool_name}` : pending.tool_name;
  const section = useFocus(mode);
  const prefix = `call-${pending.run_id}-${pending.tool_call_id}`.replace(/[^\w-]/g, "_");
  const send = (verdict, body) => action.run(async () => {
    section.current.focus();  // The pressed button is disabled now, and a disabled button loses the focus.
    const path = `/runs/${id(pending.run_id)}/tool-calls/${id(pending.tool_call_id)}/${verdict}`;
    const answer = await post(path, { ...body, attempt: pending.attempt });
    if (answer?.settled === false) setVoted(true);
    decided();
    onDecided?.();
  });
  const common = { pending, prefix, send, busy: action.busy, setMode };
  return html`<section class="decision" ref=${section} tabindex="-1" aria-labelledby=${`${prefix}-title`}>
    <h3 id=${`${prefix}-title`}>${pending.kind === "input" ? S.decide.form(name) : S.decide.asks(name)}</h3>
    ${pending.summary && html`<p class="summary">${pending.summary}</p>`}
    ${pending.asked_again && html`<p class="quiet">${S.decide.again}</p>`}
    <${Circumstances} pending=${pending} owner=${owner} />
    <${Denials} denials=${pending.denied_before} />
    <${Votes} pending=${pending} />
    ${!voted && me && hasVoted(pending, me) && html`<p role="status">${S.decide.voted}</p>`}
    ${mine && pending.approval && !pending.approval.requester ? html`<${Facts} values=${pending.kind === "input" ? pending.payload : pending.args} /><p>${S.decide.onlyOthers(pending.approval.by)}</p>`
      : voted ? html`<p role="status">${S.decide.voted}</p>`
      : pending.kind === "input" ? html`<${InputForm} ...${common} />`
        : mode === "edit" ? html`<${EditForm} ...${common} />`
          : mode === "deny" ? html`<${DenyForm} ...${common} />`
            : html`<${Ask} ...${common} />`}
    <${Trouble} error=${action.error} />
  </section>`;
}

function Circumstances({ pending, owner }) {
  const rule = pending.approval;
  return html`<p class="quiet small facts">
    ${pending.risk && html`<span class=${`tag risk-${pending.risk}`}>${S.decide.risk[pending.risk] || pending.risk}</span>`}
    ${owner && html`<span>${S.decide.owner} ${owner}</span>`}
    ${pending.requested_at && html`<span>${S.decide.asked} <${Time} at=${pending.requested_at} /></span>`}
    ${pending.expires_at && html`<span>${S.decide.expires} <${Time} at=${pending.expires_at} /></span>`}
    ${rule && html`<span>${S.decide.others(rule.quorum || 1, (rule.by || []).join(S.decide.or))}</span>`}
    ${rule?.quorum > 1 && html`<span>${S.decide.quorum(agreeing(pending), rule.quorum)}</span>`}
  </p>`;
}

/** Calls of the tool that persons denied earlier in this run, which whoever decides now should know. */
function Denials({ denials }) {
  if (!denials?.length) return null;
  return html`<div class="denials small"><p class="label">${S.decide.before}</p><ul>${denials.map((each, n) => html`<li key=${n}>
    <span>${brief(each.args)}</span> <span class="quiet">${denialOf(each)} <${Time} at=${each.at} /></span></li>`)}</ul></div>`;
}

const denialOf = ({ decided_by: by, on_behalf_of: person, reason }) =>
  `${S.decide.by(S.decide.decided.denied, person || by)}${reason ? `: ${reason}` : ""}`;

function Facts({ values }) {
  const entries = values && typeof values === "object" && !Array.isArray(values) ? Object.entries(values) : [["", values]];
  if (!entries.length) return html`<p class="quiet small">${S.decide.noArgs}</p>`;
  return html`<dl class="values">${entries.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${
    Array.isArray(value) && value.every((each) => typeof each !== "object") ? value.join(", ") : shown(value)}</dd></div>`)}</dl>`;
}

function Reason({ id: field, value, onValue, needed, disabled }) {
  return html`<div class="field"><label for=${field}>${S.decide.reason}${!needed && html` <span class="quiet small">${S.decide.optional}</span>`}</label>
    <input id=${field} type="text" value=${value} required=${needed} disabled=${disabled} maxlength="10000" onInput=${(e) => onValue(e.currentTarget.value)} /></div>`;
}

const withReason = (body, reason) => (reason.trim() ? { ...body, reason: reason.trim() } : body);

function Ask({ pending, prefix, send, busy, setMode }) {
  const [reason, setReason] = useState("");
  const needed = Boolean(pending.approval?.reason_required);
  const submit = (event) => { event.preventDefault(); send("approve", withReason({}, reason)); };
  return html`<form onSubmit=${submit}><${Facts} values=${pending.args} />
    ${needed && html`<${Reason} id=${`${prefix}-reason`} value=${reason} onValue=${setReason} needed disabled=${busy} />`}
    <div class="actions">
      <button type="submit" class="primary" disabled=${busy}>${S.decide.approve}</button>
      <button type="button" disabled=${busy} data-mode="edit" onClick=${() => setMode("edit")}>${S.decide.edit}</button>
      <button type="button" disabled=${busy} data-mode="deny" onClick=${() => setMode("deny")}>${S.decide.deny}</button>
    </div></form>`;
}

function EditForm({ pending, prefix, send, busy, setMode }) {
  const form = useForm(schemaOf(pending.args || {}), pending.args || {});
  const [reason, setReason] = useState("");
  const submit = (event) => {
    event.preventDefault();
    const found = form.values();
    if (found) send("approve", withReason({ args: found.value }, reason));
  };
  return html`<form onSubmit=${submit}><${Fields} form=${form} prefix=${`${prefix}-edit`} disabled=${busy} />
    <${Reason} id=${`${prefix}-reason`} value=${reason} onValue=${setReason} needed=${pending.approval?.reason_required} disabled=${busy} />
    <div class="actions"><button type="submit" class="primary" disabled=${busy}>${S.decide.approveEdited}</button>
      <button type="button" disabled=${busy} onClick=${() => setMode("ask")}>${S.decide.back}</button></div></form>`;
}

function DenyForm({ pending, prefix, send, busy, setMode }) {
  const [reason, setReason] = useState("");
  const submit = (event) => { event.preventDefault(); send("deny", withReason({}, reason)); };
  return html`<form onSubmit=${submit}><${Facts} values=${pending.args} />
    <${Reason} id=${`${prefix}-reason`} value=${reason} onValue=${setReason} needed=${pending.approval?.reason_required} disabled=${busy} />
    <div class="actions"><button type="submit" class="danger" disabled=${busy}>${S.decide.confirmDeny}</button>
      <button type="button" disabled=${busy} onClick=${() => setMode("ask")}>${S.decide.back}</button></div></form>`;
}

function InputForm({ pending, prefix, send, busy }) {
  const form = useForm(pending.resume_schema || {});
  const submit = (event) => {
    event.preventDefault();
    const found = form.values();
    if (found) send("resume", { data: found.value });
  };
  return html`<form onSubmit=${submit}>
    ${pending.payload !== null && pending.payload !== undefined && html`<${Facts} values=${pending.payload} />`}
    ${pending.resume_schema?.description && html`<p class="quiet small">${pending.resume_schema.description}</p>`}
    <${Fields} form=${form} prefix=${prefix} payload=${pending.payload} disabled=${busy} />
    <div class="actions"><button type="submit" class="primary" disabled=${busy}>${S.decide.send}</button></div></form>`;
}
