import { textOf } from "./branches.js";
import { Decision, Votes, brief } from "./decision.js";
import { decidable, html, shown } from "./dom.js";
import { FileChip } from "./files.js";
import { Markdown } from "./markdown.js";
import { ownOf } from "./names.js";
import { isSame } from "./numbers.js";
import { S } from "./strings.js";

/** The contents of a run: text, reasoning, calls and what is nested in them. */
export function Blocks({ blocks, ...more }) {
  return blocks.map((block, n) => html`<${Block} key=${block.id || n} block=${block} ...${more} />`);
}

function Block({ block, ...more }) {
  switch (block.kind) {
    case "text": return html`<${Markdown} text=${block.text} />`;
    case "reasoning": return html`<details class="reasoning"><summary>${block.draft ? S.chat.thinking : S.chat.thought}</summary><${Markdown} text=${block.text} /></details>`;
    case "call": return html`<${Call} call=${block} ...${more} />`;
    case "draft-call": return html`<div class="call"><div class="call-head"><span class="dot planned" /> <code>${block.name}</code><span class="quiet small">${S.call.planned}</span></div></div>`;
    case "said": return html`<div class="asked"><div class="bubble"><div class="typed" dir="auto">${textOf(block.message)}</div>
      ${block.message.refused && html`<p class="quiet small note">${S.chat.refused}</p>`}</div></div>`;
    case "agent": return html`<section class="nested" aria-label=${`${S.call.agent} ${block.name}`}><p class="quiet small">${block.name}</p><${Blocks} blocks=${block.blocks} ...${more} /></section>`;
    case "file": return html`<${FileChip} part=${block.part} />`;
    case "data": return html`<details class="reasoning"><summary>${block.name}</summary><pre tabindex="0"><code>${shown(block.data)}</code></pre></details>`;
    case "note": return html`<p class="quiet small note">${noteOf(block)}</p>`;
    default: return null;
  }
}

const noteOf = ({ note, from, to, steps, tools, by, at, n, event, reason }) => ({
  restarted: S.chat.restarted, changed: S.chat.changed, handoff: S.chat.handoff(from, to), fallback: S.chat.fallback(from, to),
  retried: S.chat.retried(reason, n), waits: note === "waits" && S.chat.modelWaits(from, at, reason), redriven: S.chat.redriven, without: note === "without" && S.chat.without(from, tools),
  loop: note === "loop" && S.chat.loop(steps, tools), extended: S.chat.extended(by, at), reminder: S.chat.reminder(n), escalated: note === "escalated" && S.chat.escalated(to),
  spared: note === "spared" && S.chat.spared(event),
})[note];

/** What an approver changed of a call's arguments: `[{name, was, now}]`. The model leaves out what has a default, so an
 *  argument that only the approver names is no change where nothing but the model's own words are known. */
export function editsOf({ asked, decision }) {
  const now = decision?.args, before = asked?.args;
  if (!now || !before) return [];
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  return names.filter((name) => (asked.isWhole || Object.hasOwn(before, name)) && !isSame(ownOf(before, name), now[name]))
    .map((name) => ({ name, was: ownOf(before, name), now: now[name] }));
}

export function Edits({ edits }) {
  if (!edits.length) return null;
  const said = (value) => (value === undefined ? S.decide.nothing : decidable(value));
  return html`<dl class="values edits">${edits.map(({ name, was, now }) => html`<div key=${name}><dt>${name}</dt><dd><del>${said(was)}</del> <ins>${said(now)}</ins></dd></div>`)}</dl>`;
}

function Call({ call, onDecided, me }) {
  const decision = call.decision;
  const edits = editsOf(call);
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
    ${decision?.decision && html`<p class="quiet small note">${S.decide.by(S.decide.decided[decision.decision] || decision.decision, decision.on_behalf_of || decision.decided_by || "")}${edits.length ? ` ${S.decide.changed}` : ""}${decision.reason ? `: ${decision.reason}` : ""}</p>`}
    <${Edits} edits=${edits} />
    ${decision?.given?.length > 1 && html`<${Votes} pending=${{ args: call.args, approval: decision }} />`}
    ${call.blocks.length > 0 && html`<section class="nested" aria-label=${`${S.call.agent} ${call.name}`}><${Blocks} blocks=${call.blocks} onDecided=${onDecided} me=${me} /></section>`}
    ${call.pending && html`<${Decision} key=${`${call.id}-${call.pending.attempt}`} pending=${call.pending} mine me=${me} heading="h2" onDecided=${onDecided} />`}
  </div>`;
}
